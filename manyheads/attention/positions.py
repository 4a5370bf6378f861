"""How place enters a model.

Once, below the first layer: a Position changes the embeddings (sinusoidal, learned).
Or in every layer: a Relative changes what a query and a key make of each other (rotary, bias,
content).
Two kinds and not one with idle methods, so that a position put where it would do nothing is
refused.

B batch, H heads, Q queries, K keys, T tokens, C channels of one head, D model width, N distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal, NamedTuple, Protocol, TypeAlias, cast

import torch
from torch import Tensor, nn

from manyheads.attention.places import Graph, Pair, Pairs, Places

# ---- below the first layer -------------------------------------------------------------------


class Position(nn.Module):
    """The seam: embeddings in, embeddings that know their place out. This one adds nothing."""

    def forward(self, x: Tensor, at: Places) -> Tensor:
        return x


class Sinusoidal(Position):
    """Waves of `width` channels, a band for each axis, added: a line and an image are the same
    code."""

    def __init__(self, longest_wave: float = 10_000.0):
        super().__init__()
        self.longest_wave = longest_wave

    def forward(self, x: Tensor, at: Places) -> Tensor:
        return x + self.waves(x.shape[-1], at, x.dtype)

    def waves(self, width: int, at: Places, dtype: torch.dtype) -> Tensor:
        """(T, width), or (B, T, width) where each sequence counts for itself."""
        axes = coordinates("Sinusoidal()", at)
        half = width // (2 * len(axes))
        if half < 1:
            raise ValueError(
                f"sinusoids need 2 channels for each of {len(axes)} axes, got {width} in all"
            )
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        rate = self.longest_wave ** -(torch.arange(half, device=at.device, dtype=exact) / half)
        angles = [axis[..., None] * rate for axis in axes]
        waves = torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], -1)
        # Channels that the axes cannot share evenly carry no place.
        return nn.functional.pad(waves, (0, width - waves.shape[-1])).to(dtype)

    def extra_repr(self) -> str:
        return f"longest_wave={self.longest_wave}"


class Learned(Position):
    """A learned vector for each coordinate, summed over axes: `Learned(512, 100)`, `Learned(512,
    32, 32)`."""

    def __init__(self, width: int, *sizes: int):
        super().__init__()
        if not sizes:
            raise ValueError(
                "Learned takes a width and a size for each axis, as in Learned(512, 100)"
            )
        self.width, self.sizes = width, sizes
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for table in self.tables:
            nn.init.normal_(cast(nn.Embedding, table).weight, std=0.02)

    def forward(self, x: Tensor, at: Places) -> Tensor:
        axes = coordinates("Learned()", at)
        if len(axes) != len(self.sizes):
            raise ValueError(
                f"Learned has {len(self.sizes)} tables, but {at.name} "
                "arrived; it needs a table for each axis"
            )
        for table, size in zip(self.sizes, at.sizes, strict=True):
            if size > table:
                raise ValueError(
                    f"Learned positions reach {table} places, a sequence of {size} arrived; "
                    f"shorten it, learn {size}, or use Sinusoidal() or a "
                    "relative position, which have no end"
                )
        return x + sum(table(axis) for table, axis in zip(self.tables, axes, strict=True))


class Concatenated(Position):
    """Another position's vector beside the embedding instead of on top of it, then mixed back to
    `width`."""

    def __init__(self, position: Position, width: int, channels: int):
        super().__init__()
        self.position, self.channels = position, channels
        self.mix = nn.Linear(width + channels, width)

    def forward(self, x: Tensor, at: Places) -> Tensor:
        place = self.position(x.new_zeros(*x.shape[:-1], self.channels), at)
        return self.mix(torch.cat([x, place], -1))


def coordinates(name: str, at: Places) -> tuple[Tensor, ...]:
    if isinstance(at, Graph):
        raise ValueError(
            f"{name} needs coordinates, the nodes of a graph have only distances; "
            "RelativeBias or RelativeContent fit a graph"
        )
    return at.axes


# ---- rules: which entry of a table a distance reads --------------------------------------------


class Rule(Protocol):
    @property
    def size(self) -> int: ...
    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        """An index into a table of `size`, for each axis."""

    def refuses(self, pairs: Pairs) -> str: ...


@dataclass(frozen=True)
class Clipped:
    """Distances up to `reach` each way; all that is farther counts as `reach` (Shaw)."""

    reach: int

    def __post_init__(self) -> None:
        if self.reach < 0:
            raise ValueError(f"Clipped takes a reach from 0 up, got {self.reach}")

    @property
    def size(self) -> int:
        return 2 * self.reach + 1

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        return tuple(step.clamp(-self.reach, self.reach) + self.reach for step in pair.apart)

    def refuses(self, pairs: Pairs) -> str:
        return ""


@dataclass(frozen=True)
class Every:
    """Each distance by itself, in sequences of up to `length` (Music Transformer)."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"Every takes a length from 1 up, got {self.length}")

    @property
    def size(self) -> int:
        return 2 * self.length - 1

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        last = self.length - 1  # nodes in different pieces of a graph are farther than any path
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
class Bucketed:
    """`count` buckets: near distances by themselves, farther ones together by their logarithm,
    up to `far` (T5)."""

    count: int = 32
    far: int = 128
    both_ways: bool = True  # False: keys are never ahead, and all buckets look back

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

    def refuses(self, pairs: Pairs) -> str:
        return ""


