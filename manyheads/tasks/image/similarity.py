"""Which parts of a picture a model finds similar: the strongest attention to far pixels.

H heads, N tokens, P pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyheads.tasks.image.looking import NEAR, record_image
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.sheet import SMALLEST, make_sheet
from manyheads.tasks.image.sources import Bytes, match_colours
from manyheads.tasks.inspection import choose_numbers

LINKS, SHOWN = 24, 5  # links to draw, and to print
DIM = 0.5
FROM, TO, HOT = (0, 255, 0), (255, 60, 0), (255, 200, 0)


class FarLook(NamedTuple):
    """The attention of a pixel to the one it attends to most, among those that are not near it."""

    weight: float
    times: float  # the weight in units of an even share over all pixels drawn before
    start: tuple[int, int]
    end: tuple[int, int]


@dataclass(frozen=True)
class SimilarityView:
    """The strongest far links of a layer, and the share of attention each pixel gives far away."""

    picture: Bytes  # (rows, columns, channels)
    what: str
    looks: list[FarLook]
    far: Tensor  # (rows, columns)

    def __str__(self) -> str:
        lines = [
            f"what is alike for {self.what}: {self.far.mean():.0%} of all attention goes farther "
            f"than {NEAR} pixels"
        ]
        for weight, times, start, end in self.looks[:SHOWN]:
            lines.append(
                f"  row {start[0]}, column {start[1]} looks at row {end[0]}, column {end[1]}: "
                f"{weight:.0%}, {times:.0f} times an even share"
            )
        return "\n".join(lines)

    def draw(self) -> Bytes:
        """Draw the picture; links as lines from green to red; and the far share of each pixel."""
        times = max(4, SMALLEST // max(self.picture.shape[:2]))
        whole = match_colours(self.picture, 3)
        heat = (self.far / self.far.max().clamp(min=1e-9)).numpy()[..., None]
        warm = ((1 - heat) * DIM * whole + heat * np.array(HOT)).astype(np.uint8)
        dim = (DIM * whole).astype(np.uint8)
        panels = [panel.repeat(times, 0).repeat(times, 1) for panel in (whole, dim, warm)]
        for look in reversed(self.looks):  # the strongest on top
            draw_line(panels[1], look, times)
        return make_sheet(np.stack(panels), across=3)


def draw_line(panel: Bytes, look: FarLook, times: int) -> None:
    start, end = (np.array(place) * times + times // 2 for place in (look.start, look.end))
    steps = int(np.abs(end - start).max()) + 1
    wide = max(1, times // 12)
    for part in np.linspace(0, 1, steps):
        row, column = ((1 - part) * start + part * end).round().astype(int)
        colour = (1 - part) * np.array(FROM) + part * np.array(TO)
        panel[row : row + wide, column : column + wide] = colour
    for place, colour in ((start, FROM), (end, TO)):
        low, high = (place + side * max(2, times // 5) for side in (-1, 1))
        panel[low[0] : high[0], low[1] : high[1]] = colour


@torch.no_grad()
def look_for_similar(
    model: ImageModel,
    picture: Bytes,
    layer: int | None = None,
    head: int | None = None,
    label: str | None = None,
) -> SimilarityView:
    """Return the far links of a layer, by default that with most far attention; average heads."""
    codec = model.task.codec
    seen = record_image(model, picture, label)
    layers = choose_numbers("layer", layer, len(seen))
    heads = choose_numbers("head", head, seen[0].weights.shape[1])
    maps = [map_pairs(model, seen[i].weights[0, heads].float().mean(0).cpu()) for i in layers]
    best = max(range(len(maps)), key=lambda i: float(maps[i].sum()))
    pairs = maps[best]
    what = f"layer {layers[best]}, " + ("all heads" if head is None else f"head {head}")
    far = pairs.sum(1).view(codec.rows, codec.columns)
    # The number of pixels drawn before each.
    turn = codec.order.argsort().view(codec.rows * codec.columns, -1)[:, 0] * len(pairs)
    return SimilarityView(
        picture, what, find_looks(pairs, turn // codec.tokens, codec.columns), far
    )


def map_pairs(model: ImageModel, weights: Tensor) -> Tensor:
    """Attention between tokens (N, N) -> between pixels (P, P), 0 for pixels near each other."""
    codec = model.task.codec
    pixel = codec.places.axes[0] * codec.columns + codec.places.axes[1]  # (N,)
    count = codec.rows * codec.columns
    keys = torch.zeros(len(weights), count).index_add(1, pixel[:-1], weights[:, 1:])
    found = torch.zeros(count, count).index_add(0, pixel, keys) * count / len(weights)
    every = torch.arange(count)
    rows, columns = every // codec.columns, every % codec.columns
    apart = (rows[:, None] - rows).abs().maximum((columns[:, None] - columns).abs())
    return found.masked_fill(apart <= NEAR, 0)


def find_looks(pairs: Tensor, drawn: Tensor, columns: int) -> list[FarLook]:
    """List links, highest `times` first, one per neighbourhood: early pixels have large weights."""
    weights, ends = pairs.max(1)
    times = weights * drawn  # pixels before each, (P,)
    found: list[FarLook] = []
    for start in times.argsort(descending=True).tolist():
        place, end = divmod(start, columns), divmod(int(ends[start]), columns)
        beside = (max(abs(a - b) for a, b in zip(place, one.start, strict=True)) for one in found)
        if all(distance > 1 for distance in beside):
            found.append(FarLook(float(weights[start]), float(times[start]), place, end))
        if len(found) == LINKS:
            break
    return found
