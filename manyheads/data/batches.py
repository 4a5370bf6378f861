"""Plan which examples form a batch, as a pure function of lengths, seed and epoch; and how they lie
in its rows.

No state is kept between epochs, so a run that is resumed within one only has to count batches.

N examples, S sides of an example (a source and a target, or one text).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import le, sub
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from manyheads.attention.patterns import Everything, Lengths, Segments
from manyheads.attention.places import line, packed
from manyheads.modules.transformer import Tokens

OPEN = 8  # rows that are open at a time
Row = list[int]  # the examples that lie end to end in one row


@dataclass(frozen=True)
class Packing:
    """Batches of fixed shape: `rows` rows, each with room for `widths` tokens on each side.

    Examples are placed in random order, so that batches are mixed as if they were not packed.
    """

    rows: int
    widths: tuple[int, ...]

    def batches(self, lengths: ArrayLike, *, seed: int, epoch: int) -> list[list[Row]]:
        """Plan batches with every example once; the last batch may have fewer rows."""
        room = f"a row has room for {list(self.widths)}"
        table = check_lengths(lengths, self.widths, room, "widen the rows")
        packed = self.fill(table, np.random.default_rng([seed, epoch]).permutation(len(table)))
        return [packed[i : i + self.rows] for i in range(0, len(packed), self.rows)]

    def fill(self, table: NDArray[np.int64], examples: NDArray[np.int64]) -> list[Row]:
        """Put each example into the first of a few open rows that has room on all sides; if none
        has, close the row with the least room left.

        Placing the longest first would fill rows by a hundredth more, but takes thirty times as
        long, and a fast device would have to wait for it.
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


@dataclass(frozen=True)
class Padding:
    """Batches with one example per row: similar lengths together, for little padding.

    Examples are drawn at random, `chunk` at a time, and each chunk is sorted: by the longest side,
    which limits a batch, then by the last (the target), then by the others. Examples of equal
    length stay in random order.
    """

    tokens: int  # of a batch with padding, on its longer side: rows × longest
    chunk: int = 65536

    def batches(self, lengths: ArrayLike, *, seed: int, epoch: int) -> list[list[Row]]:
        """Plan batches with every example once, each alone in its row."""
        room = f"a batch has room for {self.tokens}"
        table = check_lengths(lengths, self.tokens, room, "allow more tokens")
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(len(table))
        cut: list[list[Row]] = []
        for start in range(0, len(order), self.chunk):
            some = order[start : start + self.chunk]
            sides = table[some]
            cut += self.cut(table, some[np.lexsort([*sides.T, sides.max(1)])])
        return [cut[i] for i in random.permutation(len(cut))]

    def cut(self, table: NDArray[np.int64], examples: NDArray[np.int64]) -> list[list[Row]]:
        """Cut sorted examples into batches: neighbours go together while they fit."""
        cut: list[list[Row]] = []
        longest = 0
        for example, length in zip(examples.tolist(), table[examples].max(1).tolist(), strict=True):
            longest = max(longest, length)
            rows = len(cut[-1]) + 1 if cut else 0
            if not rows or rows * longest > self.tokens:
                cut.append([])
                longest = length
            cut[-1].append([example])
        return cut


def check_lengths(
    lengths: ArrayLike, most: int | tuple[int, ...], room: str, remedy: str
) -> NDArray[np.int64]:
    """Return the lengths as a table (N, S); refuse an example that is too long."""
    table = np.asarray(lengths, dtype=np.int64)
    sides = len(most) if isinstance(most, tuple) else max((1, *table.shape[1:2]))
    if table.ndim != 2 or table.shape[1] != sides:
        many = f"{sides} lengths here" if isinstance(most, tuple) else "a length a side"
        raise ValueError(f"each example has {many}, got an array of {table.shape}")
    long = np.flatnonzero((table > np.asarray(most)).any(1))
    if len(long):
        first = int(long[0])
        raise ValueError(
            f"example {first} has {table[first].tolist()} tokens, {room}; leave it out, or {remedy}"
        )
    return table


