"""Read images: picture files, folders of them, an .npz of arrays, or IDX files as in MNIST.

N images, H rows, W columns, C channels.
"""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")  # Pillow modes: grey or RGB of at most 8 bits
BITS = 258  # the tag of a TIFF that says how many each channel has
SHOWN = 5  # most names of images left out that are printed


@dataclass
class Pictures:
    """Images of one size, their classes if there are any, and what was left out."""

    pixels: Bytes  # (N, H, W, C)
    labels: list[str] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)  # names by reason
    names: list[str] = field(default_factory=list)  # the path of each, or its place in a file

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, some: NDArray[np.int64]) -> Pictures:
        labels = [self.labels[i] for i in some] if self.labels else []
        return Pictures(self.pixels[some], labels)

    @property
    def notes(self) -> list[str]:
        """Lines for the user about images left out."""
        return [
            f"{len(names):,} left out, {reason}: {', '.join(names[:SHOWN])}"
            + (", ..." if len(names) > SHOWN else "")
            for reason, names in self.left_out.items()
        ]


def read_pictures(paths: Sequence[Path], size: int | None = None, grey: bool = False) -> Pictures:
    """Read all images of these paths; skip those that cannot be used, and note their names."""
    left_out: dict[str, list[str]] = {}
    found: list[tuple[str, Bytes, str]] = []  # a name, the pixels and the class of each
    for path in paths:
        found += read_file(path, size, left_out)
    if not found:
        reasons = "; ".join(Pictures(np.empty(0, np.uint8), [], left_out).notes)
        raise ValueError(
            f"there are no images in {', '.join(map(str, paths))}"
            + (f": {reasons}" * bool(reasons))
        )
    images = [to_grey(image) if grey else image for _, image, _ in found]
    channels = max(image.shape[2] for image in images)  # all in colour if any is
    images = [match_colours(fit_size(image, size), channels) for image in images]
    names, labels = [name for name, *_ in found], [label for *_, label in found]
    refuse_sizes_that_differ(names, images)
    return Pictures(np.stack(images), labels if all(labels) else [], left_out, names)


def read_file(
    path: Path, size: int | None, left_out: dict[str, list[str]]
) -> Iterator[tuple[str, Bytes, str]]:
    if path.is_dir():
        yield from read_folder(path, size, left_out)
    elif not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    elif path.suffix == ".npz":
        yield from read_arrays(path)
    elif path.suffix.lower() in PICTURES:
        yield str(path), read_picture(path, size), ""
    elif "ubyte" in path.name or "idx" in path.name:
        yield from read_idx(path)
    else:
        raise ValueError(f"{path} is no folder, no .npz, no IDX file and no picture")


