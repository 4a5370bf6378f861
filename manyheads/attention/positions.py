"""How places enter a model: a Position changes the embeddings below the first layer, a Relative
changes how queries and keys are compared in every layer.

These are two classes, so that a position in the wrong argument is refused instead of ignored.

B batch, H heads, Q queries, T tokens, C channels of one head, D model width, N distances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from manyheads.attention.biases import Bias, ContentBias, DistanceBias, Feature, Kind
from manyheads.attention.places import Graph, Grid, Pairs, Places
from manyheads.attention.rules import Rule


class Position(nn.Module):
    """The base class: takes embeddings, returns them with their positions. This one adds none."""

    def forward(self, x: Tensor, at: Places) -> Tensor:
        return x


class Sinusoidal(Position):
    """Add sines and cosines to the embedding, with a band of channels for each axis."""

    def __init__(self, base: float = 10_000.0):
        super().__init__()
        self.base = base

    def forward(self, x: Tensor, at: Places) -> Tensor:
        return x + self.waves(x.shape[-1], at, x.dtype)

    def waves(self, width: int, at: Places, dtype: torch.dtype) -> Tensor:
        """Return (T, width), or (B, T, width) if each sequence has its own places."""
        axes = coordinates("Sinusoidal()", at)
        half = width // (2 * len(axes))
        if half < 1:
            raise ValueError(
                f"sinusoids need 2 channels for each of {len(axes)} axes, got {width} in all"
            )
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        rate = self.base ** -(torch.arange(half, device=at.device, dtype=exact) / half)
        angles = [axis[..., None] * rate for axis in axes]
        waves = torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], -1)
        # Channels left over when the axes share them evenly get zeros.
        return nn.functional.pad(waves, (0, width - waves.shape[-1])).to(dtype)

    def extra_repr(self) -> str:
        return f"base={self.base}"


class Learned(Position):
    """Add a learned vector for each coordinate, summed over axes: `Learned(512, 32, 32)`."""

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
    """Concatenate another position's vector to the embedding and project both to `width`."""

    def __init__(self, position: Position, width: int, channels: int):
        super().__init__()
        check_part("Concatenated", position, Position, "below the first layer, like Sinusoidal()")
        self.position, self.channels = position, channels
        self.mix = nn.Linear(width + channels, width)

    def forward(self, x: Tensor, at: Places) -> Tensor:
        place = self.position(x.new_zeros(*x.shape[:-1], self.channels), at)
        return self.mix(torch.cat([x, place], -1))


def check_part(name: str, part: object, kind: type, where: str) -> None:
    """Refuse a part that works elsewhere."""
    if not isinstance(part, kind):
        raise ValueError(f"{name} takes what works {where}, got {part!r}")


def coordinates(name: str, at: Places) -> tuple[Tensor, ...]:
    if isinstance(at, Graph):
        raise ValueError(
            f"{name} needs coordinates, the nodes of a graph have only distances; "
            "RelativeBias or RelativeContent fit a graph"
        )
    return at.axes


class Relative(nn.Module):
    """The base class: rotate queries and keys, or add to their scores. This one does neither."""

    @property
    def features(self) -> frozenset[Feature]:
        return frozenset().union(*(kind.features for kind in self.kinds()))

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        return x

    def biases(self, query: Tensor) -> tuple[Bias, ...]:
        """Return the biases for queries (B, H, Q, C) before their rotation."""
        return ()

    def kinds(self) -> tuple[Kind, ...]:
        """Describe what `biases` will return, before there is a query."""
        return ()

    def misfit(self, heads: int, channels: int) -> str:
        """Say why this does not fit a layer with these heads and channels; empty if it does."""
        return ""

    def refuses(self, pairs: Pairs) -> str:
        """Say why this has no meaning on these places; empty if it has one."""
        return ""


