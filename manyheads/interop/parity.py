"""Whether a model says the same elsewhere.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from manyheads.modules.transformer import Tokens
from manyheads.tasks.portable import TOKENS, Portable, Row, chunks

SAME = 1e-3  # between log-probabilities in 32 bits: more than rounding explains


class Parity(NamedTuple):
    """How far a model elsewhere is from the network it was made of."""

    largest: float  # difference between log-probabilities of one token, or states
    different: int  # texts of which greedy decoding wrote other tokens
    texts: int
    by: str = ""  # by what it was found, where not by what it was written for


class Runtime(ABC):
    """A model as something else runs it."""

    by = ""  # what it is, where it is not what the model was written for

    def __init__(self, model: Portable):
        self.model = model

    def batch(self, rows: Sequence[Row]) -> tuple[Tokens, ...]:
        return self.model.batch(rows)

    @abstractmethod
    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        """What the network gives for a batch."""

    @abstractmethod
    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        """Greedily for each source, or on from each text."""

    def difference(self, rows: Sequence[Row]) -> float:
        """The largest from what our network gives, padding left out."""
        batch = self.batch(rows)
        ours, theirs, mask = self.model.network(*batch), self.scores(batch), token_mask(batch[-1])
        found = [largest_apart(ours, theirs, mask)]
        if self.model.writes:
            found.append(largest_apart(ours.log_softmax(-1), theirs.log_softmax(-1), mask))
        return find_worst(found)


@torch.no_grad()
def compare(runtime: Runtime, rows: Sequence[Row], longest: int = TOKENS) -> Parity:
    """What runs elsewhere against its network: what both give, and what both write."""
    model, largest, different = runtime.model, [], 0
    for some in chunks(rows):
        largest.append(runtime.difference(some))
        if model.writes:
            ours, theirs = model.write(some, longest), runtime.write(some, longest)
            different += sum(a != b for a, b in zip(ours, theirs, strict=True))
    return Parity(find_worst(largest), different, len(rows), runtime.by)


def find_worst(differences: Iterable[float]) -> float:
    """The largest; NaN where one of them is NaN, which `max` would pass over."""
    each = list(differences)
    return next((one for one in each if math.isnan(one)), max(each))


def largest_apart(ours: Tensor, theirs: Tensor, mask: Tensor) -> float:
    """The largest difference where nothing is padding; of a verdict on whole texts, of all."""
    difference = (ours - theirs).abs()
    return float(difference.max() if ours.dim() == 2 else difference[mask > 0].max())


def token_mask(tokens: Tokens) -> Tensor:
    """(B, T), 1 where a token is no padding."""
    counts = getattr(tokens.seen, "lengths", None)
    if counts is None:
        return torch.ones_like(tokens.ids)
    return (torch.arange(tokens.ids.shape[1], device=counts.device) < counts[:, None]).long()