def read_folder(
    folder: Path, size: int | None, left_out: dict[str, list[str]]
) -> Iterator[tuple[str, Bytes, str]]:
    """Yield the pictures in a folder and below; the name of the first subfolder is the class."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in PICTURES or not path.is_file():
            continue
        parts = path.relative_to(folder).parts
        try:
            yield str(path), read_picture(path, size), parts[0] if parts[1:] else ""
        except ValueError as error:
            left_out.setdefault(str(error).partition(": ")[2], []).append("/".join(parts))


def decode_labels(path: Path, labels: Any) -> Any:
    try:
        return np.char.decode(labels, "utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: labels are texts in UTF-8 or numbers") from None


def read_arrays(path: Path) -> Iterator[tuple[str, Bytes, str]]:
    """Yield images of an .npz: bytes `images` (N, H, W) or (N, H, W, C), maybe `labels` (N,)."""
    try:
        with np.load(path, allow_pickle=False) as held:
            there = ", ".join(held) or "none"
            arrays = {name: held[name] for name in ("images", "labels") if name in held}
    except Exception:  # a broken file may raise anything
        raise ValueError(f"{path} is cut short, or no .npz of plain arrays") from None
    if "images" not in arrays:
        raise ValueError(f"{path} has no array called images; there are {there}")
    images = arrays["images"]
    if (
        images.dtype != np.uint8
        or images.ndim not in (3, 4)
        or images.shape[3:] not in ((), (1,), (3,))
    ):
        raise ValueError(
            f"{path}: images are bytes of (N, rows, columns) or (N, rows, columns, 3), "
            f"got {images.dtype} of {images.shape}"
        )
    labels = arrays.get("labels")
    if labels is not None and labels.dtype.kind == "S":
        labels = decode_labels(path, labels)
    if labels is not None and labels.shape != images.shape[:1]:
        raise ValueError(f"{path} has {len(images)} images and labels of {labels.shape}")
    images = images if images.ndim == 4 else images[..., None]
    for i, image in enumerate(images):
        yield f"{path}, {i}", image, "" if labels is None else str(labels[i])


def read_idx(path: Path) -> Iterator[tuple[str, Bytes, str]]:
    """Yield images of an IDX file, gzipped or not, with labels if their file is beside it."""
    images = read_idx_array(path, 3)
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    beside = path.with_name(name)
    labels = read_idx_array(beside, 1) if name != path.name and beside.exists() else None
    if labels is not None and len(labels) != len(images):
        raise ValueError(f"{path} has {len(images)} images and {beside} {len(labels)} labels")
    for i, image in enumerate(images):
        yield f"{path}, {i}", image[..., None], "" if labels is None else str(labels[i])


def read_idx_array(path: Path, axes: int) -> Bytes:
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError):
        raise ValueError(f"{path} is cut short, or not packed by gzip") from None
    head = 4 + 4 * axes
    if data[:4] != bytes([0, 0, 8, axes]) or len(data) < head:
        raise ValueError(f"{path} is no IDX file of bytes with {axes} axes")
    shape = np.frombuffer(data, ">u4", axes, 4).astype(int)
    if len(data) != head + shape.prod():
        raise ValueError(f"{path} is cut short: {shape.prod():,} bytes were to come")
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)


# ---- one picture -----------------------------------------------------------------------------


def import_pillow() -> Any:
    try:
        return import_module("PIL.Image"), import_module("PIL.ImageOps")
    except ImportError:
        raise ValueError(
            "pictures are read by Pillow: pip install pillow would do; an .npz needs none"
        ) from None


def read_picture(path: Path, size: int | None = None) -> Bytes:
    """Read (H, W, C) from a file, scaled and cropped to `size`; raise if it cannot be used."""
    if not path.is_file():
        folder = f"one picture is read here, {path} is a folder"
        raise ValueError(folder if path.is_dir() else f"there is no file {path}")
    pillow, ops = import_pillow()
    image = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is around the pixels: EXIF data cut short
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path) as opened:
                reason = describe_unusable(path, opened)
                if not reason:
                    image = put_on_white(pillow, ops.exif_transpose(opened))
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError):
        reason = f"more than {pillow.MAX_IMAGE_PIXELS:,} pixels"
    except Exception:  # a broken file may raise anything
        reason = "cut short or no picture" if path.stat().st_size else "empty"
    if image is None:
        raise ValueError(f"{path}: {reason}")
    array = np.asarray(image)
    return fit_size(array if array.ndim == 3 else array[..., None], size)


def describe_unusable(path: Path, image: Any) -> str:
    """Return why a picture cannot be used for training; "" if it can."""
    with path.open("rb") as file:
        head = file.read(25)
    if image.mode not in MODES:
        return f"in {image.mode}, not grey or RGB of 8 bits"
    tags = getattr(image, "tag_v2", {})  # of a TIFF; Pillow reads only the higher half of 16 bits
    if (head[:4] == b"\x89PNG" and head[24] == 16) or max(tags.get(BITS, (8,))) > 8:
        return "16 bits a channel, not 8"
    # The JPEG of a phone may hold a depth map or a preview behind its picture (MPO).
    still = image.format == "MPO" or getattr(image, "n_frames", 1) == 1
    return "" if still else "animated"


def is_transparent(path: Path) -> bool:
    """Return whether a picture has parts that `read_picture` puts on white."""
    pillow, _ = import_pillow()
    with pillow.open(path) as image:
        if "A" not in image.mode and "transparency" not in image.info:
            return False
        return bool(image.convert("RGBA").getextrema()[3][0] < 255)


def put_on_white(pillow: Any, image: Any) -> Any:
    """Convert a picture to grey or RGB; transparent parts become white."""
    grey = image.mode in ("1", "L", "LA")
    if "A" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        white = pillow.new("RGBA", image.size, "white")
        image = pillow.alpha_composite(white, image)
    return image.convert("L" if grey else "RGB")


def fit_size(image: Bytes, size: int | None) -> Bytes:
    """Scale and crop an image that has another size."""
    if size is None or image.shape[:2] == (size, size):
        return image
    pillow, ops = import_pillow()
    picture = pillow.fromarray(image if image.shape[2] == 3 else image[..., 0])
    array = np.asarray(ops.fit(picture, (size, size), pillow.Resampling.LANCZOS))
    return array if array.ndim == 3 else array[..., None]


def to_grey(image: Bytes) -> Bytes:
    """Convert colours to grey by perceived brightness."""
    if image.shape[-1] == 1:
        return image
    weighed = image @ np.array([0.299, 0.587, 0.114])
    return weighed.round().astype(np.uint8)[..., None]


def match_colours(images: Bytes, channels: int) -> Bytes:
    """Convert images (..., C) to this number of channels."""
    if images.shape[-1] == channels:
        return images
    return to_grey(images) if channels == 1 else np.repeat(images, 3, -1)


def refuse_darkness(pixels: Bytes) -> None:
    """Raise if images of 0 and 1 were given in the place of bytes."""
    if pixels.max() == 1:
        raise ValueError(
            "all images are as good as black: pixels go from 0 to 255, and all of these are 0 or "
            "1; multiply them by 255"
        )


def refuse_sizes_that_differ(names: Sequence[str], images: Sequence[Bytes]) -> None:
    first = images[0].shape[:2]
    for name, image in zip(names, images, strict=True):
        if image.shape[:2] != first:
            raise ValueError(
                f"images are of one size: {names[0]} has {first[0]} x {first[1]} pixels and "
                f"{name} {image.shape[0]} x {image.shape[1]}; `train image --size "
                f"{min(first)}` would scale and crop them all"
            )