@dataclass(frozen=True)
class Edges:
    """The label of a graph's edge in place of a distance: relation-aware attention."""

    count: int

    @property
    def size(self) -> int:
        return self.count

    def indices(self, pair: Pair) -> tuple[Tensor, ...]:
        return (pair.edge,)

    def refuses(self, pairs: Pairs) -> str:
        at = pairs.queries
        if isinstance(at, Graph) and at.edges is not None:
            if at.edges.is_cpu and at.edges.numel() and int(at.edges.max()) >= self.count:
                return f"{self} has labels 0 to {self.count - 1}, {int(at.edges.max())} arrived"
            if at.edges.is_cpu and at.edges.numel() and int(at.edges.min()) < 0:
                return f"{self} has labels 0 to {self.count - 1}, {int(at.edges.min())} arrived"
            return ""
        return (
            f"{self} reads the labels of a graph's edges, but "
            f"{pairs.queries.name} without labels arrived"
        )


def steps_of(pair: Pair) -> tuple[Tensor, ...]:
    return pair.apart


# ---- biases: values that kernels read ----------------------------------------------------------

Feature: TypeAlias = Literal[
    "distance bias", "content bias", "value bias", "additive score", "dropout", "gradient"
]
ROOM = 2**24  # numbers that a table of distances may be spread to


class Kind(NamedTuple):
    """What is known of a bias before it is made: enough for a kernel to refuse it."""

    bias: type
    rule: Rule
    axes: int
    values: bool = False

    @property
    def features(self) -> frozenset[Feature]:
        if self.bias is DistanceBias:
            return frozenset({"distance bias"})
        return frozenset({"content bias", "value bias"} if self.values else {"content bias"})


