"""Tokens drawn by chance.

B batch, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.greedy import ChooseToken, Over, write_each
from manyheads.decoding.step import Step

FEW = 1000  # tokens


@dataclass(frozen=True)
class Sampling:
    """What is left to chance: all of it as it stands, less with each setting, in this order.

    What a step does to its logits comes before all of them: `Repeats` makes tokens dearer there.
    """

    temperature: float = 1.0  # below 1 favours the likely, above 1 the unlikely
    top_k: int = 0  # only this many of the likeliest; 0 for all
    top_p: float = 1.0  # only the likeliest that together have this probability
    min_p: float = 0.0  # only those with this share of the likeliest one's probability
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature is over 0 and finite, got {self.temperature}; greedy is the limit "
                "of temperature 0"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k counts tokens, 0 for all of them, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is a probability over 0, up to 1, got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p is a share from 0 to 1, got {self.min_p}")

    def weights(self, logs: Tensor) -> Tensor:
        """Log-probabilities (B, V) -> how often each token is drawn, up to a factor for each row.

        [.5, .3, .2] with top_p=.6 -> [.5, .3, 0]
        """
        logs = logs / self.temperature
        if 0 < self.top_k < logs.shape[1]:
            logs = logs.masked_fill(logs < logs.topk(self.top_k).values[:, -1:], -torch.inf)
        weights = logs.softmax(-1)
        if self.top_p < 1:
            weights = keep_top_p(weights, self.top_p)
        if self.min_p > 0:
            enough = self.min_p * weights.amax(-1, keepdim=True)
            weights = weights.masked_fill(weights < enough, 0)
        return weights


def sampling_for(
    temperature: float, *, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, seed: int = 0
) -> Sampling | None:
    """None at temperature 0, where the likeliest token is taken and nothing is left to chance."""
    if not 0 <= temperature < math.inf:
        raise ValueError(f"a temperature is a finite number from 0 (greedy) up, got {temperature}")
    if temperature == 0 and (top_k or top_p < 1 or min_p):
        raise ValueError("top_k, top_p and min_p narrow what is drawn; give a temperature too")
    how = Sampling(temperature or 1.0, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    return how if temperature else None


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
    numbers = range(len(start)) if numbers is None else numbers
    if len(numbers) != len(start):
        raise ValueError(f"{len(numbers)} numbers came for {len(start)} sequences")
    return write_each(step, start, bounds, choose_by_chance(how, numbers), over)


def choose_by_chance(how: Sampling, numbers: Sequence[int]) -> ChooseToken:
    """A token by chance for each of the sequences with these numbers in the whole input."""
    chance = [Random(f"{how.seed} {number}") for number in numbers]

    def choose(logs: Tensor, rows: Sequence[int]) -> Tensor:
        return pick(how.weights(logs), [chance[row].random() for row in rows])

    return choose


def keep_top_p(weights: Tensor, share: float) -> Tensor:
    """Only the largest of each row, until they make up this share."""
    # Most often a few are enough, and to sort a whole vocabulary takes as long as a small network.
    falling, order = weights.topk(min(FEW, weights.shape[1]))
    if (falling.sum(-1) < share).any():
        falling, order = weights.sort(-1, descending=True)
    spare = falling.cumsum(-1) - falling >= share  # those before it are enough
    return torch.zeros_like(weights).scatter(1, order, falling.masked_fill(spare, 0))


def pick(weights: Tensor, shares: Sequence[float]) -> Tensor:
    """In each row the token where this share of all weights is left behind, from 0 to below 1."""
    behind = weights.double().cumsum(-1)  # (B, V)
    # From the end, so that it is over 0 and at most all: a token without weight is never met.
    left = 1 - torch.tensor(shares, dtype=torch.double, device=weights.device)
    found = torch.searchsorted(behind, left[:, None] * behind[:, -1:])[:, 0]
    return found.clamp(max=weights.shape[1] - 1)  # past the end only where nothing has weight
