"""The likeliest token at every step.

B batch, T tokens, V vocabulary; S sentences that have W sequences each, one where they are greedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, nothing_left
from manyheads.decoding.chances import few, log_probabilities, promising
from manyheads.decoding.step import Step

# Log-probabilities (B, V) and the numbers of these sequences in the input -> a token each (B,).
Choice: TypeAlias = Callable[[Tensor, Sequence[int]], Tensor]


def greedy(step: Step, start: Tensor, bounds: Bounds) -> list[Hypothesis]:
    """Write on from `start` (B, T)."""
    return written(step, start, bounds, likeliest)


def likeliest(logs: Tensor, rows: Sequence[int]) -> Tensor:
    among = promising(logs.new_zeros(len(logs), 1), logs)
    best = logs.gather(1, among).argmax(-1, keepdim=True)
    return among.gather(1, best)[:, 0]


@torch.no_grad()
def written(step: Step, start: Tensor, bounds: Bounds, choose: Choice) -> list[Hypothesis]:
    """Each sequence by itself, one token after another, as `choose` says."""
    limits = bounds.limits(len(start))
    ids: list[list[int]] = [[] for _ in limits]
    logs: list[list[float]] = [[] for _ in limits]
    rows = [*range(len(limits))]  # in the batch; some of them may be done
    going = {row for row in rows if limits[row]}
    token, count = start, 0
    while going:
        if few(len(going), len(rows)):
            kept = [i for i, row in enumerate(rows) if row in going]
            step.select(torch.tensor(kept, device=token.device))
            rows, token = [rows[i] for i in kept], token[kept]
        chances = bounds.rule_out(log_probabilities(step(token)), count, rows)
        token = choose(chances, rows)[:, None]  # (B, 1)
        found = chances.gather(1, token)
        count += 1
        for row, number, log in zip(rows, token[:, 0].tolist(), found[:, 0].tolist(), strict=True):
            if row not in going:
                continue
            if not math.isfinite(log):
                raise nothing_left(row, count - 1)
            ids[row].append(number)
            logs[row].append(log)
            if number == bounds.stop or count == limits[row]:
                going.remove(row)
    return [Hypothesis.of(*each, bounds.stop) for each in zip(ids, logs, strict=True)]
