"""How sequences lie in the rows of a batch: what all layouts share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.attention.patterns import Everything, Lengths, Segments
from manyheads.attention.places import line, packed
from manyheads.modules.transformer import Tokens

Item = TypeVar("Item")
Made = TypeVar("Made")
Ints = NDArray[np.int64]
WIDTH = 512  # tokens of a packed row, where no example is longer
SHORT = 128  # the same where all examples are short: a row is then one tile of attention
NOTHING = -100  # where nothing is wanted: what torch's losses leave out


def within_rows(counts: Ints, row_of: Ints) -> Ints:
    """Where each example begins in its row: [2, 3, 1], [0, 0, 1] -> [0, 2, 0]"""
    starts = counts.cumsum() - counts
    first = np.searchsorted(row_of, row_of)
    return starts - starts[first]


def split_off(examples: Sequence[Item], chosen: set[int]) -> tuple[list[Item], list[Item]]:
    """The others, and those of these numbers: [a b c], {1} -> [a c], [b]"""
    others = [one for i, one in enumerate(examples) if i not in chosen]
    return others, [examples[i] for i in sorted(chosen)]


def split(counts: Ints, sizes: Sequence[int]) -> list[list[int]]:
    """[2, 3, 1], [2, 1] -> [[2, 3], [1]]"""
    flat = iter(counts.tolist())
    return [[next(flat) for _ in range(size)] for size in sizes]


def lay_out(
    ids: Tensor, counts: Ints, sizes: Sequence[int] | None = None, longest: int = 0
) -> Tokens:
    """Rows (R, T) of examples of so many tokens: one a row, or so many end to end in each.

    No example of any batch is longer than the `longest`: said, all batches are of one kind.
    """
    width = ids.shape[1]
    if sizes is None:
        same = bool((counts == width).all())
        return Tokens(ids, line(width), Everything() if same else Lengths(torch.from_numpy(counts)))
    lengths = split(counts, sizes)
    return Tokens(ids, packed(lengths, width, longest=longest), Segments.of(lengths, width))


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


def map_alike(
    work: Callable[[list[int]], Iterable[Made]],
    sources: Sequence[Sequence[Any]],
    tokens: int,
    spread: Callable[[Any, list[list[int]]], Iterable[Iterable[Made]]] = map,
) -> list[Made]:
    """What the work makes of each source, in their order: it is handed the numbers of those of like
    length together, and `spread` may share such groups among processes.
    """
    groups, found = [*alike(sources, tokens)], dict[int, Made]()
    for rows, made in zip(groups, spread(work, groups), strict=True):
        found |= zip(rows, made, strict=True)
    return [found[i] for i in range(len(sources))]


FIRST = 16  # texts, so that something is soon to be seen
LONG_CHARACTERS = 1000  # a text of so many does not keep those before it waiting


def gather_texts(
    texts: Iterable[str], at_once: int, ready: Callable[[], bool] = lambda: True
) -> Iterator[list[str]]:
    """Few texts at first, so that something is soon to be seen, then up to so many.

    None waits here for one that is not yet ready, nor for a long one after it.

    What goes wrong with a text is raised after those before it were handed out.
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
