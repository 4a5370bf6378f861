"""The image task.

B images, N tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from manyheads.decoding.config import Sampling
from manyheads.devices import send
from manyheads.modules.transformer import Tokens
from manyheads.tasks.image.batches import ImageBatch, ImageBatches, write_array
from manyheads.tasks.image.codec import PixelCodec, format_shape
from manyheads.tasks.image.drawing import draw_images
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.network import PixelNetwork, build_image_network, build_likelihood
from manyheads.tasks.image.settings import Head, ImageRecipe
from manyheads.tasks.image.sheet import enlarge, find_nearest, make_sheet, put_beside, save_png
from manyheads.tasks.image.sources import (
    Bytes,
    Pictures,
    match_colours,
    read_pictures,
    refuse_darkness,
)
from manyheads.tasks.task import Task, Validation
from manyheads.training.files import CORPUS, write_text

CODEC, SHEET = "pixels.json", "samples.png"


@dataclass
class ImageCorpus:
    """Images for training and for validation."""

    train: Pictures
    valid: Pictures
    whole: bool  # whether a pixel is one token
    notes: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.train.pixels.size // (self.train.pixels.shape[3] if self.whole else 1)

    def __str__(self) -> str:
        _, rows, columns, channels = self.train.pixels.shape
        return (
            f"{len(self.train):,} images of {rows} x {columns}{' in colour' * (channels == 3)} to "
            f"learn from, {len(self.valid):,} to validate on"
        )


class ImageTask(Task):
    """The image task with its codec."""

    Recipe = ImageRecipe
    at_once = 65536

    def __init__(self, recipe: ImageRecipe, codec: PixelCodec, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.codec = codec
        self.likelihood = build_likelihood(recipe.network, codec)

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: ImageRecipe) -> ImageCorpus:
        data = recipe.data
        train = read_pictures(data.images, data.scaled_size, data.grey)
        refuse_darkness(train.pixels)
        notes = train.notes
        if data.valid_images:
            valid = read_pictures(data.valid_images, data.scaled_size, data.grey)
            notes = notes + valid.notes
            refuse_other_shapes(train, valid)
        else:
            classes = train.labels if data.classes else []
            train, valid = hold_out_images(train, data.held_out, recipe.training.seed, classes)
        if data.classes and not (train.labels and valid.labels):
            raise ValueError(
                "classes were asked for and not all images have one; a subfolder for each class, "
                "or labels in an .npz would do"
            )
        if both := count_copies(train.pixels, valid.pixels):
            notes = [*notes, f"both learned from and validated on: {both:,} images"]
        colours = train.pixels.shape[3] == 3
        return ImageCorpus(train, valid, choose_head(recipe, colours) == "mixture", notes)

    @classmethod
    def settle(cls, recipe: ImageRecipe, corpus: ImageCorpus) -> ImageRecipe:
        head = choose_head(recipe, corpus.train.pixels.shape[3] == 3)
        return replace(recipe, network=replace(recipe.network, head=head))

    @classmethod
    def prepare(cls, corpus: ImageCorpus, recipe: ImageRecipe, folder: Path) -> None:
        data, (_, rows, columns, channels) = folder / "data", corpus.train.pixels.shape
        names = list_classes(recipe, corpus.train.labels)
        levels, tile = recipe.data.levels, recipe.network.tile
        small, _ = recipe.data.sizes
        codec = PixelCodec(rows, columns, channels, levels, corpus.whole, tile, names, small)
        if recipe.start_from is not None:
            refuse_other_start(codec, PixelCodec.load(recipe.start_from / CODEC))
        codec.save(folder / CODEC)
        data.mkdir(exist_ok=True)
        for split, pictures in (("train", corpus.train), ("valid", corpus.valid)):
            pixels = pictures.pixels
            if split == "valid":
                pixels = prepare_pixels(pixels, recipe)
            write_array(data / f"{split}.pixels.npy", pixels)
            if names:
                numbers = [codec.class_number(label) for label in pictures.labels]
                write_array(data / f"{split}.classes.npy", np.array(numbers))
        write_text(folder / CORPUS, "\n".join([str(corpus), *corpus.notes]) + "\n")

    @classmethod
    def open(cls, recipe: ImageRecipe, folder: Path) -> Self:
        return cls(recipe, PixelCodec.load(folder / CODEC), folder)

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> PixelNetwork:
        return build_image_network(self.recipe.network, self.codec)

    def batches(self) -> ImageBatches:
        data, training = self.recipe.data, self.recipe.training
        return ImageBatches(
            *self.read_split("train"),
            self.codec,
            training.tokens_per_batch,
            flip=data.flip,
            sample=data.levels == 2 and data.binarize == "sample",
            seed=training.seed,
        )

    def read_split(self, split: str) -> tuple[Bytes, NDArray[np.int64] | None]:
        data = self.held_in() / "data"
        pixels = np.load(data / f"{split}.pixels.npy")
        classes = data / f"{split}.classes.npy"
        return pixels, np.load(classes) if self.codec.classes else None

    def read_like(self, paths: Sequence[Path]) -> Pictures:
        """Read images with the size and the channels of the training images."""
        channels = self.codec.channels
        found = read_pictures(paths, self.recipe.data.scaled_size, channels == 1)
        found.pixels = match_colours(found.pixels, channels)
        return found

    def loss(self, network: nn.Module, batch: ImageBatch) -> dict[str, Tensor]:
        return {"loss": -self.log_probs(network, batch).sum()}

    def log_probs(self, network: Any, batch: ImageBatch, first: int | None = None) -> Tensor:
        """Return the log-probability of each image, or of its `first` tokens, (B,)"""
        ids = self.codec.encode(batch.pixels)
        at, _ = self.codec.on(ids.device)
        tokens = Tokens(self.codec.shift(ids), at, types=batch.classes)
        small = []
        if self.codec.small:
            small = [self.codec.read_small(self.codec.shrink(batch.pixels))]
        said = network(*small, tokens)  # (B, N, O)
        quick = network.training and self.recipe.training.compile
        read = self.compiled_log_probs if quick else self.likelihood.log_probs
        return read(said, self.codec.split(ids))[:, :first].sum(1)

    @cached_property
    def compiled_log_probs(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The compiled likelihood: a mixture runs a hundred small kernels, and as many backward."""
        return torch.compile(self.likelihood.log_probs, dynamic=False)

    def model(self, network: nn.Module, name: str = "") -> ImageModel:
        return ImageModel(self, network, name)

    # ---- validation ----------------------------------------------------------------------------

    @torch.no_grad()
    def measure_nats(self, network: Any, batches: ImageBatches, first: int | None = None) -> Tensor:
        """Return the nats of each image, or of its `first` tokens, in order: (N,)"""
        device = next(network.parameters()).device

        def lose(rows: Any) -> list[float]:
            # Equal batches on a GPU, where a kernel is compiled for each size.
            filled = np.resize(rows, (batches.rows, 2)) if device.type == "cuda" else rows
            logs = self.log_probs(network, send(batches.batch(filled), device), first)
            nats: list[float] = (-logs[: len(rows)]).tolist()
            return nats

        each = self.world.map(lose, batches.whole())
        return torch.tensor([nats for some in each for nats in some], dtype=torch.float64)

    @cached_property
    def held_out(self) -> tuple[Bytes, NDArray[np.int64] | None]:
        return self.read_split("valid")

    def validate(self, network: Any) -> Validation:
        network.eval()
        kind = next(network.parameters()).device.type
        quick = kind == "cuda" and self.recipe.training.precision == "bfloat16"

        def measure() -> Tensor:
            with torch.autocast(kind, torch.bfloat16) if quick else nullcontext():
                batches = ImageBatches(*self.held_out, self.codec, self.at_once)
                return self.measure_nats(network, batches)

        nats = self.halve_until_it_fits(measure, self.codec.tokens).mean().item()
        if self.recipe.drawn and self.world.first:
            self.draw_samples(network)
        return Validation({**self.score_nats(nats), "loss": nats / self.codec.values}, [])

    def score_nats(self, nats: float) -> dict[str, float]:
        """Return the usual score: bits per value, or with two levels nats per image."""
        if self.codec.levels == 2:
            return {"nats_per_image": nats}
        return {"bits_per_dim": nats / self.codec.values / math.log(2)}

    @torch.no_grad()
    def draw_samples(self, network: Any) -> None:
        """Draw images and save them on a sheet. Beside each is the nearest training image, to show
        memorised ones; in super-resolution, the small and the original image.
        """
        codec, count = self.codec, min(self.recipe.drawn, len(self.held_out[0]))
        device = next(network.parameters()).device
        levels = codec.quantize(torch.from_numpy(self.held_out[0][:count]))
        given = torch.zeros(len(levels), 0, dtype=torch.long, device=device)
        small = codec.shrink(levels) if codec.small else None
        condition = self.condition(network, len(levels), None, small)
        drawn = codec.decode(draw_images(network, codec, given, condition, Sampling()))
        images = codec.brighten(drawn).cpu().numpy()
        if small is None:
            learned = codec.round_bytes(self.read_split("train")[0])
            beside = [find_nearest(images, learned)]
        else:
            times = codec.rows // codec.small
            large = small.repeat_interleave(times, 1).repeat_interleave(times, 2)
            beside = [codec.brighten(large).numpy(), codec.brighten(levels).numpy()]
        sheet = make_sheet(put_beside(images, *beside))
        save_png(enlarge(sheet), self.held_in() / SHEET)

    def condition(
        self, network: PixelNetwork, count: int, name: str | None, small: Tensor | None
    ) -> Tensor | None:
        """Return the condition of `count` images: the class `name`, by default all classes in turn,
        and the levels of small images.
        """
        codec, device, classes = self.codec, network.nearby.device, None
        if name is not None:
            classes = torch.full((count, 1), codec.class_number(name), device=device)
        elif codec.classes:
            classes = (torch.arange(count, device=device) % len(codec.classes))[:, None]
        read = None if small is None else codec.read_small(small.to(device))
        return network.condition(classes, read)


