"""Which examples make which batch: a pure function of lengths, seed and epoch.

Nothing is kept between epochs, so a run that is resumed in the middle of one has only to count.

N examples, S sides of an example (a source and a target, or one text).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Row = list[int]  # the examples that lie end to end in one row


@dataclass(frozen=True)
class Packing:
    """Batches of fixed shape: `rows` rows, each with room for `widths` tokens on each side.

    Examples are drawn at random, `chunk` at a time; of a chunk the longest are placed first, each
    in the first row where all its sides fit. That fills rows almost wholly and keeps batches mixed.
    """

    rows: int
    widths: tuple[int, ...]
    chunk: int = 8192

    def batches(self, lengths: ArrayLike, *, seed: int, epoch: int) -> list[list[Row]]:
        """Every example once; the last batch may have fewer rows."""
        table = self.checked(lengths)
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(len(table))
        packed: list[Row] = []
        for start in range(0, len(order), self.chunk):
            rows = self.fill(table, order[start : start + self.chunk])
            packed += [rows[i] for i in random.permutation(len(rows))]
        return [packed[i : i + self.rows] for i in range(0, len(packed), self.rows)]

    def fill(self, table: NDArray[np.int64], examples: NDArray[np.int64]) -> list[Row]:
        """First fit, longest first."""
        longest_first = examples[np.argsort(-table[examples].max(1), kind="stable")]
        rows: list[Row] = []
        room = np.empty((len(examples), len(self.widths)), dtype=np.int64)
        for example in longest_first.tolist():
            need = table[example]
            fits = (room[: len(rows)] >= need).all(1)
            row = int(fits.argmax()) if fits.any() else len(rows)
            if row == len(rows):
                rows.append([])
                room[row] = self.widths
            rows[row].append(example)
            room[row] -= need
        return rows

    def checked(self, lengths: ArrayLike) -> NDArray[np.int64]:
        table = np.asarray(lengths, dtype=np.int64)
        if table.ndim != 2 or table.shape[1] != len(self.widths):
            raise ValueError(
                f"each example has {len(self.widths)} lengths here, got an array of {table.shape}"
            )
        long = np.flatnonzero((table > np.asarray(self.widths)).any(1))
        if len(long):
            first = int(long[0])
            raise ValueError(
                f"example {first} has {table[first].tolist()} tokens, a row has room for "
                f"{list(self.widths)}; leave it out, or widen the rows"
            )
        return table

    def filled(self, batches: list[list[Row]], lengths: ArrayLike) -> float:
        """The share of all room that tokens take."""
        used = np.asarray(lengths)[[i for batch in batches for row in batch for i in row]].sum()
        return float(used / (sum(map(len, batches)) * sum(self.widths)))
