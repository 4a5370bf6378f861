"""The likeliest token at every step.

B batch, T tokens, V vocabulary; S sentences that have W sequences each, one where they are greedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, check_start, nothing_left
from manyheads.decoding.log_probs import are_few, blockwise_topk, to_log_probs
from manyheads.decoding.step import Step

# Log-probabilities (B, V) and the numbers of these sequences in the input -> a token each (B,).
ChooseToken: TypeAlias = Callable[[Tensor, Sequence[int]], Tensor]
# The number of a sequence in the input and the token it wrote -> whether that was its last.
Over: TypeAlias = Callable[[int, int], bool]


class WrittenToken(NamedTuple):
    """One token of one sequence."""

    row: int  # its number in the input
    token: int
    log: float


def greedy(step: Step, start: Tensor, bounds: Bounds, over: Over | None = None) -> list[Hypothesis]:
    """Write on from `start` (B, T)."""
    return write_each(step, start, bounds, choose_likeliest, over)


def choose_likeliest(logs: Tensor, rows: Sequence[int]) -> Tensor:
    among = blockwise_topk(logs.new_zeros(len(logs), 1), logs)
    best = logs.gather(1, among).argmax(-1, keepdim=True)
    return among.gather(1, best)[:, 0]


def write_each(
    step: Step, start: Tensor, bounds: Bounds, choose: ChooseToken, over: Over | None = None
) -> list[Hypothesis]:
    """Each sequence by itself, one token after another, as `choose` says."""
    ids: list[list[int]] = [[] for _ in start]
    logs: list[list[float]] = [[] for _ in start]

    def ended(row: int, token: int) -> bool:
        return (over is not None and over(row, token)) or bounds.loops([*ids[row], token])

    for new in write_rounds(step, start, bounds, choose, ended if bounds.loop else over):
        for row, token, log in new:
            ids[row].append(token)
            logs[row].append(log)
    return [Hypothesis.of(*each, bounds.stops) for each in zip(ids, logs, strict=True)]


@torch.no_grad()
def write_rounds(
    step: Step, start: Tensor, bounds: Bounds, choose: ChooseToken, over: Over | None = None
) -> Iterator[list[WrittenToken]]:
    """A token more of every sequence that is not done, the stop included, until all are.

    `over` is asked of each token that is not the last anyway.
    """
    limits = bounds.limits(len(start))
    rows = [*range(len(limits))]  # in the batch; some of them may be done
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
            done = number in bounds.stops or count == limits[row]
            if done or (over is not None and over(row, number)):
                going.remove(row)
        yield new
