"""How place enters below the first layer: a Position changes the embeddings.

What enters in every layer is a Relative (relatives.py). Two kinds and not one with idle methods, so
that a position put where it would do nothing is refused.

B batch, T tokens, D model width.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from manyheads.attention.places import Graph, Places


class Position(nn.Module):
    """The seam: embeddings in, embeddings that know their place out. This one adds nothing."""

    def forward(self, x: Tensor, at: Places) -> Tensor:
        return x


class Sinusoidal(Position):
    """Waves added to the embedding, a band of channels for each axis: a line or an image."""

    def __init__(self, base: float = 10_000.0):
        super().__init__()
        self.base = base

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
        rate = self.base ** -(torch.arange(half, device=at.device, dtype=exact) / half)
        angles = [axis[..., None] * rate for axis in axes]
        waves = torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], -1)
        # Channels that the axes cannot share evenly carry no place.
        return nn.functional.pad(waves, (0, width - waves.shape[-1])).to(dtype)

    def extra_repr(self) -> str:
        return f"base={self.base}"


class Learned(Position):
    """A learned vector for each coordinate, summed over axes: `Learned(512, 32, 32)`."""

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
    """Another position's vector beside the embedding, then both mixed back to `width`."""

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
