"""How sequences lie in the rows of a batch: what all layouts share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
WIDTH = 512  # tokens of a packed row, where no example is longer
NOTHING = -100  # where nothing is wanted: what torch's losses leave out


def within_rows(counts: Ints, row_of: Ints) -> Ints:
    """Where each example begins in its row: [2, 3, 1], [0, 0, 1] -> [0, 2, 0]"""
    starts = counts.cumsum() - counts
    first = np.searchsorted(row_of, row_of)
    return starts - starts[first]


def split(counts: Ints, sizes: Sequence[int]) -> list[list[int]]:
    """[2, 3, 1], [2, 1] -> [[2, 3], [1]]"""
    flat = iter(counts.tolist())
    return [[next(flat) for _ in range(size)] for size in sizes]


def alike(sources: Sequence[Sequence[Any]], tokens: int) -> Iterator[list[int]]:
    """The numbers of sources of like length, longest first: [[a b], [c], [d e]] -> [0, 2], [1]"""
    rows: list[int] = []
    for i in sorted(range(len(sources)), key=lambda i: -len(sources[i])):
        if rows and (len(rows) + 1) * (len(sources[rows[0]]) + 1) > tokens:
            yield rows
            rows = []
        rows.append(i)
    if rows:
        yield rows
