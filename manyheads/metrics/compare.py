"""Compare two systems, and values by the length of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from manyheads.metrics.measured import Measured


@dataclass(frozen=True)
class Difference:
    """The difference of two systems; p is the probability of such a difference by chance."""

    difference: float
    low: float  # 95 of 100 resamples lie between low and high
    high: float
    p: float
    resamples: int

    def __str__(self) -> str:
        return (
            f"{self.difference:+.2f}, 95% within {self.low:+.2f} and {self.high:+.2f}, "
            f"p = {self.p:.3f} ({self.resamples} resamples)"
        )


def paired_bootstrap(
    ours: Measured, theirs: Measured, *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """Measure both systems again on the same examples, drawn with replacement.

    p is two-sided: the share of resamples that lie at least as far from their mean as the
    difference lies from zero, the difference itself counted as one of them.
    """
    check_alike(ours, theirs)
    if resamples < 1:
        raise ValueError(f"a bootstrap needs 1 resample or more, got {resamples}")
    random = np.random.default_rng(seed)
    count = len(ours.counts)
    differences = np.empty(resamples)
    for i in range(resamples):
        times = np.bincount(random.integers(count, size=count), minlength=count).astype(float)
        differences[i] = ours.over(times) - theirs.over(times)
    difference = ours.value - theirs.value
    low, high = np.percentile(differences, [2.5, 97.5])
    as_far = np.abs(differences - differences.mean()) >= abs(difference)
    p = (int(as_far.sum()) + 1) / (resamples + 1)
    return Difference(difference, float(low), float(high), p, resamples)


def check_alike(ours: Measured, theirs: Measured) -> None:
    if ours.signature != theirs.signature:
        raise ValueError(
            "two systems must be measured alike to be compared, these are "
            f"{ours.signature} and {theirs.signature}"
        )
    if len(ours.counts) != len(theirs.counts):
        raise ValueError(
            "two systems must be measured on the same examples to be compared, these have "
            f"{len(ours.counts)} and {len(theirs.counts)}"
        )


@dataclass(frozen=True)
class Bucket:
    """The examples whose sources have a number of words in one range."""

    words: str
    count: int
    value: float


def by_length(
    measured: Measured, sources: Sequence[str], edges: Sequence[int] = (10, 20, 30, 40, 50)
) -> list[Bucket]:
    """Return the value for each range of source lengths, counted in words between spaces.

    A range without examples has no row.
    """
    if len(sources) != len(measured.counts):
        raise ValueError(
            f"{len(measured.counts)} examples were measured, {len(sources)} sources cannot sort "
            "them by length; each needs its own"
        )
    if not edges or edges[0] < 1 or any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges must be rising numbers of words from 1, got {list(edges)}")
    bucket_of = np.searchsorted(edges, [len(source.split()) for source in sources], side="right")
    rows = []
    for bucket, name in enumerate(name_buckets(edges)):
        inside = bucket_of == bucket
        if inside.any():
            rows.append(Bucket(name, int(inside.sum()), measured.over(inside.astype(float))))
    return rows


def name_buckets(edges: Sequence[int]) -> list[str]:
    """(10, 20) -> ["under 10", "10 to 19", "20 and more"]"""
    between = [f"{low} to {high - 1}" for low, high in pairwise(edges)]
    return [f"under {edges[0]}", *between, f"{edges[-1]} and more"]