class Rotary(Relative):
    """Rotate queries and keys by their place, so that their product depends on the distance."""

    def __init__(self, base: float = 10_000.0):
        super().__init__()
        self.base = base

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        """Each axis turns its share of the channels, in pairs: channel n with channel n + half."""
        axes = coordinates("Rotary()", at)
        half = x.shape[-1] // (2 * len(axes))
        if not half:
            raise ValueError(
                f"Rotary needs 2 channels for each of {len(axes)} axes, a head has {x.shape[-1]}"
            )
        cos, sin = self.turns(at, axes, half, x.dtype)
        turned, rest = x.split([len(axes) * 2 * half, x.shape[-1] - len(axes) * 2 * half], -1)
        partners = turned.unflatten(-1, (len(axes), 2, half)).flip(-2).flatten(-3)
        turned = turned * cos + partners * sin
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned

    def turns(
        self, at: Places, axes: tuple[Tensor, ...], half: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return a cosine and a signed sine for each channel, once for all layers of a pass."""
        known = None if torch.compiler.is_compiling() else TURNS.get(at)
        # Exactly this class: a subclass may turn by more than its base, and differently per layer.
        if known is None or type(self) is not Rotary:
            return self.waves(axes, half, dtype)
        asked = self.base, half, dtype
        if asked not in known:
            known[asked] = self.waves(axes, half, dtype)
        return known[asked]

    def waves(
        self, axes: tuple[Tensor, ...], half: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        rate = self.base ** -(torch.arange(half, device=axes[0].device, dtype=exact) / half)
        cosines, sines = [], []
        for place in torch.broadcast_tensors(*axes):
            angle = place[..., None] * rate  # (T, half) or (B, T, half)
            if angle.dim() == 3:
                angle = angle[:, None]
            cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
            cosines += [cos, cos]
            sines += [-sin, sin]
        return torch.cat(cosines, -1), torch.cat(sines, -1)

    def extra_repr(self) -> str:
        return f"base={self.base}"


# The cosines and sines for the places of a pass. Otherwise each layer would compute them again,
# for queries and for keys, which takes a third of a decoding step.
TURNS: WeakKeyDictionary[Places, dict[Any, tuple[Tensor, Tensor]]] = WeakKeyDictionary()


def share_pass(at: Places) -> Places:
    """Return a copy of the places for one pass, in which all layers share cosines and sines.

    A new copy each time, since the caller may change its places in place before the next pass.
    """
    if torch.compiler.is_compiling() or not isinstance(at, Grid):
        return at
    at = replace(at)
    TURNS[at] = {}
    return at


class RelativeBias(Relative):
    """Add a learned number for each head and distance to the score, summed over axes."""

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
        return describe_axis_misfit(self, pairs)


class RelativeContent(Relative):
    """Add to the score the product of the query and a learned vector for the distance; all heads
    share one table, or each has its own.

    Shaw:               RelativeContent(64, Clipped(16), values=True)
    Music Transformer:  RelativeContent(64, Every(2048), heads=8)
    labelled graphs:    RelativeContent(64, Edges(5), values=True)
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
        return describe_axis_misfit(self, pairs)


class Together(Relative):
    """Use several at once: `Together(Rotary(), RelativeBias(8, Clipped(16)))`."""

    def __init__(self, *relatives: Relative):
        super().__init__()
        for relative in relatives:
            check_part("Together", relative, Relative, "in every layer, like Rotary()")
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


def describe_axis_misfit(relative: RelativeBias | RelativeContent, pairs: Pairs) -> str:
    if reason := relative.rule.refuses(pairs):
        return reason
    q, k = pairs.queries, pairs.keys
    if type(q) is not type(k) or len(q.axes) != len(k.axes):
        return (
            "a relative position measures within one geometry, but "
            f"queries are on {q.name} and keys on {k.name}"
        )
    have = len(q.axes) or 1  # a graph has one distance
    if relative.axes != have:
        return (
            f"{type(relative).__name__} has tables for axes={relative.axes}, but {q.name} has "
            f"{have}; build it with axes={have}"
        )
    return ""
