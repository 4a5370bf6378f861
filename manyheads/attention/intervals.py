"""Interval arithmetic: compute with many numbers at once, by their smallest and largest.

A pattern is written once, as a predicate on a pair. Evaluated on tensors it gives True or False for
every pair; evaluated on intervals it tells for a whole block of pairs whether any may be allowed
and whether all surely are. Kernels that skip blocks plan with intervals and visit no Q x K pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

WORDS = "a pattern is written with & | ~ and single comparisons, not and, or, not, or a < x < b"

# The ends of an interval: tensors, or plain numbers if they are known without a tensor.
End: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Truth:
    """Two answers about a block of pairs: may some be allowed, and are all surely allowed?"""

    some: End
    all: End

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.some & other.some, self.all & other.all)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.some | other.some, self.all | other.all)

    def __invert__(self) -> Truth:
        return Truth(self.all ^ True, self.some ^ True)  # ~True is -2 for a plain bool

    def __bool__(self) -> bool:
        raise TypeError(WORDS)

    def __eq__(self, other: object) -> bool:
        raise TypeError("what is known of a block is not compared")

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Interval:
    """Numbers from `low` to `high`, both included. Bounds may be loose, never wrong.

    (2..5) - (1..3) -> (-1..4);   (2..5) <= (5..9) -> some: yes, all: yes
    """

    low: End
    high: End

    def __add__(self, other: Any) -> Interval:
        low, high = bounds(other)
        return Interval(self.low + low, self.high + high)

    def __sub__(self, other: Any) -> Interval:
        low, high = bounds(other)
        return Interval(self.low - high, self.high - low)

    def __rsub__(self, other: Any) -> Interval:
        return self * -1 + other

    def __mul__(self, factor: int) -> Interval:
        if not isinstance(factor, int):
            raise TypeError(f"an interval is multiplied by a plain number, got {factor!r}")
        ends = self.low * factor, self.high * factor
        return Interval(*ends) if factor >= 0 else Interval(*reversed(ends))

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, divisor: int) -> Interval:
        if not isinstance(divisor, int) or divisor <= 0:
            raise TypeError(f"an interval is divided by a positive number, got {divisor!r}")
        return Interval(self.low // divisor, self.high // divisor)

    def __abs__(self) -> Interval:
        # If the ends differ in sign, the interval contains 0.
        near = larger_end(larger_end(self.low, -self.high), self.low * 0)
        return Interval(near, larger_end(self.high, -self.low))

    def __le__(self, other: Any) -> Truth:
        low, high = bounds(other)
        return Truth(self.low <= high, self.high <= low)

    def __lt__(self, other: Any) -> Truth:
        low, high = bounds(other)
        return Truth(self.low < high, self.high < low)

    def __ge__(self, other: Any) -> Truth:
        low, high = bounds(other)
        return Truth(self.high >= low, self.low >= high)

    def __gt__(self, other: Any) -> Truth:
        low, high = bounds(other)
        return Truth(self.high > low, self.low > high)

    def __eq__(self, other: Any) -> Any:
        low, high = bounds(other)
        overlap = (self.low <= high) & (self.high >= low)
        return Truth(overlap, (self.low == high) & (self.high == low))

    def __ne__(self, other: Any) -> Any:
        return ~(self == other)

    __hash__ = object.__hash__


# Tensor or Interval, Tensor or Truth: a type checker cannot follow operators on such a union.
Number: TypeAlias = Any
Verdict: TypeAlias = Any


def bounds(x: Any) -> tuple[End, End]:
    return (x.low, x.high) if isinstance(x, Interval) else (x, x)


def larger_end(a: End, b: End) -> End:
    return torch.maximum(a, b) if isinstance(a, Tensor) else max(a, b)


def pool_runs(table: Tensor, size: int) -> Interval:
    """Return the smallest and largest number of each run of `size` along the last axis.

    [3, 1, 4, 1, 5], 2 -> [1..3, 1..4, 5..5]
    """
    missing = -table.shape[-1] % size
    if missing:
        last = table[..., -1:].expand(*table.shape[:-1], missing)
        table = torch.cat([table, last], -1)
    runs = table.unflatten(-1, (-1, size))
    return Interval(runs.amin(-1), runs.amax(-1))
