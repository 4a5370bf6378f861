"""Batches of images.

N images, B of a batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.sources import Bytes
from manyheads.training.files import write_whole

Rows = NDArray[np.int64]  # (B, 2): the number of an image, and its random number


class ImageBatch(NamedTuple):
    """Levels (B, rows, columns, channels), and classes (B, 1) if there are any."""

    pixels: Tensor
    classes: Tensor | None = None


class ImageBatches:
    """Plans and makes batches of images, all of one size.

    Images that do not fill a batch are left out of an epoch; other epochs have them.
    """

    def __init__(
        self,
        pixels: Bytes,
        classes: NDArray[np.int64] | None,
        codec: PixelCodec,
        tokens: int,
        *,
        flip: bool = False,
        sample: bool = False,
        seed: int = 0,
    ):
        """`pixels` are bytes (N, ...); `sample` draws black or white, by the brightness."""
        self.pixels, self.classes, self.codec = pixels, classes, codec
        self.flip, self.sample, self.seed = flip, sample, seed
        self.rows = max(1, min(tokens // codec.tokens, len(pixels)))

    @property
    def longest(self) -> int:
        return self.codec.tokens

    def epoch(self, number: int) -> list[Rows]:
        random = np.random.default_rng([self.seed, number])
        chances = random.integers(2**31, size=len(self.pixels))
        rows = np.stack([random.permutation(len(self.pixels)), chances], 1)
        return np.split(rows[: len(rows) // self.rows * self.rows], len(rows) // self.rows)

    def whole(self) -> list[Rows]:
        """Return batches of every image once, in order; the last batch may be smaller."""
        rows = np.stack([np.arange(len(self.pixels)), np.zeros(len(self.pixels), int)], 1)
        return [rows[i : i + self.rows] for i in range(0, len(rows), self.rows)]

    def count(self, rows: Rows) -> int:
        """Count values, so that a loss does not depend on what a token is."""
        return len(rows) * self.codec.values

    def area(self, rows: Rows) -> int:
        return len(rows) * self.codec.tokens

    def share(self, rows: Rows, part: int, parts: int) -> Rows:
        return rows[part::parts]

    def batch(self, rows: Rows) -> ImageBatch:
        numbers, chances = rows.T
        pixels = self.pixels[numbers]
        if self.flip:
            mirrored = chances % 2 == 1
            pixels[mirrored] = pixels[mirrored, :, ::-1]
        levels = self.quantize(pixels, int(chances[0]) if len(chances) else 0)
        classes = None
        if self.classes is not None:
            classes = torch.from_numpy(self.classes[numbers][:, None])
        return ImageBatch(levels, classes)

    def quantize(self, pixels: Bytes, chance: int) -> Tensor:
        if not self.sample:
            return self.codec.quantize(torch.from_numpy(pixels))
        drawn = np.random.default_rng([self.seed, chance]).random(pixels.shape, np.float32)
        return torch.from_numpy((drawn * 255 < pixels).astype(np.uint8))


def write_array(path: Path, array: NDArray[Any]) -> None:
    def write(beside: Path) -> None:
        with beside.open("wb") as file:
            np.save(file, array)

    write_whole(path, write)
