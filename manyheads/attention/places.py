"""Places: where a token is, and how far apart two tokens are.

A token has a row (its index in this tensor), an order (its index in the whole sequence) and, on a
line or a grid, a coordinate per axis. With a cache, row and order differ.

B batch, H heads, Q queries, K keys, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.intervals import Interval, Number, pool_runs
from manyheads.attention.tables import PairTable, pool_blocks
from manyheads.devices import send


@dataclass(frozen=True, eq=False)
class Grid:
    """Tokens with coordinates: (time,) on a line, (row, column, channel) in an image."""

    order: Tensor  # (T,) or (B, T)
    axes: tuple[Tensor, ...]  # each (T,) or (B, T)
    sizes: tuple[int, ...]  # coordinates on axis a are below sizes[a]: known on the host
    first: int | None = None  # order is first, first + 1, ...; None if it is not such a run
    documents: bool = False  # packed documents: the axis counts from 0 in each, one step per row
    straight: bool = field(init=False)  # order equals row

    def __post_init__(self) -> None:
        object.__setattr__(self, "straight", self.first == 0)

    @property
    def name(self) -> str:
        return "a line" if len(self.axes) == 1 else f"a grid of {len(self.axes)} axes"

    @property
    def device(self) -> torch.device:
        return self.order.device

    def __len__(self) -> int:
        return self.order.shape[-1]

    def __getitem__(self, part: slice) -> Grid:
        """Slice the places: `line(8)[5:]` are those of the last three tokens."""
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise ValueError(f"places are cut in runs of neighbours, got a step of {step}")
        first = None if self.first is None else self.first + start
        return replace(self.each(lambda x: x[..., start:stop]), first=first)

    def each(self, change: Callable[[Tensor], Tensor]) -> Grid:
        """Apply `change` to order and axes; an axis that is the order tensor stays the order."""
        order = change(self.order)
        axes = tuple(order if axis is self.order else change(axis) for axis in self.axes)
        return replace(self, order=order, axes=axes)

    def then(self, later: Grid) -> Grid:
        """Append later places to these, as a cache appends keys."""
        runs_on = self.first is not None and later.first == self.first + len(self)
        order = join_tokens(self.order, later.order)
        axes = tuple(
            order if a is self.order and b is later.order else join_tokens(a, b)
            for a, b in zip(self.axes, later.axes, strict=True)
        )
        sizes = tuple(map(max, self.sizes, later.sizes))
        return Grid(order, axes, sizes, self.first if runs_on else None)

    def to(self, device: torch.device | str) -> Grid:
        return self.each(lambda x: send(x, device))

    def select(self, rows: Tensor) -> Grid:
        """Return the places of these sequences of the batch, in this order."""
        return self.each(lambda x: x[rows] if x.dim() == 2 and len(x) > 1 else x)

    def misfit(self, batch: int) -> str:
        """Say why these places do not fit a batch of this size; empty if they do."""
        for table in (self.order, *self.axes):
            if table.dim() == 2 and len(table) not in (1, batch):
                return f"places for {len(table)} sequences came with a batch of {batch}"
        return ""

    def apart(self, q: Place, k: Place) -> tuple[Number, ...]:
        """Return the signed steps from query to key along each axis."""
        return tuple(j - i for i, j in zip(q.axes, k.axes, strict=True))


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes of a graph, given by their distances and the labels of their edges."""

    hops: Tensor | PairTable  # (B, T, T) number of edges on the shortest path
    edges: Tensor | PairTable | None = None  # (B, T, T) a label for every pair, also for "no edge"

    name = "a graph"
    axes, sizes, first, straight = (), (), None, True

    def __post_init__(self) -> None:
        for name, table in (("hops", self.hops), ("edges", self.edges)):
            if table is not None and (len(table.shape) != 3 or table.shape[1] != table.shape[2]):
                raise ValueError(
                    f"a graph's {name} are a square for each graph of the batch, (B, T, T), "
                    f"got {tuple(table.shape)}"
                )
        if self.edges is not None and self.edges.shape != self.hops.shape:
            raise ValueError(
                f"a graph's edges are as many as its hops, {tuple(self.edges.shape)} came with "
                f"{tuple(self.hops.shape)}"
            )

    @property
    def device(self) -> torch.device:
        return self.hops.device

    @property
    def order(self) -> Tensor:
        """The index of each node; it is no order in time, so `Causal` refuses graphs."""
        return torch.arange(len(self), device=self.device)

    def __len__(self) -> int:
        return self.hops.shape[-1]

    def each(self, change: Callable[[Any], Tensor | PairTable]) -> Graph:
        return Graph(change(self.hops), None if self.edges is None else change(self.edges))

    def to(self, device: torch.device | str) -> Graph:
        return self.each(lambda x: x.to(device) if isinstance(x, PairTable) else send(x, device))

    def select(self, rows: Tensor) -> Graph:
        if len(self.hops) == 1:
            return self
        return self.each(lambda x: x.select(rows) if isinstance(x, PairTable) else x[rows])

    def misfit(self, batch: int) -> str:
        fits = len(self.hops) in (1, batch)
        return "" if fits else f"{len(self.hops)} graphs came with a batch of {batch}"

    def apart(self, q: Place, k: Place) -> tuple[Number, ...]:
        return (look_up_pair(self.hops, q, k),)