class PlannedBatches:
    """Batches by a plan.

    `weights` are what `count` adds up over a batch, such as the target tokens of each example.
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
        """Return the number of tokens in a batch, with padding."""
        if isinstance(self.plan, Packing):
            return self.plan.rows * sum(self.plan.widths)
        return len(rows) * int(self.lengths[[row[0] for row in rows]].max(0).sum())

    def share(self, rows: list[Any], part: int, parts: int) -> list[Any]:
        """Return one part of a batch, with the shape of the others: every `parts`-th row."""
        if isinstance(self.plan, Packing):
            rows = rows + [[]] * (self.plan.rows - len(rows))
        return rows[part::parts]


class ListBatches(PlannedBatches):
    """Batches of the sequences in a list: one per row, similar lengths together."""

    def __init__(
        self, examples: Sequence[Any], make: Callable[[list[Any]], Any], tokens: int, seed: int = 0
    ):
        """`make` turns some examples into a batch that has `to(device)`; the list may be empty."""
        lengths = np.array([len(one) for one in examples], dtype=np.int64)
        super().__init__(lengths[:, None], lengths, Padding(tokens), seed)
        self.examples, self.make = examples, make

    def batch(self, rows: Sequence[Row]) -> Any:
        return self.make([self.examples[row[0]] for row in rows])


Item = TypeVar("Item")
Made = TypeVar("Made")
Ints = NDArray[np.int64]
WIDTH = 512  # tokens of a packed row, where no example is longer
SHORT = 128  # the same where all examples are short: a row is then one tile of attention
NOTHING = -100  # target where nothing is wanted: the ignore_index of torch's losses


def within_rows(counts: Ints, row_of: Ints) -> Ints:
    """Return where each example begins in its row: [2, 3, 1], [0, 0, 1] -> [0, 2, 0]"""
    starts = counts.cumsum() - counts
    first = np.searchsorted(row_of, row_of)
    return starts - starts[first]


def split_off(examples: Sequence[Item], chosen: set[int]) -> tuple[list[Item], list[Item]]:
    """Return the other examples, and those with these indices: [a b c], {1} -> [a c], [b]"""
    others = [one for i, one in enumerate(examples) if i not in chosen]
    return others, [examples[i] for i in sorted(chosen)]


def split_by_sizes(counts: Ints, sizes: Sequence[int]) -> list[list[int]]:
    """[2, 3, 1], [2, 1] -> [[2, 3], [1]]"""
    flat = iter(counts.tolist())
    return [[next(flat) for _ in range(size)] for size in sizes]


def lay_out(
    ids: Tensor, counts: Ints, sizes: Sequence[int] | None = None, longest: int = 0
) -> Tokens:
    """Return Tokens for rows (R, T) of examples with `counts` tokens: one per row, or `sizes` of
    them packed in each.

    `longest` is the longest example of all batches: with it, all batches are of the same kind.
    """
    width = ids.shape[1]
    if sizes is None:
        same = bool((counts == width).all())
        return Tokens(ids, line(width), Everything() if same else Lengths(torch.from_numpy(counts)))
    lengths = split_by_sizes(counts, sizes)
    return Tokens(ids, packed(lengths, width, longest=longest), Segments.of(lengths, width))


def batch_by_length(sources: Sequence[Sequence[Any]], tokens: int) -> Iterator[list[int]]:
    """Yield indices of sources of like length, longest first: [[a b], [c], [d e]] -> [0, 2], [1]"""
    rows: list[int] = []
    for i in sorted(range(len(sources)), key=lambda i: -len(sources[i])):
        if rows and (len(rows) + 1) * (len(sources[rows[0]]) + 1) > tokens:
            yield rows
            rows = []
        rows.append(i)
    if rows:
        yield rows


def map_by_length(
    work: Callable[[list[int]], Iterable[Made]],
    sources: Sequence[Sequence[Any]],
    tokens: int,
    spread: Callable[[Any, list[list[int]]], Iterable[Iterable[Made]]] = map,
) -> list[Made]:
    """Return what `work` makes of each source, in order: it is called with the indices of sources
    of similar length, and `spread` may share these groups among processes.
    """
    groups, found = [*batch_by_length(sources, tokens)], dict[int, Made]()
    for rows, made in zip(groups, spread(work, groups), strict=True):
        found |= zip(rows, made, strict=True)
    return [found[i] for i in range(len(sources))]


FIRST = 16  # texts, so that output appears soon
LONG_CHARACTERS = 1000  # texts before one of this length do not wait for it


def gather_texts(
    texts: Iterable[str], at_once: int, ready: Callable[[], bool] = lambda: True
) -> Iterator[list[str]]:
    """Yield lists of texts: short ones at first, so that output appears soon, then up to `at_once`.

    Texts do not wait for one that is not ready, nor for a long one after them.

    An error in a text is raised after those before it were yielded.
    """
    some: list[str] = []
    few = min(FIRST, at_once)
    try:
        for text in texts:
            if some and len(text) > LONG_CHARACTERS:
                yield some
                some = []
            some.append(text)
            if len(some) == few:
                yield some
                some, few = [], min(4 * few, at_once)
            elif len(text) > LONG_CHARACTERS or not ready():
                yield some
                some = []
    except ValueError:
        if some:
            yield some
        raise
    if some:
        yield some
