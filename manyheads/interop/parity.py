"""Compare a model with its export.

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

SAME = 1e-3  # the largest difference of log-probabilities in 32 bits that rounding explains


class Parity(NamedTuple):
    """The difference of an exported model and its network."""

    largest: float  # the largest difference of log-probabilities or states
    different: int  # texts for which greedy decoding wrote other tokens
    texts: int
    by: str = ""  # what ran the export, if not the library of the format


class Runtime(ABC):
    """A model that another library runs."""

    by = ""  # what runs it, if not the library of the format

    def __init__(self, model: Portable):
        self.model = model

    def batch(self, rows: Sequence[Row]) -> tuple[Tokens, ...]:
        return self.model.batch(rows)

    @abstractmethod
    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        """Return the outputs for a batch."""

    @abstractmethod
    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        """Decode greedily from each source, or continue each text."""

    def difference(self, rows: Sequence[Row]) -> float:
        """Return the largest difference from our network's outputs, without padding."""
        batch = self.batch(rows)
        ours, mask = self.model.network(*batch), token_mask(batch[-1])
        theirs = (self.scores(batch) - self.model.mean) / self.model.spread
        found = [largest_apart(ours, theirs, mask)]
        if self.model.writes:
            found.append(largest_apart(ours.log_softmax(-1), theirs.log_softmax(-1), mask))
        return find_worst(found)


@torch.no_grad()
def compare(runtime: Runtime, rows: Sequence[Row], longest: int = TOKENS) -> Parity:
    """Compare an export with its network: their outputs, and the tokens they write."""
    model, largest, different = runtime.model, [], 0
    for some in chunks(rows):
        largest.append(runtime.difference(some))
        if model.writes:
            ours, theirs = model.write(some, longest), runtime.write(some, longest)
            different += sum(a != b for a, b in zip(ours, theirs, strict=True))
    return Parity(find_worst(largest), different, len(rows), runtime.by)


def find_worst(differences: Iterable[float]) -> float:
    """Return the largest; NaN if one of them is NaN, which `max` would miss."""
    each = list(differences)
    return next((one for one in each if math.isnan(one)), max(each))


def largest_apart(ours: Tensor, theirs: Tensor, mask: Tensor) -> float:
    """Return the largest difference without padding; outputs per text (2 axes) have none."""
    difference = (ours - theirs).abs()
    return float(difference.max() if ours.dim() == 2 else difference[mask > 0].max())


def token_mask(tokens: Tokens) -> Tensor:
    """Return the attention mask (B, T): 1 for tokens, 0 for padding."""
    place = torch.arange(tokens.ids.shape[1], device=tokens.ids.device)
    return (place < tokens.lengths()[:, None]).long()
