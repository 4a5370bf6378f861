"""Which entry of a table a distance reads.

N distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from manyheads.attention.places import Graph, Pair, Pairs
from manyheads.attention.tables import PairTable


class Rule(Protocol):
    @property
    def size(self) -> int: ...
    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        """An index into a table of `size`, for each axis."""

    def refuses(self, pairs: Pairs) -> str:
        """Why it means nothing on these places; empty where it does."""
        return ""


@dataclass(frozen=True)
class Clipped(Rule):
    """Distances up to `reach` each way; all that is farther counts as `reach` (Shaw)."""

    reach: int

    def __post_init__(self) -> None:
        if self.reach < 0:
            raise ValueError(f"Clipped takes a reach from 0 up, got {self.reach}")

    @property
    def size(self) -> int:
        return 2 * self.reach + 1

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        return tuple(step.clamp(-self.reach, self.reach) + self.reach for step in pair.apart)


@dataclass(frozen=True)
class Every(Rule):
    """Each distance by itself, in sequences of up to `length` (Music Transformer)."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"Every takes a length from 1 up, got {self.length}")

    @property
    def size(self) -> int:
        return 2 * self.length - 1

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        last = self.length - 1  # nodes in different pieces of a graph are farther than any path
        return tuple(step.clamp(-last, last) + last for step in pair.apart)

    def refuses(self, pairs: Pairs) -> str:
        longest = max((*pairs.queries.sizes, *pairs.keys.sizes), default=0)
        if longest > self.length:
            return (
                f"{self} has a distance for sequences of {self.length}, one of {longest} arrived; "
                f"shorten it, or use Clipped(reach), which has no end"
            )
        if isinstance(pairs.queries, Graph) and len(pairs.queries) > self.length:
            return (
                f"{self} has a distance for {self.length} nodes, "
                f"{len(pairs.queries)} arrived; use Clipped(reach)"
            )
        return ""


@dataclass(frozen=True)
class Bucketed(Rule):
    """Near distances by themselves, far ones together by their logarithm, up to `far` (T5)."""

    count: int = 32
    far: int = 128
    both_ways: bool = True  # False: keys are never ahead, and all buckets look back

    def __post_init__(self) -> None:
        if self.count < 4 or self.count % 2 or self.far <= self.count // 2:
            raise ValueError(
                "Bucketed takes an even count from 4 up and a distance farther than half of it, "
                f"got {self.count} and {self.far}"
            )

    @property
    def size(self) -> int:
        return self.count

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        return tuple(map(self.bucket, pair.apart))

    def bucket(self, step: Tensor) -> Tensor:
        side = self.count // 2 if self.both_ways else self.count
        ahead = (step > 0).long() * side if self.both_ways else 0
        distance = step.abs() if self.both_ways else (-step).clamp(min=0)
        exact = side // 2
        growth = torch.log(distance.clamp(min=1) / exact) / math.log(self.far / exact)
        coarse = (exact + (growth * (side - exact)).long()).clamp(max=side - 1)
        return ahead + torch.where(distance < exact, distance, coarse)


@dataclass(frozen=True)
class Edges(Rule):
    """The label of a graph's edge in place of a distance: relation-aware attention."""

    count: int

    @property
    def size(self) -> int:
        return self.count

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        return (pair.edge,)

    def refuses(self, pairs: Pairs) -> str:
        at = pairs.queries
        if not isinstance(at, Graph) or at.edges is None:
            return (
                f"{self} reads the labels of a graph's edges, but {at.name} without labels arrived"
            )
        labels = at.edges.values if isinstance(at.edges, PairTable) else at.edges
        if not labels.is_cpu or not labels.numel():  # a GPU is not waited for
            return ""
        low, high = map(int, labels.aminmax())
        if low >= 0 and high < self.count:
            return ""
        wrong = high if high >= self.count else low
        return f"{self} has labels 0 to {self.count - 1}, {wrong} arrived"