def list_classes(recipe: ImageRecipe, labels: Sequence[str]) -> list[str]:
    """Return the classes of these images, or of the run to start from: it learned their vectors."""
    found = sorted({*labels}, key=sort_key) if recipe.data.classes else []
    if recipe.start_from is None:
        return found
    known = PixelCodec.load(recipe.start_from / CODEC).classes
    if new := next((name for name in found if name not in known), None):
        raise ValueError(
            f"the run to start from has no class {new!r}; it has {', '.join(known)}, and no other "
            "can be added"
        )
    return known


def choose_head(recipe: ImageRecipe, colours: bool) -> Head:
    by_kind: Head = "mixture" if colours and recipe.data.levels > 7 else "categorical"
    return recipe.network.head or by_kind


def prepare_pixels(pixels: Bytes, recipe: ImageRecipe) -> Bytes:
    """Return images as they are scored: `binarize: sample` draws each pixel black or white once."""
    if recipe.data.levels > 2 or recipe.data.binarize == "threshold":
        return pixels
    drawn = np.random.default_rng(recipe.training.seed).random(pixels.shape, np.float32)
    return np.where(drawn * 255 < pixels, 255, 0).astype(np.uint8)


def hold_out_images(
    pictures: Pictures, share: float, seed: int, classes: Sequence[str]
) -> tuple[Pictures, Pictures]:
    """Hold out a share of the images; at least one of each class stays for training."""
    order = np.random.default_rng(seed).permutation(len(pictures))
    stay = {classes[i] if classes else "": i for i in order.tolist()}
    chosen = order[~np.isin(order, [*stay.values()])][: max(1, round(share * len(pictures)))]
    if not len(chosen):
        few = "one image of each class" if classes else "one image"
        raise ValueError(f"{few} is too few: some are to learn from, some to validate on")
    rest = np.ones(len(pictures), bool)
    rest[chosen] = False
    return pictures[np.flatnonzero(rest)], pictures[np.sort(chosen)]


def count_copies(learned: Bytes, others: Bytes) -> int:
    """Count how many of the others are also training images, and may be memorised."""
    known = {hash(image.tobytes()) for image in learned}
    return sum(hash(image.tobytes()) in known for image in others)


def refuse_other_shapes(train: Pictures, valid: Pictures) -> None:
    ours, theirs = train.pixels.shape[1:], valid.pixels.shape[1:]
    if ours != theirs:
        raise ValueError(
            f"images to learn from are of {ours}, those to validate on of {theirs} (rows, columns, "
            "channels); --size and --grey make them alike"
        )


def refuse_other_start(codec: PixelCodec, start: PixelCodec) -> None:
    if codec.shape != start.shape:
        raise ValueError(
            f"the run to start from draws images of {format_shape(start.shape)} channels, these "
            f"are of {format_shape(codec.shape)} channels; images alike would do, as --size and "
            "--grey make them"
        )


def sort_key(name: str) -> tuple[int, str]:
    """Sort by number, not by text: 2 before 10."""
    return (int(name) if name.isdecimal() else -1, name)
