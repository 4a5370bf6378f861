"""Tokens drawn by chance.

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
    """Write on from `start` (B, T); log-probabilities are the model's own, whatever was drawn from.

    Each sequence has a chance of its own, by the seed and its number in the whole input, so that
    what is drawn for it does not depend on its batch.
    """
    choose = choose_by_chance(how, number_rows(numbers, len(start)))
    return write_each(step, start, bounds, choose, over)


def choose_by_chance(how: Sampling, numbers: Sequence[int]) -> ChooseToken:
    """A token by chance for each of the sequences with these numbers in the whole input."""
    check_drawn(how)
    chance = [Random(f"{how.seed} {number}") for number in numbers]

    def choose(logs: Tensor, rows: Sequence[int]) -> Tensor:
        return pick(weigh_tokens(logs, how), [chance[row].random() for row in rows])

    return choose


def check_drawn(how: Sampling) -> None:
    if not how.temperature:
        raise ValueError("tokens are drawn at a temperature over 0, got 0, whose limit is greedy")


def keep_top_p(weights: Tensor, share: float) -> Tensor:
    """Only the largest of each row, until they make up this share."""
    # Most often a few are enough, and to sort a whole vocabulary takes as long as a small network.
    falling, order = weights.topk(min(FEW, weights.shape[1]))
    if (falling.sum(-1) < share).any():
        falling, order = weights.sort(-1, descending=True)
    return drop_spare(weights, falling, order, share)


def drop_spare(weights: Tensor, falling: Tensor, order: Tensor, share: float) -> Tensor:
    """The same, by the largest of each row and their numbers (B, N)."""
    spare = falling.cumsum(-1) - falling >= share  # those before it are enough
    return torch.zeros_like(weights).scatter(1, order, falling.masked_fill(spare, 0))


def weigh_tokens(
    logs: Tensor, how: Sampling, keep: Callable[[Tensor, float], Tensor] = keep_top_p
) -> Tensor:
    """Log-probabilities (B, V) -> how often each token is drawn, up to a factor for each row.

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
    """In each row the token where this share of all weights is left behind, from 0 to below 1."""
    behind = weights.double().cumsum(-1)  # (B, V)
    # From the end, so that it is over 0 and at most all: a token without weight is never met.
    left = 1 - torch.tensor(shares, dtype=torch.double, device=weights.device)
    found = torch.searchsorted(behind, left[:, None] * behind[:, -1:])[:, 0]
    return found.clamp(max=weights.shape[1] - 1)  # past the end only where nothing has weight
