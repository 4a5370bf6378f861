"""The attention page of an image model: which pixels each pixel attends to.

N tokens, P values of a token, L levels, H heads, S spots: pixels, or squares of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from manyheads.inspect.attention_page import AttentionPage, LayerMap, TokenRow
from manyheads.inspect.interventions import Intervention, name_layers
from manyheads.modules.transformer import Tokens
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.sources import Bytes
from manyheads.tasks.inspection import CANDIDATES, START, describe_page, inspect_pass

if TYPE_CHECKING:
    from manyheads.tasks.image.model import ImageModel
    from manyheads.tasks.image.task import ImageTask

MOST_VALUES = 4096  # the page needs every pair of tokens
MOST_CELLS = 2**25  # of a page, over all heads: about 7 MB
COLOURS = ("red", "green", "blue")
PARTS = {"decoder": ["each pixel is drawn from those before it", "pixels", "drawn", "read"]}


@dataclass(frozen=True, eq=False)
class PixelPass:
    """A network that predicts each pixel of an image: heads are ranked by its log-probability."""

    task: ImageTask
    network: nn.Module
    ids: Tensor  # (1, N)
    classes: Tensor | None  # (1, 1)
    spots: Tensor  # (N,) the spot of each token on the page, in the order of drawing

    @property
    def tokens(self) -> int:
        return self.ids.shape[1]

    @property
    def wanted(self) -> range:
        return range(int(self.spots.max()) + 1)

    @cached_property
    def values(self) -> Tensor:
        """Values of all tokens (1, N, P)."""
        return self.task.codec.split(self.ids)

    def say(self, copies: int) -> Tensor:
        """Return the outputs of the head (copies, N, O)."""
        codec, device = self.task.codec, self.ids.device
        classes = None if self.classes is None else self.classes.expand(copies, -1)
        read = codec.shift(self.ids).expand(copies, -1)
        said: Tensor = self.network(Tokens(read, codec.on(device)[0], types=classes))
        return said

    def score(self, copies: int) -> Tensor:
        values = self.values.expand(copies, -1, -1)
        logs = self.task.likelihood.log_probs(self.say(copies), values).float().cpu()
        return logs.new_zeros(copies, len(self.wanted)).index_add(1, self.spots, logs)

    def tell(self) -> dict[str, Any]:
        said, values = self.say(1)[0], self.values[0]
        found: list[dict[str, Any]] = [{"id": [], "log": 0.0, "best": []} for _ in self.wanted]

        def tell_part(logs: Tensor, part: int) -> Tensor:
            rows, levels = logs.float().cpu(), values[:, part].tolist()
            for spot, row, level, token in zip(
                self.spots.tolist(), rows, levels, range(len(rows)), strict=True
            ):
                self.add_value(found[spot], row, level, token * values.shape[1] + part)
            return values[:, part]

        self.task.likelihood.choose_values(said, tell_part)
        for one in found:
            one["log"] = round(one["log"], 4)
            one["p"] = round(math.exp(one["log"]), 5)
        return {"candidates": found, "wrote": tell_likelihood(self.task.codec, found, self.classes)}

    def add_value(self, spot: dict[str, Any], logs: Tensor, level: int, number: int) -> None:
        """Add one value of a token to its spot, with the likeliest levels there."""
        codec = self.task.codec
        channel = number % codec.channels
        best = logs.exp().topk(min(codec.levels, max(2, CANDIDATES // codec.channels)))
        spot["log"] += logs[level].item()
        spot["id"].append(channel * codec.levels + level)
        spot["best"] += [
            [channel * codec.levels + i, name_level(codec, channel, i), round(p, 5)]
            for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def inspect_image(
    model: ImageModel, picture: Bytes, label: str | None, what_if: Sequence[Intervention] = ()
) -> AttentionPage:
    """Inspect one forward pass over an image; a model with classes sees it as class `label`."""
    task, codec = model.task, model.task.codec
    if codec.tokens > MOST_VALUES:
        raise ValueError(
            f"a page is of images with {MOST_VALUES} values at most, these have {codec.tokens}"
        )
    levels = codec.quantize_picture(picture)
    ids = codec.encode(levels.to(model.device))
    heads = sum(count for _, count in name_layers(model.network).values())
    most = math.sqrt(MOST_CELLS / max(1, heads))
    size = math.ceil(math.sqrt(codec.rows * codec.columns / most))  # of a square, in pixels
    spots, corners = number_spots(codec, size)
    one = PixelPass(task, model.network, ids, None, spots)
    if codec.classes:
        number = codec.class_number(label)
        one = replace(one, classes=torch.tensor([[number]], device=model.device))
    names = [f"{row},{column}" for row, column in corners.tolist()]
    rows = [
        TokenRow("written", names, range(len(names)), [False] * len(names)),
        TokenRow(
            "so far", [START, *names], [-1, *range(len(names))], [True] + [False] * len(names)
        ),
    ]
    about = describe_page(
        model,
        read="",
        wrote="",  # told by the pass
        parts=PARTS,
        unit="pixel",
        apart="pixels between the one that is drawn and those it reads, on average",
        picture={
            "rows": codec.rows,
            "columns": codec.columns,
            "square": size,
            "pixels": show_colours(codec, levels),
            "spots": corners.tolist(),
        },
    )
    page = inspect_pass(
        one, rows, lambda layer: ("decoder", "written", "so far", 0), about, what_if
    )
    return replace(page, maps=[gather_spots(each, spots, corners) for each in page.maps])


def number_spots(codec: PixelCodec, size: int) -> tuple[Tensor, Tensor]:
    """Return the spot of each token, (N,), and the corner of each spot, (S, 2). A spot is a square
    of `size` pixels; spots are numbered in the order in which they are drawn.
    """
    at = torch.stack(codec.places.axes[:2], 1) // size
    _, found = at.unique(dim=0, return_inverse=True)
    turn = torch.full((int(found.max()) + 1,), len(found)).scatter_reduce(
        0, found, torch.arange(len(found)), "amin"
    )
    begins = turn.sort().values  # the first token of each spot
    return turn.argsort().argsort()[found], at[begins] * size


def gather_spots(layer: LayerMap, spots: Tensor, corners: Tensor) -> LayerMap:
    """Sum attention by spots: (H, N, N) -> (H, S, 1 + S); the first key is the start token."""
    heads, count = len(layer.weights), len(corners)
    read = torch.cat([torch.zeros(1, dtype=torch.long), spots[:-1] + 1])
    each = layer.weights.new_zeros(heads, len(spots), count + 1).index_add(2, read, layer.weights)
    rows = each.new_zeros(heads, count, count + 1).index_add(1, spots, each)
    apart = torch.zeros(count, count + 1)
    apart[:, 1:] = torch.cdist(corners.float(), corners.float())
    return replace(layer, weights=rows / spots.bincount()[:, None], apart=apart)


def name_level(codec: PixelCodec, channel: int, level: int) -> str:
    if codec.levels == 2:
        return ("black", "white")[level]
    bright = int(codec.brighten(torch.tensor(level)))
    return f"{COLOURS[channel] if codec.channels == 3 else 'grey'} {bright}"


def tell_likelihood(codec: PixelCodec, found: Sequence[Any], classes: Tensor | None) -> str:
    """Return, for example, "0.54 bits for a value, as class 7"."""
    bits = -sum(one["log"] for one in found) / math.log(2) / codec.values
    known = "" if classes is None else f", as class {codec.classes[int(classes)]}"
    return f"{bits:.2f} bits for a value{known}"


def show_colours(codec: PixelCodec, levels: Tensor) -> list[int]:
    """(1, rows, columns, channels) -> 0xrrggbb of each pixel"""
    bright = codec.brighten(levels).long().expand(1, *codec.shape[:2], 3)[0].reshape(-1, 3)
    return (bright * torch.tensor([65536, 256, 1])).sum(1).tolist()
