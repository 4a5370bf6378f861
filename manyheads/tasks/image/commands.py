"""generate, evaluate, inspect, look, compress and decompress, for models of images."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.cli.live import serve_live
from manyheads.cli.screen import count_amount, print_picture, print_report
from manyheads.data.packed import write_packed
from manyheads.decoding.config import Sampling
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.evaluation import evaluate_images, image_table
from manyheads.tasks.image.formats import measure_formats
from manyheads.tasks.image.judging import judge_samples
from manyheads.tasks.image.looking import PixelView, look_at_pixel
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.packing import compress_images, decompress_images, name_files, read_names
from manyheads.tasks.image.sheet import (
    encode_png,
    enlarge,
    make_sheet,
    save_gif,
    save_png,
    undo_enlarge,
)
from manyheads.tasks.image.similarity import SimilarityView, look_for_similar
from manyheads.tasks.image.sources import (
    Bytes,
    fit_size,
    match_colours,
    read_picture,
    read_pictures,
)
from manyheads.tasks.image.verbs import (
    CompressOptions,
    DecompressOptions,
    DrawOptions,
    EvaluateImagesOptions,
    InspectImageOptions,
    LookAtPixelOptions,
)
from manyheads.tasks.packing import note_payoff, open_packed, write_files

UNDRAWN = 110  # brightness of pixels that are not drawn yet


def draw_sheet(model: ImageModel, options: DrawOptions) -> None:
    assert options.out is not None
    codec, began = model.task.codec, time.perf_counter()
    begin, small = (
        None if path is None else read_drawn(path, columns, codec.channels)
        for path, columns in (
            (options.complete, codec.columns),
            (options.upscale, codec.small or codec.columns),
        )
    )
    how = {one.name: getattr(options, one.name) for one in fields(Sampling)}
    with count_amount(options.count * codec.tokens, "tokens", "drawn") as told:
        images = model.generate(options.count, options.of_class, begin, small, told, **how)
    took = time.perf_counter() - began
    save_png(enlarge(put_on_sheet(images)), options.out)
    size = f"{codec.rows} x {codec.columns}"
    print(f"{options.out}: {len(images):,} images of {size} in {took:.1f} s")
    if options.gif is not None:
        frames = [enlarge(put_on_sheet(frame)) for frame in frames_of_drawing(codec, images)]
        save_gif(frames, options.gif)
        print(f"{options.gif}: how they were drawn, in {len(frames)} frames")


def frames_of_drawing(codec: PixelCodec, images: Bytes) -> Iterator[Bytes]:
    """Yield the images while they are drawn, one frame per row; pixels not yet drawn are grey."""
    turn = codec.order.argsort().reshape(*codec.shape[:2], -1).numpy()
    for row in range(codec.rows + 1):
        drawn = turn < codec.tokens * row // codec.rows
        yield np.where(drawn, images, UNDRAWN).astype(np.uint8)


def put_on_sheet(images: Bytes) -> Bytes:
    return images[0] if len(images) == 1 else make_sheet(images)


def evaluate_pictures(model: ImageModel, options: EvaluateImagesOptions) -> None:
    pictures = model.task.read_like(options.images)
    for note in pictures.notes:
        print(note, file=sys.stderr)
    report = evaluate_images(model, pictures)
    if options.samples:
        with count_amount(options.samples * model.task.codec.tokens, "tokens", "drawn") as told:
            report["scores"] |= judge_samples(model, pictures, options.samples, told)
    print_report(report, options.as_json, image_table)


def look_at(model: ImageModel, options: LookAtPixelOptions) -> None:
    picture = read_like(model, options.image or Path())
    of_class = options.of_class or model.find_class(picture)
    asked = (options.layer, options.head, of_class)
    view: PixelView | SimilarityView
    if options.pixel is None:
        view = look_for_similar(model, picture, *asked)
    else:
        view = look_at_pixel(model, picture, options.place, *asked)
    if of_class != options.of_class:
        print(f"class {of_class}, the likeliest; --class says another\n")
    print_picture(view, options.out, lambda out: save_png(view.draw(), out))


def inspect_picture(model: ImageModel, options: InspectImageOptions) -> None:
    picture = None if options.image is None else read_like(model, options.image)
    if picture is not None and options.out is not None:
        model.inspect(picture, options.of_class).save(options.out)
        print(f"page: {options.out}")
        return
    shown = partial(model.inspect_live, picture=picture, of_class=options.of_class)
    serve_live(model, shown, options)


def read_like(model: ImageModel, path: Path) -> Bytes:
    """Read a picture with the size and the channels of the training images."""
    codec = model.task.codec
    picture = read_drawn(path, codec.columns, codec.channels)
    return fit_size(picture, model.task.recipe.data.scaled_size)


def read_drawn(path: Path, columns: int, channels: int) -> Bytes:
    """Read a picture; if it was saved enlarged, with pixels as squares, undo that."""
    return match_colours(undo_enlarge(read_picture(path), columns), channels)


# ---- compress --------------------------------------------------------------------------------


def compress(model: ImageModel, options: CompressOptions) -> None:
    assert options.out is not None
    codec, pictures = model.task.codec, read_pictures(options.files)
    for note in pictures.notes:
        print(note, file=sys.stderr)
    names = name_files(pictures, options.files)
    with count_amount(len(pictures) * codec.tokens, "tokens", "compressed") as told:
        head, parts = compress_images(model, pictures, names, told)
    size = write_packed(options.out, head, parts)
    print(describe_size(model, pictures.pixels, size))


def describe_size(model: ImageModel, images: Bytes, packed: int) -> str:
    """Return lines: bytes and bits, also of other formats, and when the weights pay off."""
    others = measure_formats(images)
    lines = [f"{len(images):,} images in {packed:,} bytes, {8 * packed / images.size:.3f} bits/dim"]
    for name, size in others.items():
        lines.append(f"  {name:7} {size:12,} bytes, {8 * size / images.size:.3f} bits/dim")
    saved = min(others.values()) - packed
    return "\n".join([*lines, *note_payoff(model, saved, len(images), "images")])


def decompress(model: ImageModel, options: DecompressOptions) -> None:
    assert options.out is not None
    head, parts = open_packed(model, options.file[0])
    names, tokens = read_names(head), head["images"] * model.task.codec.tokens
    with count_amount(tokens, "tokens", "decompressed") as told:
        images = decompress_images(model, head, parts, told)
    if options.out.suffix == ".npz":
        arrays: dict[str, Any] = {"labels": np.array(head["labels"])} if head["labels"] else {}
        np.savez_compressed(options.out, images=images, **arrays)
    else:
        paths = [options.out / name for name in names]
        write_files(dict(zip(paths, map(encode_png, images), strict=True)))
    print(f"{options.out}: {len(images):,} images, bit for bit")
