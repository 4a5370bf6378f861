"""Sampling: draw tokens at random.

B batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.config import Sampling
from manyheads.decoding.greedy import ChooseToken, Over, number_rows, write_each
from manyheads.decoding.step import Step

FEW = 1000  # tokens


def sample(
    step: Step,
    start: Tensor,
    bounds: Bounds,
    how: Sampling = Sampling(),
    numbers: Sequence[int] | None = None,
    over: Over | None = None,
) -> list[Hypothesis]:
    """Continue `start` (B, T) by sampling; log-probabilities are the model's own, before top_p etc.

    Each sequence has its own random generator, seeded by the seed and its number in the whole
    input, so that its tokens do not depend on the batch.
    """
    choose = choose_by_chance(how, number_rows(numbers, len(start)))
    return write_each(step, start, bounds, choose, over)


def choose_by_chance(how: Sampling, numbers: Sequence[int]) -> ChooseToken:
    """Return a function that draws a token for each sequence; `numbers` seed their generators."""
    check_drawn(how)
    chance = [Random(f"{how.seed} {number}") for number in numbers]

    def choose(logs: Tensor, rows: Sequence[int]) -> Tensor:
        return pick(weigh_tokens(logs, how), [chance[row].random() for row in rows])

    return choose


def check_drawn(how: Sampling) -> None:
    if not how.temperature:
        raise ValueError("tokens are drawn at a temperature over 0, got 0, whose limit is greedy")


def keep_top_p(weights: Tensor, share: float) -> Tensor:
    """Keep the largest weights of each row, until they sum up to this share."""
    # Mostly a few are enough, and sorting a whole vocabulary takes as long as a small network.
    falling, order = weights.topk(min(FEW, weights.shape[1]))
    if (falling.sum(-1) < share).any():
        falling, order = weights.sort(-1, descending=True)
    return drop_spare(weights, falling, order, share)


def drop_spare(weights: Tensor, falling: Tensor, order: Tensor, share: float) -> Tensor:
    """The same, given the largest weights of each row in descending order and their ids (B, N)."""
    spare = falling.cumsum(-1) - falling >= share  # the tokens before it already have this share
    return torch.zeros_like(weights).scatter(1, order, falling.masked_fill(spare, 0))


def weigh_tokens(
    logs: Tensor, how: Sampling, keep: Callable[[Tensor, float], Tensor] = keep_top_p
) -> Tensor:
    """Turn log-probabilities (B, V) into sampling weights, which need not sum to 1.

    [.5, .3, .2] with top_p=.6 -> [.5, .3, 0]
    """
    logs = logs / how.temperature
    if 0 < how.top_k < logs.shape[1]:
        logs = logs.masked_fill(logs < logs.topk(how.top_k).values[:, -1:], -torch.inf)
    weights = logs.softmax(-1)
    if how.top_p < 1:
        weights = keep(weights, how.top_p)
    if how.min_p > 0:
        enough = how.min_p * weights.amax(-1, keepdim=True)
        weights = weights.masked_fill(weights < enough, 0)
    return weights


def pick(weights: Tensor, shares: Sequence[float]) -> Tensor:
    """Pick in each row the token at this share of the summed weights; a share is in [0, 1)."""
    behind = weights.double().cumsum(-1)  # (B, V)
    # 1 - share lies in (0, 1], so that a token without weight is never picked.
    left = 1 - torch.tensor(shares, dtype=torch.double, device=weights.device)
    found = torch.searchsorted(behind, left[:, None] * behind[:, -1:])[:, 0]
    return found.clamp(max=weights.shape[1] - 1)  # past the end only if no token has weight