@dataclass(frozen=True, eq=False)
class DistanceBias:
    """A number for each head and distance, added to the score."""

    tables: Tensor  # (axes, H, N)
    rule: Rule
    queries: int

    def by_row(self, scale: float) -> Tensor:
        """The same table under many rows, so that its gradient is not summed in one place."""
        tables = exactly(self.tables)
        rows = min(self.queries, max(1, ROOM // tables[0].numel()))
        return tables[:, None, :, None].expand(-1, -1, -1, rows, -1)


@dataclass(frozen=True, eq=False)
class ContentBias:
    """The query against an embedding of the distance, added to the score; and, where there are
    value tables, an embedding of the distance added to the value.

    Query and tables are here for a kernel that computes their product inside its tiles.
    """

    query: Tensor  # (B, H, Q, C), before any rotation: that would bring in where it stands
    key_tables: Tensor  # (axes, 1 or H, N, C)
    value_tables: Tensor | None
    rule: Rule

    def by_row(self, scale: float) -> Tensor:
        products = [self.query @ table.mT.to(self.query.dtype) for table in self.key_tables]
        return torch.stack([exactly(product) * scale for product in products])

    def mixed(self, weights: Tensor, pair: Pair) -> Tensor:
        """What the distances add to the output: weights (B, H, Q, K) -> (B, H, Q, C)."""
        assert self.value_tables is not None
        added = []
        for table, index in zip(self.value_tables, self.rule.indices(pair), strict=True):
            shape = *weights.shape[:3], table.shape[1]
            by_distance = exactly(weights).new_zeros(shape)
            by_distance = by_distance.scatter_add(-1, index.expand_as(weights), exactly(weights))
            added.append(by_distance.to(weights.dtype) @ table.to(weights.dtype))
        return total(added)


# `by_row` is what each query would add to its score at each index: (axes, 1 or B, H, rows, N).
# Row i of the query reads row i % rows.
Bias: TypeAlias = DistanceBias | ContentBias


def looked_up(rows: Tensor, rule: Rule, pair: Pair) -> Tensor:
    """What a bias adds to the score of a pair, or of all pairs that its indices broadcast over."""
    b = pair.b if rows.shape[1] > 1 else torch.zeros_like(pair.b)
    row = pair.q.row % rows.shape[3]
    return total(
        each[b, pair.h, row, index] for each, index in zip(rows, rule.indices(pair), strict=True)
    )


def total(tensors: Iterable[Tensor]) -> Tensor:
    return reduce(add, tensors)


def exactly(x: Tensor) -> Tensor:
    """In 32 bits or more: many pairs read one entry, and its gradient is the sum over them."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


# ---- in every layer ----------------------------------------------------------------------------


class Relative(nn.Module):
    """The seam: turn queries and keys by their place, or add a bias to their scores. This one
    does neither."""

    @property
    def features(self) -> frozenset[Feature]:
        return frozenset().union(*(kind.features for kind in self.kinds()))

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        return x

    def biases(self, query: Tensor) -> tuple[Bias, ...]:
        """Of queries (B, H, Q, C) that have not been turned."""
        return ()

    def kinds(self) -> tuple[Kind, ...]:
        """What `biases` will be, before there is a query."""
        return ()

    def misfit(self, heads: int, channels: int) -> str:
        """Why this is not for a layer of these measures; empty where it is."""
        return ""

    def refuses(self, pairs: Pairs) -> str:
        """Why this means nothing on these places; empty where it does."""
        return ""


class Rotary(Relative):
    """Queries and keys turned by an angle that grows with their place, so their product knows
    the distance."""

    def __init__(self, longest_wave: float = 10_000.0):
        super().__init__()
        self.longest_wave = longest_wave

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        axes = coordinates("Rotary()", at)
        band = x.shape[-1] // (2 * len(axes)) * 2
        if not band:
            raise ValueError(
                f"Rotary needs 2 channels for each of {len(axes)} axes, a head has {x.shape[-1]}"
            )
        turned = [
            self.turned(x[..., a * band : (a + 1) * band], axis) for a, axis in enumerate(axes)
        ]
        rest = x[
            ..., len(axes) * band :
        ]  # channels that the axes cannot share evenly stay as they are
        return torch.cat([*turned, rest], -1)

    def turned(self, x: Tensor, place: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        exact = torch.float64 if x.dtype == torch.float64 else torch.float32
        rate = self.longest_wave ** -(torch.arange(half, device=x.device, dtype=exact) / half)
        angle = place[..., None] * rate  # (T, half) or (B, T, half)
        if angle.dim() == 3:
            angle = angle[:, None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.split(half, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def extra_repr(self) -> str:
        return f"longest_wave={self.longest_wave}"


class RelativeBias(Relative):
    """A learned number for each head and distance, summed over axes."""

    def __init__(self, heads: int, rule: Rule, axes: int = 1):
        super().__init__()
        self.rule, self.axes = rule, axes
        self.tables = nn.Parameter(torch.empty(axes, heads, rule.size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.tables, std=0.02)

    def biases(self, query: Tensor) -> tuple[Bias, ...]:
        return (DistanceBias(self.tables, self.rule, query.shape[2]),)

    def kinds(self) -> tuple[Kind, ...]:
        return (Kind(DistanceBias, self.rule, self.axes),)

    def misfit(self, heads: int, channels: int) -> str:
        have = self.tables.shape[1]
        return "" if have == heads else f"RelativeBias has {have} heads, the layer {heads}"

    def refuses(self, pairs: Pairs) -> str:
        return unfit(self, pairs)


class RelativeContent(Relative):
    """A distance whose meaning depends on the query (Shaw; Music Transformer; labelled edges of
    a graph).

    Shaw: `RelativeContent(64, Clipped(16), values=True)`. Music: `RelativeContent(64,
    Every(2048), heads=8)`.
    Graph: `RelativeContent(64, Edges(5), values=True)`. One table serves all heads unless
    `heads` are given.
    """

    def __init__(
        self, channels: int, rule: Rule, *, heads: int = 1, values: bool = False, axes: int = 1
    ):
        super().__init__()
        self.rule, self.axes = rule, axes
        self.key_tables = nn.Parameter(torch.empty(axes, heads, rule.size, channels))
        shape = self.key_tables.shape
        self.value_tables = nn.Parameter(torch.empty(shape)) if values else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for table in self.parameters(recurse=False):
            nn.init.normal_(table, std=self.key_tables.shape[-1] ** -0.5)

    def biases(self, query: Tensor) -> tuple[Bias, ...]:
        return (ContentBias(query, self.key_tables, self.value_tables, self.rule),)

    def kinds(self) -> tuple[Kind, ...]:
        return (Kind(ContentBias, self.rule, self.axes, self.value_tables is not None),)

    def misfit(self, heads: int, channels: int) -> str:
        _, own_heads, _, own_channels = self.key_tables.shape
        if own_heads in (1, heads) and own_channels == channels:
            return ""
        return (
            f"RelativeContent has {own_heads} heads of {own_channels} channels, "
            f"the layer {heads} of {channels}"
        )

    def refuses(self, pairs: Pairs) -> str:
        return unfit(self, pairs)


class Together(Relative):
    """Several at once: `Together(Rotary(), RelativeBias(8, Clipped(16)))`."""

    def __init__(self, *relatives: Relative):
        super().__init__()
        self.relatives = nn.ModuleList(relatives)

    def members(self) -> list[Relative]:
        return [cast(Relative, relative) for relative in self.relatives]

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        for relative in self.members():
            x = relative.rotate(x, at)
        return x

    def biases(self, query: Tensor) -> tuple[Bias, ...]:
        return tuple(bias for relative in self.members() for bias in relative.biases(query))

    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for relative in self.members() for kind in relative.kinds())

    def misfit(self, heads: int, channels: int) -> str:
        found = (relative.misfit(heads, channels) for relative in self.members())
        return next(filter(None, found), "")

    def refuses(self, pairs: Pairs) -> str:
        return next(filter(None, (relative.refuses(pairs) for relative in self.members())), "")


def unfit(relative: RelativeBias | RelativeContent, pairs: Pairs) -> str:
    if reason := relative.rule.refuses(pairs):
        return reason
    if type(pairs.queries) is not type(pairs.keys) or len(pairs.queries.axes) != len(
        pairs.keys.axes
    ):
        return (
            "a relative position measures within one geometry, but "
            f"queries are on {pairs.queries.name} "
            f"and keys on {pairs.keys.name}"
        )
    have = len(pairs.queries.axes) or 1  # a graph has one distance
    if relative.axes != have:
        return (
            f"{type(relative).__name__} has tables for "
            f"axes={relative.axes}, but {pairs.queries.name} "
            f"has {have}; build it with axes={have}"
        )
    return ""
