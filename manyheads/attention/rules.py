"""Rules that map a distance to an entry of a table.

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
        """Return for each axis an index into a table of `size` entries."""

    def refuses(self, pairs: Pairs) -> str:
        """Say why the rule has no meaning on these places; empty if it has one."""
        return ""


@dataclass(frozen=True)
class Clipped(Rule):
    """Distances up to `reach` in both directions; larger ones count as `reach` (Shaw)."""

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
    """An entry for every distance in sequences of up to `length` tokens (Music Transformer)."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"Every takes a length from 1 up, got {self.length}")

    @property
    def size(self) -> int:
        return 2 * self.length - 1

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        last = self.length - 1  # unconnected nodes of a graph are farther apart than any path
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
    """An entry for each near distance, buckets on a log scale for others, up to `far` (T5)."""

    count: int = 32
    far: int = 128
    both_ways: bool = True  # False: no key is ahead of the query, all buckets are for earlier ones

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
    """Use the label of a graph's edge instead of a distance: relation-aware attention."""

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
        if not labels.is_cpu or not labels.numel():  # do not wait for a GPU
            return ""
        low, high = map(int, labels.aminmax())
        if low >= 0 and high < self.count:
            return ""
        wrong = high if high >= self.count else low
        return f"{self} has labels 0 to {self.count - 1}, {wrong} arrived"
