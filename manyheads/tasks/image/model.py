"""An image model: draw, complete, enlarge, score and inspect images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.decoding.config import SamplingOptions
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention, intervening
from manyheads.tasks.image.batches import ImageBatches
from manyheads.tasks.image.codec import check_bytes, format_shape
from manyheads.tasks.image.drawing import draw_images
from manyheads.tasks.image.inspection import inspect_image
from manyheads.tasks.image.sources import Bytes
from manyheads.tasks.image.verbs import ImageSampling
from manyheads.tasks.model import Model, show_options
from manyheads.tasks.portable import Portable

if TYPE_CHECKING:
    from manyheads.tasks.image.task import ImageTask


class ImageModel(Model):
    """A trained image model, which draws and scores images."""

    task: ImageTask
    asks = ""

    @torch.no_grad()
    @show_options(ImageSampling, SamplingOptions)
    def generate(
        self,
        count: int = 1,
        of_class: str | None = None,
        begin: Bytes | None = None,
        small: Bytes | None = None,
        told: Callable[[float], None] = lambda more: None,
        **options: Unpack[SamplingOptions],
    ) -> Bytes:
        """model.generate(16, of_class="3") -> bytes (16, rows, columns, channels).

        `begin` is an image to complete, bytes (rows, columns, channels) with only its first rows;
        without `of_class`, the likeliest class of these rows is taken. A super-resolution model
        enlarges `small`, also bytes. `told` is called with the number of tokens drawn.
        """
        codec, how = self.task.codec, ImageSampling(**options)
        if count < 1:
            raise ValueError(f"1 image or more is drawn, got {count}")
        shrunk = self.encode_small(small)
        if shrunk is not None:
            shrunk = shrunk.expand(count, -1, -1, -1)
        given = torch.zeros(1, 0, dtype=torch.long) if begin is None else self.encode_begin(begin)
        if begin is not None and of_class is None:
            of_class = self.find_class(begin)
        ids = draw_images(
            self.network,
            codec,
            given.expand(count, -1).to(self.device),
            self.task.condition(self.network, count, of_class, shrunk),
            how,
            told=told,
        )
        return codec.brighten(codec.decode(ids)).cpu().numpy()

    def encode_begin(self, image: Bytes) -> Tensor:
        """Encode the first rows of an image as its first tokens (1, n)."""
        check_bytes(image, ("rows", "columns", "channels"))
        codec, (rows, columns, channels) = self.task.codec, image.shape
        if columns != codec.columns or not 0 < rows <= codec.rows or channels != codec.channels:
            raise ValueError(
                f"an image to complete has the first rows of {codec.rows} x {codec.columns} with "
                f"{codec.channels} channels, this one is {rows} x {columns} with {channels}"
            )
        if codec.tile and rows % codec.tile and rows < codec.rows:
            raise ValueError(
                f"the model draws tiles of {codec.tile} x {codec.tile}: an image to complete has "
                f"whole rows of them, this one has {rows} rows of pixels"
            )
        ids = codec.encode(codec.quantize(torch.from_numpy(self.fill_rows(image)))[None])
        return ids[:, : codec.tokens * rows // codec.rows]

    def fill_rows(self, image: Bytes) -> Bytes:
        """Fill the missing rows below an image with black."""
        whole = np.zeros(self.task.codec.shape, np.uint8)
        whole[: len(image)] = image
        return whole

    @torch.no_grad()
    def find_class(self, image: Bytes) -> str | None:
        """Return the likeliest class of an image or of its first rows; None without classes."""
        task, codec = self.task, self.task.codec
        if not codec.classes or codec.small:
            return None
        check_bytes(image, ("rows", "columns", "channels"))
        if image.shape[1:] != codec.shape[1:] or len(image) > codec.rows:
            codec.quantize_picture(image)  # raises with the reason
        tokens, count = self.encode_begin(image).shape[1], len(codec.classes)
        each = np.repeat(self.fill_rows(image)[None], count, axis=0)
        batches = ImageBatches(each, np.arange(count), codec, task.at_once)
        self.network.eval()
        return codec.classes[int(task.measure_nats(self.network, batches, tokens).argmin())]

    def encode_small(self, image: Bytes | None) -> Tensor | None:
        """Return the levels (1, rows, columns, channels) of the image to enlarge."""
        codec = self.task.codec
        if image is None and not codec.small:
            return None
        if image is None:
            raise ValueError(
                f"the model enlarges images of {codec.small} x {codec.small}, and none came; "
                "--upscale small.png would do"
            )
        if not codec.small:
            raise ValueError("an image to enlarge came to a model that draws from nothing")
        check_bytes(image, ("rows", "columns", "channels"))
        if image.shape != codec.small_codec.shape:
            raise ValueError(
                f"the model enlarges images of {format_shape(codec.small_codec.shape)} channels, "
                f"this one is {format_shape(image.shape)}"
            )
        return codec.quantize(torch.from_numpy(image.copy()))[None]

    def score(self, images: Bytes, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        """Return the nats of each image of bytes (N, rows, columns, channels); a model with classes
        needs the label of each.
        """
        task, codec = self.task, self.task.codec
        check_bytes(images, ("images", "rows", "columns", "channels"))
        if images.shape[1:] != codec.shape:
            raise ValueError(
                f"the model knows images of {format_shape(codec.shape)} channels, these are of "
                f"{format_shape(images.shape[1:])}; --size at training would make them alike"
            )
        classes = None
        if codec.classes:
            if not len(labels):  # also of an array
                raise ValueError("the model knows classes, and these images have none")
            if len(labels) != len(images):
                raise ValueError(
                    f"each image has a label: {len(images)} images and {len(labels)} labels came"
                )
            classes = np.array([codec.class_number(label) for label in labels])
        batches = ImageBatches(images, classes, codec, task.at_once)
        self.network.eval()
        return task.measure_nats(self.network, batches).numpy()

    @torch.no_grad()
    def inspect(
        self, picture: Bytes, of_class: str | None = None, *, what_if: Sequence[Intervention] = ()
    ) -> AttentionPage:
        """Return a page of what each pixel attends to; a notebook shows it, `.save("page.html")`
        writes it.

        The picture is bytes (rows, columns, channels). A model with classes sees it as `of_class`,
        by default the likeliest class; `what_if` lists interventions.
        """
        of_class = self.find_class(picture) if of_class is None else of_class
        return inspect_image(self, picture, of_class, what_if)

    @torch.no_grad()
    def inspect_live(
        self,
        asked: str,
        what_if: Sequence[Intervention] = (),
        picture: Bytes | None = None,
        of_class: str | None = None,
    ) -> AttentionPage:
        """Return the page of a picture; without one, the model draws it with a fixed seed."""
        if picture is None:
            with intervening(self.network, what_if):
                (picture,) = self.generate(1, of_class, seed=0)
        of_class = self.find_class(picture) if of_class is None else of_class
        return inspect_image(self, picture, of_class, what_if)

    def portable(self) -> Portable:
        raise ValueError(
            f"{self.name} is a model for images, whose rows and columns have no counterpart "
            "elsewhere; models of text are exported and verified"
        )