Places: TypeAlias = Grid | Graph


def is_run(places: Places) -> bool:
    """Whether these are consecutive tokens on a line whose first place the host knows."""
    axes = places.axes
    return len(axes) == 1 and axes[0] is places.order and places.first is not None


def line(length: int, start: int | Tensor = 0, device: torch.device | str | None = None) -> Grid:
    """Consecutive tokens from `start` on; a tensor (B,) gives each sequence its own start."""
    check_whole("a line", length)
    if isinstance(start, Tensor):
        times = start[:, None] + torch.arange(length, device=start.device)
        last = int(start.max()) if len(start) else 0
        return Grid(times, (times,), (last + length,))
    time = torch.arange(start, start + length, device=device)
    return Grid(time, (time,), (start + length,), start)


def check_whole(what: str, *numbers: int) -> None:
    if not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise ValueError(f"{what} is measured in whole tokens, got {', '.join(map(str, numbers))}")


def grid(
    rows: int,
    columns: int,
    channels: int = 1,
    *,
    blocks: tuple[int, int] | None = None,
    device: torch.device | str | None = None,
) -> Grid:
    """An image in raster order, or block by block: all pixels of one block before the next block.

    Axes are (row, column), or (row, column, channel) if there are channels.
    """
    check_whole("a grid", rows, columns, channels)
    if blocks is not None and not (isinstance(blocks, tuple) and len(blocks) == 2):
        raise ValueError(f"blocks are rows x columns, as in (4, 4), got {blocks!r}")
    if min(rows, columns, channels, *(blocks or (1,))) < 1:
        raise ValueError(
            f"a grid and its blocks measure 1 or more, got {rows}x{columns}x{channels}"
            + (f" in blocks of {blocks[0]}x{blocks[1]}" if blocks else "")
        )
    sizes = (rows, columns, channels) if channels > 1 else (rows, columns)
    raster = torch.arange(math.prod(sizes))
    axes = torch.unravel_index(raster, sizes)
    if blocks:
        across = -(-columns // blocks[1])
        block = axes[0] // blocks[0] * across + axes[1] // blocks[1]
        turn = torch.argsort(block, stable=True)  # raster order inside a block
        axes = tuple(axis[turn] for axis in axes)
    return Grid(raster.to(device), tuple(axis.to(device) for axis in axes), sizes, 0)


def packed(lengths: Sequence[Sequence[int]], width: int, *, longest: int = 0) -> Grid:
    """Documents packed end to end, each counted from 0: [[2, 3]], 6 -> 0 1 0 1 2 0."""
    times, _ = end_to_end(lengths, width)
    longest = longest or max((length for row in lengths for length in row), default=1)
    return Grid(torch.arange(width), (times,), (longest,), 0, documents=True)


def end_to_end(lengths: Sequence[Sequence[int]], width: int) -> tuple[Tensor, Tensor]:
    """Return for each token of each row its index in its document, and the document's number.

    [[2, 3]], 6 -> [[0, 1, 0, 1, 2, 0]] and [[0, 0, 1, 1, 1, -1]]
    """
    documents = np.array([*map(len, lengths)], int)
    counts = np.fromiter(chain.from_iterable(lengths), int)
    if len(counts) and counts.min() < 0:
        raise ValueError(f"a document has 0 tokens or more, got {counts.min()}")
    # All rows at once: a loop over rows would take longer than the training step it is for.
    starts, firsts = np.cumsum(counts) - counts, np.cumsum(documents) - documents
    number = np.arange(len(counts)) - np.repeat(firsts, documents)
    totals = np.array([*map(sum, lengths)], int)
    if (totals > width).any():
        raise ValueError(
            f"documents of {totals.max()} tokens in all were packed into a row of {width}"
        )
    shift = np.arange(len(lengths)) * width - (np.cumsum(totals) - totals)  # of each row's tokens
    step = np.arange(counts.sum()) - np.repeat(starts, counts)
    place = np.arange(len(step)) + np.repeat(shift, totals)
    times, numbers = np.zeros((len(lengths), width), int), np.full((len(lengths), width), -1)
    times.flat[place], numbers.flat[place] = step, np.repeat(number, counts)
    return torch.from_numpy(times), torch.from_numpy(numbers)


def graph(edges: Iterable[tuple[int, int]], nodes: int, *, far: int | None = None) -> Graph:
    """Build one graph from undirected edges. Distances are at most `far`, which is also that of
    unconnected nodes (default: the number of nodes)."""
    near = torch.eye(nodes, dtype=torch.bool)
    for i, j in edges:
        if not (0 <= i < nodes and 0 <= j < nodes):
            raise ValueError(f"edge {i}-{j} names a node outside 0..{nodes - 1}")
        near[i, j] = near[j, i] = True
    hops = torch.full((nodes, nodes), nodes if far is None else far)
    reached, distance = torch.eye(nodes), 0
    while bool((fresh := (reached > 0) & (hops > distance)).any()):
        hops[fresh] = distance
        # Whether a node is reached, not by how many walks: that number would overflow.
        reached, distance = ((reached @ near.float()) > 0).float(), distance + 1
    return Graph(hops[None], edges=near.fill_diagonal_(False).long()[None])


def join_tokens(a: Tensor, b: Tensor) -> Tensor:
    """Concatenate along tokens; one may be shared by the batch, as a beam shares its prompt."""
    if rows := [len(x) for x in (a, b) if x.dim() == 2]:
        a, b = a.expand(max(rows), -1), b.expand(max(rows), -1)
    return torch.cat([a, b], -1)


# ---- one place, one pair ---------------------------------------------------------------------


class Place(Protocol):
    """One token or many: as tensors that broadcast, or as intervals that bound them."""

    @property
    def row(self) -> Number: ...
    @property
    def order(self) -> Number: ...
    @property
    def axes(self) -> tuple[Number, ...]: ...
    def pick(self, table: Tensor) -> Number:
        """Look up these rows in a table with an entry per row, (T,) or (B, T)."""


class Point:
    """One token, or index tensors that broadcast over many."""

    def __init__(self, places: Places, b: Tensor, row: Tensor):
        self.places, self.b, self.row = places, b, row

    def pick(self, table: Tensor) -> Tensor:
        if table.shape[-1] != len(self.places):
            raise ValueError(
                f"a table for {table.shape[-1]} tokens was asked about {len(self.places)}; with a "
                "cache, queries are only the last of them"
            )
        return table[self.row] if table.dim() == 1 else table[of_batch(table, self.b), self.row]

    @property
    def order(self) -> Tensor:
        # If order equals row, a kernel that inlines this reads no memory. All other places share
        # one compiled program, since their first place is not a constant of it.
        return self.row if self.places.straight else self.pick(self.places.order)

    @property
    def axes(self) -> tuple[Tensor, ...]:
        at = self.places
        return tuple(self.order if axis is at.order else self.pick(axis) for axis in at.axes)


class RowBlocks:
    """Blocks of `size` neighbouring rows, whose numbers are given as intervals."""

    def __init__(self, places: Places, size: int, axis: int):
        self.places, self.size = places, size
        self.laid = np.s_[:, None, :, None] if axis == 2 else np.s_[:, None, None, :]

    def pick(self, table: Tensor) -> Interval:
        """(B, 1, runs, 1) for queries, (B, 1, 1, runs) for keys"""
        found = pool_runs(table if table.dim() == 2 else table[None], self.size)
        return Interval(found.low[self.laid], found.high[self.laid])

    @property
    def row(self) -> Interval:
        return self.pick(torch.arange(len(self.places), device=self.places.device))

    @property
    def order(self) -> Interval:
        return self.pick(self.places.order)

    @property
    def axes(self) -> tuple[Interval, ...]:
        return tuple(map(self.pick, self.places.axes))


class Span:
    """All rows as one interval, from what the host knows: the bounds are loose but free."""

    def __init__(self, places: Places):
        self.places = places

    def pick(self, table: Tensor) -> Interval:
        raise LookupError("a table is not known without reading it")

    @property
    def row(self) -> Interval:
        return span_of(0, len(self.places))

    @property
    def order(self) -> Interval:
        if self.places.first is None:
            raise LookupError("the order of these places is known only to their tensor")
        return span_of(self.places.first, len(self.places))

    @property
    def axes(self) -> tuple[Interval, ...]:
        at = self.places
        return tuple(
            self.order if axis is at.order else span_of(0, size)
            for axis, size in zip(at.axes, at.sizes, strict=True)
        )


def span_of(first: int, count: int) -> Interval:
    return Interval(first, first + max(count, 1) - 1)


def of_batch(table: Tensor | PairTable, b: Tensor) -> Tensor:
    """Return the index of each sequence's entry: b, or 0 if all share one entry."""
    return b if len(table) > 1 else torch.zeros_like(b)


def look_up_pair(table: Tensor | PairTable, q: Place, k: Place) -> Number:
    """Look up pairs in a table with an entry per pair, (B, T, T)."""
    if isinstance(q, Point) and isinstance(k, Point):
        return table[of_batch(table, q.b), q.row, k.row]
    if not (isinstance(q, RowBlocks) and isinstance(k, RowBlocks)):
        raise LookupError("a table of pairs is not known without reading it")
    found = pool_blocks(table, q.size, k.size)
    return Interval(found.low[:, None], found.high[:, None])


def time_of(place: Place) -> Number:
    """Return a token's index in its own document if places are a line, otherwise its order."""
    return place.axes[0] if len(place.axes) == 1 else place.order


class Pair:
    """A query and a key: tensors that broadcast to (B, H, Q, K), or intervals over blocks."""

    def __init__(self, pairs: Pairs, b: Tensor, h: Tensor, q: Place, k: Place):
        self.pairs, self.b, self.h, self.q, self.k = pairs, b, h, q, k

    @property
    def apart(self) -> tuple[Number, ...]:
        """The signed steps from query to key along each axis; hops on a graph."""
        return self.pairs.queries.apart(self.q, self.k)

    @property
    def edge(self) -> Number:
        """The label of the edge between query and key."""
        at = self.pairs.queries
        if not isinstance(at, Graph) or at.edges is None:
            raise ValueError(f"{at.name} without labels on its edges was asked for one")
        return look_up_pair(at.edges, self.q, self.k)


class AllPairs(Pair):
    """All pairs as one block: there is no single sequence `b` or head `h`."""

    def __init__(self, pairs: Pairs, q: Place, k: Place):
        self.pairs, self.q, self.k = pairs, q, k

    def __getattr__(self, name: str) -> Any:
        raise LookupError(f"{name} differs among all pairs")


@dataclass(frozen=True, eq=False)
class Pairs:
    """All queries and keys of one attention call."""

    batch: int
    heads: int
    queries: Places
    keys: Places

    @property
    def device(self) -> torch.device:
        return self.keys.device

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, len(self.queries), len(self.keys)

    def at(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Pair:
        return Pair(self, b, h, Point(self.queries, b, i), Point(self.keys, b, j))

    def everywhere(self) -> Pair:
        return self.at(*indices(self.shape, self.device))

    def blockwise(self, rows: int, columns: int) -> Pair:
        """Blocks of rows x columns pairs, as intervals: (B, H, Q/rows, K/columns)."""
        b, h, _, _ = indices(self.shape, self.device)
        q, k = RowBlocks(self.queries, rows, axis=2), RowBlocks(self.keys, columns, axis=3)
        return Pair(self, b, h, q, k)

    def whole(self) -> Pair:
        """All pairs as one block, from what the host knows; anything else raises LookupError."""
        return AllPairs(self, Span(self.queries), Span(self.keys))


def indices(shape: tuple[int, int, int, int], device: torch.device) -> tuple[Tensor, ...]:
    """Return an index tensor along each of four axes, shaped to broadcast."""
    along = (torch.arange(size, device=device) for size in shape)
    return tuple(
        index.view([-1 if a == axis else 1 for a in range(4)]) for axis, index in enumerate(along)
    )
