"""What can be said of many numbers at once, knowing only the smallest and the largest.

A pattern is written once, as a predicate on a pair. Evaluated on tensors it says yes or no to every
pair; evaluated on intervals it says of a whole block of pairs whether any may be allowed and
whether
all surely are. Kernels that skip blocks plan with the second and never look at Q x K pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Truth:
    """Of a block of pairs: may some be allowed, and are all of them?"""

    some: Tensor
    all: Tensor

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.some & other.some, self.all & other.all)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.some | other.some, self.all | other.all)

    def __invert__(self) -> Truth:
        return Truth(~self.all, ~self.some)


@dataclass(frozen=True, eq=False)
class Interval:
    """Numbers from `low` to `high`, both included. Bounds may be loose, never wrong.

    (2..5) - (1..3) -> (-1..4);   (2..5) <= (5..9) -> some: yes, all: yes
    """

    low: Tensor
    high: Tensor

    def __add__(self, other: Interval | Tensor | int) -> Interval:
        low, high = bounds(other)
        return Interval(self.low + low, self.high + high)

    def __sub__(self, other: Interval | Tensor | int) -> Interval:
        low, high = bounds(other)
        return Interval(self.low - high, self.high - low)

    def __mul__(self, factor: int) -> Interval:
        ends = self.low * factor, self.high * factor
        return Interval(*ends) if factor >= 0 else Interval(*reversed(ends))

    def __floordiv__(self, divisor: int) -> Interval:
        if divisor <= 0:
            raise ValueError(f"an interval is divided by a positive number, got {divisor}")
        return Interval(self.low // divisor, self.high // divisor)

    def __abs__(self) -> Interval:
        # The nearest point to zero is zero itself where the ends differ in sign.
        near = torch.maximum(self.low, -self.high).clamp(min=0)
        return Interval(near, torch.maximum(self.high, -self.low))

    def __le__(self, other: Interval | Tensor | int) -> Truth:
        low, high = bounds(other)
        return Truth(self.low <= high, self.high <= low)

    def __lt__(self, other: Interval | Tensor | int) -> Truth:
        low, high = bounds(other)
        return Truth(self.low < high, self.high < low)

    def __ge__(self, other: Interval | Tensor | int) -> Truth:
        return ~(self < other)

    def __gt__(self, other: Interval | Tensor | int) -> Truth:
        return ~(self <= other)

    def __eq__(self, other: Any) -> Any:
        low, high = bounds(other)
        overlap = (self.low <= high) & (self.high >= low)
        return Truth(overlap, (self.low == high) & (self.high == low))

    def __ne__(self, other: Any) -> Any:
        return ~(self == other)

    __hash__ = object.__hash__


# Tensor or Interval, Tensor or Truth: a checker cannot follow operators on such a union.
Number: TypeAlias = Any
Verdict: TypeAlias = Any


def bounds(x: Interval | Tensor | int) -> tuple[Tensor | int, Tensor | int]:
    return (x.low, x.high) if isinstance(x, Interval) else (x, x)


def pooled(table: Tensor, size: int) -> Interval:
    """The smallest and largest of each run of `size` along the last axis: [3, 1, 4, 1, 5], 2 ->
    [1..3, 1..4, 5..5]."""
    missing = -table.shape[-1] % size
    if missing:
        last = table[..., -1:].expand(*table.shape[:-1], missing)
        table = torch.cat([table, last], -1)
    runs = table.unflatten(-1, (-1, size))
    return Interval(runs.amin(-1), runs.amax(-1))
