"""Greedy decoding: take the likeliest token at every step.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, check_start, nothing_left
from manyheads.decoding.step import Step, are_few, blockwise_topk, to_log_probs

LOOK_EVERY = 8  # tokens generated on the device before the host reads them

# Log-probabilities (B, V) and the numbers of the sequences in the input -> a token each (B,).
ChooseToken: TypeAlias = Callable[[Tensor, Sequence[int]], Tensor]
# The number of a sequence in the input and its new token -> whether the sequence ends here.
Over: TypeAlias = Callable[[int, int], bool]


class WrittenToken(NamedTuple):
    """One token of one sequence."""

    row: int  # its number in the input
    token: int
    log: float


def greedy(step: Step, start: Tensor, bounds: Bounds, over: Over | None = None) -> list[Hypothesis]:
    """Continue `start` (B, T) with the likeliest tokens."""
    return write_each(step, start, bounds, choose_likeliest, over)


def number_rows(numbers: Sequence[int] | None, count: int) -> Sequence[int]:
    """Return the given numbers of the sequences, or 0, 1, ... if there are none."""
    numbers = range(count) if numbers is None else numbers
    if len(numbers) != count:
        raise ValueError(f"{len(numbers)} numbers came for {count} sequences")
    return numbers


def choose_likeliest(logs: Tensor, rows: Sequence[int]) -> Tensor:
    if logs.is_cuda:  # the first of equal ones, for any number of rows
        return logs.argmax(-1)
    among = blockwise_topk(logs.new_zeros(len(logs), 1), logs)
    best = logs.gather(1, among).argmax(-1, keepdim=True)
    return among.gather(1, best)[:, 0]


def write_each(
    step: Step, start: Tensor, bounds: Bounds, choose: ChooseToken, over: Over | None = None
) -> list[Hypothesis]:
    """Continue each sequence token by token; `choose` picks the tokens."""
    if over is None and start.is_cuda:
        return write_ahead(step, start, bounds, choose)
    ids: list[list[int]] = [[] for _ in start]
    logs: list[list[float]] = [[] for _ in start]
    for new in write_rounds(step, start, bounds, choose, over):
        for row, token, log in new:
            ids[row].append(token)
            logs[row].append(log)
    return [Hypothesis.of(*each, bounds.stops) for each in zip(ids, logs, strict=True)]


@torch.no_grad()
def write_rounds(
    step: Step, start: Tensor, bounds: Bounds, choose: ChooseToken, over: Over | None = None
) -> Iterator[list[WrittenToken]]:
    """Yield the next token of every unfinished sequence, also the stop, until all are finished.

    `over` is called for each token that does not end its sequence anyway.
    """
    limits = bounds.limits(len(start))
    rows = [*range(len(limits))]  # in the batch; some may be finished
    ids: list[list[int]] = [[] for _ in rows]
    going = {row for row in rows if limits[row]}
    token, count = check_start(start), 0
    while going:
        if are_few(len(going), len(rows)):
            kept = [i for i, row in enumerate(rows) if row in going]
            step.select(torch.tensor(kept, device=token.device))
            rows, token = [rows[i] for i in kept], token[kept]
        log_probs = bounds.rule_out(to_log_probs(step(token)), count, rows)
        token = choose(log_probs, rows)[:, None]  # (B, 1)
        found = log_probs.gather(1, token)
        count += 1
        each = zip(rows, token[:, 0].tolist(), found[:, 0].tolist(), strict=True)
        new = [WrittenToken(row, number, log) for row, number, log in each if row in going]
        for row, number, log in new:
            if not math.isfinite(log):
                raise nothing_left(row, count - 1)
            ids[row].append(number)
            done = number in bounds.stops or count == limits[row] or bounds.loops(ids[row])
            if done or (over is not None and over(row, number)):
                going.remove(row)
        yield new


def write_ahead(step: Step, start: Tensor, bounds: Bounds, choose: ChooseToken) -> list[Hypothesis]:
    """Like `write_each` on a GPU: the host reads the tokens only every few steps, and drops what a
    sequence has written after its end.
    """
    papers = [Paper(limit, bounds) for limit in bounds.limits(len(start))]
    rows = [*range(len(papers))]  # in the batch; some may be finished
    token, count = check_start(start), 0
    while going := [row for row in rows if papers[row].going]:
        if are_few(len(going), len(rows)):
            kept = [i for i, row in enumerate(rows) if papers[row].going]
            step.select(torch.tensor(kept, device=token.device))
            rows, token = going, token[kept]
        left = max(papers[row].limit for row in going) - count
        tokens, logs = list[Tensor](), list[Tensor]()
        for _ in range(min(LOOK_EVERY, left)):
            log_probs = bounds.rule_out(to_log_probs(step(token)), count, rows)
            token = choose(log_probs, rows)[:, None]  # (B, 1)
            tokens.append(token)
            logs.append(log_probs.gather(1, token))
            count += 1
        both = torch.cat(tokens, 1).tolist(), torch.cat(logs, 1).tolist()
        for row, new, found in zip(rows, *both, strict=True):
            papers[row].take(row, new, found)
    return [paper.hypothesis() for paper in papers]


class Paper:
    """The tokens of one sequence, as far as the host has read them."""

    def __init__(self, limit: int, bounds: Bounds):
        self.limit, self.bounds = limit, bounds
        self.ids: list[int] = []
        self.logs: list[float] = []
        self.going = limit > 0

    def take(self, row: int, ids: Sequence[int], logs: Sequence[float]) -> list[int]:
        """Append new tokens up to the stop or the limit, and return those appended."""
        had, bounds = len(self.ids), self.bounds
        after = had + len(ids)
        goes_on = after < min(self.limit, bounds.loop or self.limit)
        if self.going and goes_on and bounds.stop_set.isdisjoint(ids) and math.isfinite(sum(logs)):
            self.ids += ids
            self.logs += logs
            return [*ids]
        for token, log in zip(ids, logs, strict=True):
            if not self.going:
                break
            if not math.isfinite(log):
                raise nothing_left(row, len(self.ids))
            self.ids.append(token)
            self.logs.append(log)
            ended = token in bounds.stops or len(self.ids) >= self.limit
            self.going = not (ended or (bounds.loop and bounds.loops(self.ids)))
        return self.ids[had:]

    def hypothesis(self) -> Hypothesis:
        return Hypothesis.of(self.ids, self.logs, self.bounds.stops)
