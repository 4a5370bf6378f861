"""Output distributions: how likely the values of a pixel are, given the outputs of a head.

P values of a token, L levels, K logistics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

# Gets the log-probabilities of all levels (..., L) and the number of the value; returns it (...)
Choose: TypeAlias = Callable[[Tensor, int], Tensor]


class Likelihood(Protocol):
    """The output distribution of a head."""

    @property
    def outputs(self) -> int:
        """Number of outputs of the head for a token."""

    def log_probs(self, outputs: Tensor, values: Tensor) -> Tensor:
        """Outputs (..., O) and values (..., P) -> their log-probabilities (...)"""

    def choose_values(self, outputs: Tensor, choose: Choose) -> Tensor:
        """Choose the values of a token one after another: outputs (..., O) -> (..., P)"""

    def first_outputs(self) -> Tensor:
        """Return the initial outputs of a head, its bias (O,)"""


class Categorical:
    """A softmax over the levels of one value."""

    def __init__(self, levels: int):
        self.levels = self.outputs = levels

    def log_probs(self, outputs: Tensor, values: Tensor) -> Tensor:
        flat = F.cross_entropy(
            outputs.float().flatten(0, -2), values[..., 0].flatten(), reduction="none"
        )
        return -flat.view(outputs.shape[:-1])

    def choose_values(self, outputs: Tensor, choose: Choose) -> Tensor:
        return choose(outputs.log_softmax(-1, dtype=torch.float32), 0)[..., None]

    def first_outputs(self) -> Tensor:
        return torch.zeros(self.outputs)


class LogisticMixture:
    """A mixture of logistics over whole pixels, cut into levels (PixelCNN++).

    For each logistic the head gives its weight and, for each channel, its mean and width; the mean
    of a later channel moves with the values of the channels before it. The lowest and highest
    level take all that lies beyond them, so that probabilities add up to 1.
    """

    def __init__(self, levels: int, parts: int, count: int):
        self.levels, self.parts, self.count = levels, parts, count
        self.sizes = [count, count * parts, count * parts, count * parts * (parts - 1) // 2]

    @property
    def outputs(self) -> int:
        return sum(self.sizes)

    def read(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Log-weights (..., K); means, log of 1 / width, and how means move (..., K, n)"""
        weights, places, widths, moves = outputs.float().split(self.sizes, -1)
        shape = (self.count, -1)
        return (
            weights.log_softmax(-1),
            places.unflatten(-1, shape),
            widths.unflatten(-1, shape).clamp(-7.0, 7.0),
            moves.tanh().unflatten(-1, shape) if self.parts > 1 else moves[..., None],
        )

    def first_outputs(self) -> Tensor:
        """Spread the logistics: if they were equal at first, they would stay so for long."""
        weights, places, widths, moves = torch.zeros(self.outputs).split(self.sizes)
        apart = torch.linspace(-1, 1, self.count + 2)[1:-1].repeat_interleave(self.parts)
        return torch.cat([weights, places + apart, widths + 1.5, moves])

    def scale(self, values: Tensor) -> Tensor:
        """Levels -> -1 to 1"""
        return values.float() * (2 / (self.levels - 1)) - 1

    def log_probs(self, outputs: Tensor, values: Tensor) -> Tensor:
        weights, places, widths, moves = self.read(outputs)
        values = values[..., None, :]  # the same for all logistics
        each = [
            self.score(
                self.move(places, moves, values[..., :part]), widths[..., part], values[..., part]
            )
            for part in range(self.parts)
        ]
        return torch.logsumexp(weights + sum(each), -1)

    def choose_values(self, outputs: Tensor, choose: Choose) -> Tensor:
        weights, places, widths, moves = self.read(outputs)
        every = torch.arange(self.levels, device=outputs.device)[:, None]  # the same for all
        values = outputs.new_empty(*outputs.shape[:-1], 0, dtype=torch.long)
        for part in range(self.parts):
            place = self.move(places, moves, values[..., None, :])
            logs = self.score(place[..., None, :], widths[..., None, :, part], every)  # (..., L, K)
            shares = weights.log_softmax(-1)[..., None, :]
            value = choose(torch.logsumexp(shares + logs, -1), part)
            values = torch.cat([values, value[..., None]], -1)
            # What was chosen changes the weights of the logistics.
            at = value[..., None, None].expand(*value.shape, 1, self.count)
            weights = weights + logs.gather(-2, at)[..., 0, :]
        return values

    def move(self, places: Tensor, moves: Tensor, before: Tensor) -> Tensor:
        """Return the means of the next channel after the values of those before it, (..., K)"""
        part = before.shape[-1]
        place = places[..., part]
        for earlier in range(part):
            move = moves[..., part * (part - 1) // 2 + earlier]
            place = place + move * self.scale(before[..., earlier])
        return place

    def score(self, place: Tensor, width: Tensor, value: Tensor) -> Tensor:
        """Return the log-probability of a value by each logistic, (..., K).

        σ(a) - σ(b) = σ(a) σ(-b) (1 - exp(b - a)) avoids the difference of two close numbers.
        """
        steep = width.exp()
        half = 1 / (self.levels - 1)
        away = (self.scale(value) - place) * steep
        above, below = F.logsigmoid(away + half * steep), F.logsigmoid(half * steep - away)
        inside = above + below + torch.log(-torch.expm1(-2 * half * steep))
        lowest, highest = value == 0, value == self.levels - 1
        return torch.where(lowest, above, torch.where(highest, below, inside))
