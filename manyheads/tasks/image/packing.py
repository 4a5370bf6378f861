"""Compress images without loss with the probabilities of a model, and restore them.

B images, N tokens, P values of a token.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.data.packed import PackedPart
from manyheads.decoding.config import Sampling
from manyheads.devices import use_threads
from manyheads.modules.transformer import Decoder
from manyheads.tasks.image.codec import format_shape
from manyheads.tasks.image.drawing import ImageStep
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.recorded import ImageRecorder
from manyheads.tasks.image.sources import Bytes, Pictures, is_transparent
from manyheads.tasks.packing import (
    AT_ONCE,
    CodeSymbols,
    SymbolReader,
    SymbolWriter,
    Told,
    describe_machine,
    explain_damage,
    map_parts,
)

MEMORY = 4 << 30  # bytes of keys and values
LANES = {"cpu": 64, "cuda": 512}  # images in a batch


def compress_images(
    model: ImageModel, pictures: Pictures, names: Sequence[str], told: Told = lambda more: None
) -> tuple[dict[str, Any], list[PackedPart]]:
    """Return a header and parts for `write_packed`; raise if an image would not be lossless."""
    codec, lanes = model.task.codec, min(LANES[model.device.type], len(pictures))
    refuse_loss(model, pictures)
    levels = codec.quantize(torch.from_numpy(pictures.pixels))
    head = {
        **describe_machine(model),
        "lanes": lanes,
        "images": len(pictures),
        "names": [] if [*names] == number_names(len(names)) else [*names],
        "labels": pictures.labels if codec.classes else [],
    }
    coding = LaneCoding(model, head)

    def compress_part(begin: int, told: Told) -> PackedPart:
        some = levels[begin : begin + lanes]
        values = codec.split(codec.encode(some).to(model.device))  # (B, N, P)
        writer = SymbolWriter(values.flatten(1))
        coding.run(begin, len(some), writer, told)
        data = check_images(some) + writer.coder.finish()
        return PackedPart(data, zlib.crc32(some.numpy().tobytes()))

    begins = range(0, len(pictures), lanes)
    return head, map_parts(model, compress_part, begins, told, coding.count_at_once())


def decompress_images(
    model: ImageModel, head: dict[str, Any], parts: list[PackedPart], told: Told = lambda more: None
) -> Bytes:
    """Return bytes (N, rows, columns, channels); raise if an image differs from the original."""
    codec, lanes = model.task.codec, head["lanes"]
    coding = LaneCoding(model, head)

    def decompress_part(number: int, told: Told) -> Tensor:
        begin, part = number * lanes, parts[number]
        count = min(lanes, head["images"] - begin)
        checks, data = part.data[:count], part.data[count:]
        levels = codec.decode(coding.run(begin, count, SymbolReader(data), told)).cpu()
        again = check_images(levels)
        if again != checks or zlib.crc32(levels.numpy().tobytes()) != part.checksum:
            each = zip(checks, again, strict=False)
            wrong = next((i for i, (a, b) in enumerate(each) if a != b), 0)
            raise ValueError(explain_damage(head, f"image {begin + wrong + 1:,}"))
        return levels

    found = map_parts(model, decompress_part, range(len(parts)), told, coding.count_at_once())
    return codec.brighten(torch.cat(found)).numpy()


def check_images(levels: Tensor) -> bytes:
    """Return a byte per image, to name the damaged one; the checksum of the part finds damage."""
    return bytes(zlib.crc32(one.tobytes()) & 255 for one in levels.numpy())


class LaneCoding:
    """Codes images in batches of `lanes`, token by token."""

    def __init__(self, model: ImageModel, head: dict[str, Any]):
        self.model, self.head = model, head
        self.recorder: ImageRecorder | None = None

    def start(self, condition: Tensor | None) -> Callable[[Tensor], Tensor]:
        """Return a step that starts at the first token; on CUDA it is recorded once."""
        network, codec = self.model.network, self.model.task.codec
        if self.model.device.type != "cuda" or not isinstance(network.writer, Decoder):
            return ImageStep(network, codec, condition)
        if self.recorder is None:
            lanes = self.head["lanes"]
            self.recorder = ImageRecorder(network, codec, condition, Sampling(), lanes)
        self.recorder.start(condition)
        return self.recorder

    def count_at_once(self) -> int:
        """Return how many batches have room in memory side by side."""
        network, places = self.model.network, self.model.task.codec.places
        if not isinstance(network.writer, Decoder):
            return AT_ONCE
        ring = network.make_ring(places)
        slots, stack = len(places if ring is None else ring.slot), network.writer.stack
        size = 2 * 4 * self.head["lanes"] * slots * stack.width * len(stack.blocks)
        return max(1, min(AT_ONCE, MEMORY // size))

    def condition(self, begin: int, count: int) -> Tensor | None:
        """Return the condition of `count` images from `begin` on; None without classes."""
        codec, classes = self.model.task.codec, None
        if codec.classes:
            labels = self.head["labels"][begin : begin + count]
            numbers = [codec.class_number(label) for label in labels]
            filled = [*numbers, *[numbers[0]] * (self.head["lanes"] - count)]
            classes = torch.tensor(filled, device=self.model.device)[:, None]
        made: Tensor | None = self.model.network.condition(classes, None)
        return made

    @torch.no_grad()
    @use_threads(1)
    def run(self, begin: int, count: int, code: CodeSymbols, told: Told) -> Tensor:
        """Code `count` images from `begin` on, return their tokens; free lanes repeat the first."""
        model, codec, lanes = self.model, self.model.task.codec, self.head["lanes"]
        model.network.eval()
        step = self.start(self.condition(begin, count))
        new = torch.full((lanes, 1), codec.start, device=model.device)
        ids = []
        for _ in range(codec.tokens):
            said = step(new)[:count]
            values = model.task.likelihood.choose_values(said, lambda logs, _: code(logs))
            ids.append(codec.join(values)[:, None])
            new = torch.cat([ids[-1], ids[-1][:1].expand(lanes - count, -1)])
            told(count)
        return torch.cat(ids, 1)


# ---- checks and names ----------------------------------------------------------------------------


def refuse_loss(model: ImageModel, pictures: Pictures) -> None:
    """Raise unless all images have the size and the levels of the model, so that none is lost."""
    codec = model.task.codec
    if codec.small:
        raise ValueError(
            f"{model.name} enlarges small images; a model that draws from nothing would do"
        )
    ours, theirs = codec.shape, pictures.pixels.shape[1:]
    if ours != theirs:
        raise ValueError(
            f"the model compresses images of {format_shape(ours)} channels, "
            f"these are of {format_shape(theirs)} channels"
        )
    same = (codec.round_bytes(pictures.pixels) == pictures.pixels).all((1, 2, 3))
    if not same.all():
        first = int(same.argmin()) + 1
        raise ValueError(
            f"image {first} has other values than the {codec.levels} levels of the model and would "
            "not come out as it is"
        )
    for path in map(Path, pictures.names):
        if path.is_file() and is_transparent(path):
            raise ValueError(f"{path} has transparent parts and would come out on white")
    if codec.classes and not pictures.labels:
        raise ValueError("the model knows classes, and these images have none")


def name_files(pictures: Pictures, paths: Sequence[Path]) -> list[str]:
    """Return the name of each unpacked file: its path in its folder, or its number."""
    found = []
    for number, name in enumerate(pictures.names, start=1):
        path = Path(name)
        roots = (one for one in paths if one.is_dir() and path.is_relative_to(one))
        root = next(roots, path.parent)
        held = path.relative_to(root) if path.is_file() else Path(f"{number:06d}")
        found.append(held.with_suffix(".png").as_posix())
    if twice := next((name for name, met in Counter(found).items() if met > 1), None):
        raise ValueError(f"two images would be called {twice}; compress them one by one")
    return found


def number_names(count: int) -> list[str]:
    return [f"{number:06d}.png" for number in range(1, count + 1)]


def read_names(head: dict[str, Any]) -> list[str]:
    """Return the names in a file; raise if one lies outside of the output folder."""
    names: list[str] = head["names"] or number_names(head["images"])
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"an image in the file is called {name}, outside of the folder")
    return names
