"""What a pixel attends to while it is drawn, as a map over the image.

L layers, H heads, N tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.kernels import Seen
from manyheads.modules.transformer import Tokens
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.sheet import enlarge, make_sheet
from manyheads.tasks.image.sources import Bytes, match_colours
from manyheads.tasks.inspection import choose_numbers, record_attention

NEAR = 2  # rows and columns
DIM = 0.35  # brightness of the picture below a map
MARK = (0, 255, 0)


@dataclass(frozen=True)
class PixelView:
    """The attention of one pixel to each pixel drawn before it."""

    picture: Bytes  # (rows, columns, channels)
    pixel: tuple[int, int]
    weights: Tensor  # (L, H, rows, columns); the rest up to 1 is on the start token
    layers: list[int]
    heads: list[int]

    def __str__(self) -> str:
        row, column = self.pixel
        lines = [f"what the pixel in row {row}, column {column} looks at"]
        if not self.weights.any():
            return f"{lines[0]}: no other, it is the first that is drawn"
        for layer, maps in zip(self.layers, self.weights, strict=True):
            for head, one in zip(self.heads, maps, strict=True):
                near = one[max(0, row - NEAR) : row + 1, max(0, column - NEAR) : column + NEAR + 1]
                most, at = float(one.max()), divmod(int(one.argmax()), one.shape[1])
                lines.append(
                    f"  layer {layer}, head {head}: {near.sum():4.0%} within {NEAR} pixels, "
                    f"{most:4.0%} at row {at[0]}, column {at[1]}"
                )
        return "\n".join(lines)

    def draw(self) -> Bytes:
        """Draw the picture with its pixel marked, then maps by layer (down) and head (across)."""
        whole = match_colours(self.picture, 3)
        marked = whole.copy()
        marked[self.pixel] = MARK
        maps = [self.heat(whole, one) for layer in self.weights for one in layer]
        blank = np.full_like(marked, 255)
        first = [marked, *[blank] * (len(self.heads) - 1)]
        return enlarge(make_sheet(np.stack([*first, *maps]), across=len(self.heads)))

    def heat(self, whole: Bytes, one: Tensor) -> Bytes:
        """Draw attention in red over the picture, brightest where it is largest."""
        heat = (one / one.max().clamp(min=1e-9)).sqrt().numpy()[..., None]
        red = np.array([255.0, 60.0, 0.0])
        shown = (1 - heat) * DIM * whole + heat * red
        shown[self.pixel] = MARK
        return shown.round().astype(np.uint8)


@torch.no_grad()
def look_at_pixel(
    model: ImageModel,
    picture: Bytes,
    pixel: tuple[int, int],
    layer: int | None = None,
    head: int | None = None,
    label: str | None = None,
) -> PixelView:
    """Return what a pixel attends to in all layers and heads, or in one; `label` is the class."""
    codec, (row, column) = model.task.codec, pixel
    if not (0 <= row < codec.rows and 0 <= column < codec.columns):
        raise ValueError(
            f"pixels are in rows 0 to {codec.rows - 1} and columns 0 to {codec.columns - 1}, "
            f"{row},{column} was asked for"
        )
    axes = codec.places.axes
    query = int(((axes[0] == row) & (axes[1] == column)).nonzero()[0])
    seen = record_image(model, picture, label, query + 1)
    layers = choose_numbers("layer", layer, len(seen))
    heads = choose_numbers("head", head, seen[0].weights.shape[1])
    rows = [seen[i].weights[0, heads, -1].float().cpu() for i in layers]
    return PixelView(picture, pixel, map_weights(model, torch.stack(rows)), layers, heads)


def record_image(
    model: ImageModel, picture: Bytes, label: str | None, tokens: int | None = None
) -> list[Seen]:
    """Return the attention of each layer over the first `tokens` of a picture, or over all."""
    codec = model.task.codec
    levels = codec.quantize_picture(picture).to(model.device)
    ids = codec.shift(codec.encode(levels))[:, :tokens]
    at, _ = codec.on(model.device)
    classes = None
    if codec.classes:
        number = codec.class_number(model.find_class(picture) if label is None else label)
        classes = torch.tensor([[number]], device=model.device)
    return record_attention(model, Tokens(ids, at[: ids.shape[1]], types=classes))


def map_weights(model: ImageModel, weights: Tensor) -> Tensor:
    """Sum attention to tokens (L, H, T) by their pixels -> (L, H, rows, columns)"""
    codec = model.task.codec
    found = torch.zeros(*weights.shape[:2], codec.rows * codec.columns)
    drawn = weights.shape[2] - 1  # the first is the start token
    where = codec.places.axes[0][:drawn] * codec.columns + codec.places.axes[1][:drawn]
    return found.index_add(2, where, weights[:, :, 1:]).unflatten(2, (codec.rows, codec.columns))
