"""Which examples make which batch: a pure function of lengths, seed and epoch.

Nothing is kept between epochs, so a run that is resumed in the middle of one has only to count.

N examples, S sides of an example (a source and a target, or one text).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import le, sub
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

OPEN = 8  # rows that are filled at once
Row = list[int]  # the examples that lie end to end in one row


@dataclass(frozen=True)
class Packing:
    """Batches of fixed shape: `rows` rows, each with room for `widths` tokens on each side.

    Examples are laid down in a random order, so that batches are mixed as if they were not packed.
    """

    rows: int
    widths: tuple[int, ...]

    def batches(self, lengths: ArrayLike, *, seed: int, epoch: int) -> list[list[Row]]:
        """Every example once; the last batch may have fewer rows."""
        table = self.checked(lengths)
        packed = self.fill(table, np.random.default_rng([seed, epoch]).permutation(len(table)))
        return [packed[i : i + self.rows] for i in range(0, len(packed), self.rows)]

    def fill(self, table: NDArray[np.int64], examples: NDArray[np.int64]) -> list[Row]:
        """An example goes into the first of a few open rows that has room for it on all sides; if
        none has, the one with the least room left is closed.

        Placing the longest first would fill a row by a hundredth more, and take thirty times as
        long, which a fast device would have to wait for.
        """
        rows: list[Row] = []
        left: list[list[int]] = []  # room of each open row, one number a side
        lying: list[Row] = []
        for example, sizes in zip(examples.tolist(), table[examples].tolist(), strict=True):
            for room, row in zip(left, lying, strict=True):
                if all(map(le, sizes, room)):
                    room[:] = map(sub, room, sizes)
                    row.append(example)
                    break
            else:
                if len(left) == OPEN:
                    least = min(range(OPEN), key=lambda i: min(left[i]))
                    rows.append(lying.pop(least))
                    left.pop(least)
                left.append([*map(sub, self.widths, sizes)])
                lying.append([example])
        return rows + lying

    def checked(self, lengths: ArrayLike) -> NDArray[np.int64]:
        table = np.asarray(lengths, dtype=np.int64)
        if table.ndim != 2 or table.shape[1] != len(self.widths):
            raise ValueError(
                f"each example has {len(self.widths)} lengths here, got an array of {table.shape}"
            )
        refuse_longer(
            table, self.widths, f"a row has room for {list(self.widths)}", "widen the rows"
        )
        return table

    def filled(self, batches: list[list[Row]], lengths: ArrayLike) -> float:
        """The share of all room that tokens take."""
        used = np.asarray(lengths)[[i for batch in batches for row in batch for i in row]].sum()
        return float(used / (sum(map(len, batches)) * sum(self.widths)))


@dataclass(frozen=True)
class Padding:
    """Batches for networks that read one example a row: like lengths together, as little padding.

    Examples are drawn at random, `chunk` at a time, and each chunk is sorted: by the longest side,
    which limits a batch, then by the last (the target), then by the others. What is equally long
    stays in random order.
    """

    tokens: int  # of a batch with its padding, on its larger side: rows × longest
    rows: int = 0  # of a batch at most; 0: as many as the tokens allow
    chunk: int = 65536

    def batches(self, lengths: ArrayLike, *, seed: int, epoch: int) -> list[list[Row]]:
        """Every example once, each alone in its row."""
        table = self.checked(lengths)
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(len(table))
        cut: list[list[Row]] = []
        for start in range(0, len(order), self.chunk):
            some = order[start : start + self.chunk]
            sides = table[some]
            cut += self.cut(table, some[np.lexsort([*sides.T, sides.max(1)])])
        return [cut[i] for i in random.permutation(len(cut))]

    def cut(self, table: NDArray[np.int64], examples: NDArray[np.int64]) -> list[list[Row]]:
        """Neighbours go together while they fit."""
        cut: list[list[Row]] = []
        longest = 0
        for example, length in zip(examples.tolist(), table[examples].max(1).tolist(), strict=True):
            longest = max(longest, length)
            rows = len(cut[-1]) + 1 if cut else 0
            if not rows or rows * longest > self.tokens or 0 < self.rows < rows:
                cut.append([])
                longest = length
            cut[-1].append([example])
        return cut

    def checked(self, lengths: ArrayLike) -> NDArray[np.int64]:
        table = np.asarray(lengths, dtype=np.int64)
        if table.ndim != 2 or not table.shape[1]:
            raise ValueError(f"each example has a length a side, got an array of {table.shape}")
        refuse_longer(
            table, self.tokens, f"a batch has room for {self.tokens}", "allow more tokens"
        )
        return table

    def filled(self, batches: list[list[Row]], lengths: ArrayLike) -> float:
        """The share of all room, padding included, that tokens take."""
        table = np.asarray(lengths)
        each = [table[[i for row in batch for i in row]] for batch in batches]
        room = sum(len(batch) * int(batch.max(0).sum()) for batch in each)
        return float(sum(int(batch.sum()) for batch in each) / room)


def refuse_longer(table: NDArray[np.int64], most: ArrayLike, room: str, remedy: str) -> None:
    long = np.flatnonzero((table > np.asarray(most)).any(1))
    if len(long):
        first = int(long[0])
        raise ValueError(
            f"example {first} has {table[first].tolist()} tokens, {room}; leave it out, or {remedy}"
        )


class PlannedBatches:
    """Which examples make which batch, by a plan.

    `weights` say how much of what is wanted each example has.
    """

    def __init__(
        self,
        lengths: NDArray[np.int64],  # (N, S)
        weights: NDArray[np.int64],  # (N)
        plan: Packing | Padding,
        seed: int,
    ):
        self.lengths, self.weights, self.plan, self.seed = lengths, weights, plan, seed

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    def epoch(self, number: int) -> list[Any]:
        return self.plan.batches(self.lengths, seed=self.seed, epoch=number)

    def count(self, rows: Sequence[Any]) -> int:
        return int(self.weights[[i for row in rows for i in row]].sum())

    def area(self, rows: Sequence[Any]) -> int:
        """The tokens of a batch, what fills it up included."""
        if isinstance(self.plan, Packing):
            return self.plan.rows * sum(self.plan.widths)
        return len(rows) * int(self.lengths[[row[0] for row in rows]].max(0).sum())

    def share(self, rows: list[Any], part: int, parts: int) -> list[Any]:
        """One part of a batch, of the same shape as the others: every so many rows of it."""
        if isinstance(self.plan, Packing):
            rows = rows + [[]] * (self.plan.rows - len(rows))
        return rows[part::parts]


class ListBatches(PlannedBatches):
    """Batches of the sequences in a list: one a row, like lengths together."""

    def __init__(
        self, examples: Sequence[Any], make: Callable[[list[Any]], Any], tokens: int, seed: int = 0
    ):
        """`make` lays some examples out as a batch that has `to(device)`; it may get none."""
        lengths = np.array([len(one) for one in examples], dtype=np.int64)
        super().__init__(lengths[:, None], lengths, Padding(tokens), seed)
        self.examples, self.make = examples, make

    def batch(self, rows: Sequence[Row]) -> Any:
        return self.make([self.examples[row[0]] for row in rows])
