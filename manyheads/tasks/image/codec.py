"""Encode pixels as token ids, in the order in which they are drawn, and decode them.

A token is a value of one channel, or a whole pixel with the id (red L + green) L + blue.

B images, N tokens, P values of a token, L levels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.places import Grid, grid
from manyheads.modules.transformer import Tokens
from manyheads.tasks.image.sources import Bytes
from manyheads.training.files import write_text


@dataclass(frozen=True)
class PixelCodec:
    """Encodes images of one size, tile by tile, or row by row if `tile` is 0."""

    rows: int
    columns: int
    channels: int = 1
    levels: int = 256
    whole: bool = False  # a token is a pixel, not one of its channels
    tile: int = 0
    classes: list[str] = field(default_factory=list)
    small: int = 0  # rows and columns of the small images in super-resolution; 0: none

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.rows, self.columns, self.channels

    @property
    def values(self) -> int:
        """Number of values in an image: bits are counted per value."""
        return math.prod(self.shape)

    @property
    def parts(self) -> int:
        """Number of values in a token."""
        return self.channels if self.whole else 1

    @property
    def tokens(self) -> int:
        return self.values // self.parts

    @property
    def start(self) -> int:
        """The start token, also read in place of pixels outside of the image."""
        return int(self.levels**self.parts)

    @cached_property
    def places(self) -> Grid:
        channels = 1 if self.whole else self.channels
        blocks = (self.tile, self.tile) if self.tile else None
        with torch.device("cpu"):  # also where a network is built on the meta device
            return grid(self.rows, self.columns, channels, blocks=blocks)

    @cached_property
    def order(self) -> Tensor:
        """(N,): the row-by-row number of each token, in the order of drawing."""
        index = torch.zeros_like(self.places.order)
        for axis, size in zip(self.places.axes, self.places.sizes, strict=True):
            index = index * size + axis
        return index

    @cached_property
    def by_device(self) -> dict[torch.device, tuple[Grid, Tensor]]:
        return {}

    def on(self, device: torch.device) -> tuple[Grid, Tensor]:
        """Return places and order on this device; they are copied once, not with every batch."""
        if device not in self.by_device:
            self.by_device[device] = self.places.to(device), self.order.to(device)
        return self.by_device[device]

    def encode(self, pixels: Tensor) -> Tensor:
        """Levels (B, rows, columns, channels) -> tokens (B, N)"""
        each = pixels.long().reshape(len(pixels), self.tokens, self.parts)
        return self.join(each[:, self.on(pixels.device)[1]])

    def decode(self, ids: Tensor) -> Tensor:
        """Tokens (B, N) -> levels (B, rows, columns, channels)"""
        each = torch.empty(*ids.shape, self.parts, dtype=torch.uint8, device=ids.device)
        each[:, self.on(ids.device)[1]] = self.split(ids).to(torch.uint8)
        return each.reshape(len(ids), *self.shape)

    def join(self, values: Tensor) -> Tensor:
        """Join the values of tokens into ids: (..., P) -> (...)"""
        ids = values[..., 0]
        for part in range(1, self.parts):
            ids = ids * self.levels + values[..., part]
        return ids

    def split(self, ids: Tensor) -> Tensor:
        """Split ids into values: (...) -> (..., P); each value of the start token is L."""
        powers = [self.levels**p for p in reversed(range(self.parts))]
        each = torch.stack([ids // power % self.levels for power in powers], -1)
        return each.masked_fill((ids == self.start)[..., None], self.levels)

    def scale(self, values: Tensor) -> Tensor:
        """Values -> their brightness, -1 to 1"""
        return values * (2 / (self.levels - 1)) - 1

    def shift(self, ids: Tensor) -> Tensor:
        """Return the decoder input for these targets: the start token, and all but the last."""
        return torch.cat([torch.full_like(ids[:, :1], self.start), ids[:, :-1]], 1)

    def find_nearby(self, radius: int) -> Tensor:
        """Return (N, F): for each token, the decoder input places of the last token and of tokens
        within `radius` that are already drawn; 0, the start token, for those that are not.
        """
        at, steps = self.places, range(-radius, radius + 1)
        turn = self.order.argsort()
        found = [at.order]
        for down, right in ((i, j) for i in steps for j in steps if (i, j) != (0, 0)):
            row, column = at.axes[0] + down, at.axes[1] + right
            inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
            index = row * self.columns + column
            for axis, size in zip(at.axes[2:], at.sizes[2:], strict=True):
                index = index * size + axis
            other = turn[torch.where(inside, index, 0)]
            drawn = inside & (other < at.order)
            if drawn.any():
                found.append(torch.where(drawn, other + 1, 0))
        return torch.stack(found, 1)

    @cached_property
    def small_codec(self) -> PixelCodec:
        return PixelCodec(self.small, self.small, self.channels, self.levels, whole=True)

    def find_below(self) -> Tensor:
        """Return (N,): the pixel of the small image that each token lies in; 0 without one."""
        row, column = (
            axis * self.small // size
            for axis, size in zip(self.places.axes[:2], self.shape[:2], strict=True)
        )
        return row * self.small + column

    def find_channels(self) -> Tensor:
        """Return (N,): the channel of each token; 0 where a token is a whole pixel."""
        sizes = self.places.sizes
        return self.places.axes[2] if sizes[2:] else torch.zeros_like(self.places.order)

    def find_block(self) -> Tensor:
        """Return (N, pixels of a block - 1): for each token, the decoder input places of the other
        tokens that are averaged into the same small value; 0 for those that are not yet drawn.
        """
        numbers = self.find_below() * self.channels + self.find_channels()
        _, block = numbers.unique(return_inverse=True)
        members = block.argsort(stable=True).view(int(block.max()) + 1, -1)  # in drawing order
        found = members[block]  # (N, tokens of a block)
        drawn = torch.where(found < self.places.order[:, None], found + 1, 0)
        return drawn[:, :-1]  # the last one is never drawn before another

    def shrink(self, pixels: Tensor) -> Tensor:
        """Average levels of images to levels of small ones, (B, small, small, channels)."""
        down, across = self.rows // self.small, self.columns // self.small
        cut = pixels.view(-1, self.small, down, self.small, across, self.channels)
        return cut.float().mean((2, 4)).round().to(torch.uint8)

    def read_small(self, small: Tensor) -> Tokens:
        """Levels (B, small, small, channels) -> the input of the encoder"""
        at, _ = self.small_codec.on(small.device)
        return Tokens(self.small_codec.encode(small), at)

    def quantize(self, pixels: Tensor) -> Tensor:
        """Bytes -> levels; with two levels 0, 127, 128, 255 -> 0, 0, 1, 1"""
        return (pixels.long() * self.levels // 256).to(torch.uint8)

    def brighten(self, levels: Tensor) -> Tensor:
        """Levels -> bytes; the lowest is black, the highest is white.

        Rounded up: below, `quantize` would make another level of most bytes, as of 1 of 255 levels.
        """
        return (-(-levels.long() * 255 // (self.levels - 1))).to(torch.uint8)

    def round_bytes(self, pixels: Bytes) -> Bytes:
        """Round bytes to the levels of the model; with two levels 0, 127, 128 -> 0, 0, 255"""
        if self.levels == 256:
            return pixels
        return self.brighten(self.quantize(torch.from_numpy(pixels))).numpy()

    def quantize_picture(self, picture: Bytes) -> Tensor:
        """Return the levels (1, rows, columns, channels) of a picture; raise on a wrong size."""
        if self.small:
            raise ValueError("a model that enlarges images is not looked into; one that draws is")
        check_bytes(picture, ("rows", "columns", "channels"))
        if picture.shape != self.shape:
            raise ValueError(
                f"the model draws images of {format_shape(self.shape)} channels, "
                f"this one is {format_shape(picture.shape)}"
            )
        return self.quantize(torch.from_numpy(picture.copy()))[None]

    def class_number(self, name: object) -> int:
        if not self.classes:
            raise ValueError(f"class {name} was asked for, and the model was trained without any")
        if str(name) not in self.classes:
            raise ValueError(f"there is no class {name!r}; there are {', '.join(self.classes)}")
        return self.classes.index(str(name))

    def save(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> PixelCodec:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def check_bytes(images: Any, axes: Sequence[str]) -> None:
    """Raise if images are not bytes: floats from 0 to 1 would all become black."""
    if not isinstance(images, np.ndarray):
        got = type(images).__name__
    elif images.dtype != np.uint8 or images.ndim != len(axes):
        got = f"{images.dtype} of {images.shape}"
    else:
        return
    raise ValueError(f"images are an array of bytes, ({', '.join(axes)}), got {got}")


def format_shape(shape: Sequence[int]) -> str:
    """(28, 28, 1) -> "28 x 28 with 1"; callers add "channels"."""
    return "{} x {} with {}".format(*shape)
