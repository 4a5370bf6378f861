"""generate and evaluate, for models of images."""

from __future__ import annotations

import sys
import time
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from manyheads.cli.screen import count_amount, print_report
from manyheads.decoding.config import Sampling
from manyheads.tasks.image.evaluation import evaluate_images, image_table
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.sheet import enlarge, make_sheet, save_png
from manyheads.tasks.image.sources import read_picture, read_pictures, same_colours
from manyheads.tasks.image.verbs import DrawOptions, EvaluateImagesOptions


def draw_sheet(model: ImageModel, options: DrawOptions) -> None:
    assert options.out is not None
    codec, began = model.task.codec, time.perf_counter()
    begin, small = (
        None if path is None else same_colours(read_picture(path), codec.channels)
        for path in (options.complete, options.upscale)
    )
    how = {one.name: getattr(options, one.name) for one in fields(Sampling)}
    with count_amount(options.count * codec.tokens, "tokens", "drawn") as told:
        images = model.generate(options.count, options.of_class, begin, small, told, **how)
    took = time.perf_counter() - began
    save_png(enlarge(on_sheet(images)), options.out)
    size = f"{codec.rows} x {codec.columns}"
    print(f"{options.out}: {len(images):,} images of {size} in {took:.1f} s")


def on_sheet(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images[0] if len(images) == 1 else make_sheet(images)


def evaluate_pictures(model: ImageModel, options: EvaluateImagesOptions) -> None:
    data, codec = model.task.recipe.data, model.task.codec
    pictures = read_pictures(options.images, data.scaled, codec.channels == 1)
    for note in pictures.notes:
        print(note, file=sys.stderr)
    pictures.pixels = same_colours(pictures.pixels, codec.channels)
    print_report(evaluate_images(model, pictures), options.as_json, image_table)
