"""Put images side by side on a sheet, and save PNG and GIF files."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyheads.tasks.image.sources import Bytes, import_pillow

SMALLEST = 768  # pixels: smaller sheets are enlarged, each pixel to a square
PAPER = 255  # between images
GREY = 128  # between images that belong together


def make_sheet(images: Bytes, across: int = 0) -> Bytes:
    """Join images (N, H, W, C) into one, `across` in a row; 0: as square as possible."""
    count, rows, columns, channels = images.shape
    across = across or math.ceil(math.sqrt(count * rows / columns))
    down = math.ceil(count / across)
    sheet = np.full((down * (rows + 1) + 1, across * (columns + 1) + 1, channels), PAPER, np.uint8)
    for i, image in enumerate(images):
        top, left = i // across * (rows + 1) + 1, i % across * (columns + 1) + 1
        sheet[top : top + rows, left : left + columns] = image
    return sheet


def put_beside(*sets: Bytes) -> Bytes:
    """Join the images of the same number, with a grey line between them."""
    line = np.full((*sets[0].shape[:2], 1, sets[0].shape[3]), GREY, np.uint8)
    first, *others = sets
    return np.concatenate([first, *(part for other in others for part in (line, other))], 2)


def enlarge(image: Bytes) -> Bytes:
    """Enlarge each pixel of a small image to a square of pixels."""
    times = max(1, SMALLEST // max(image.shape[:2]))
    return image.repeat(times, 0).repeat(times, 1)


def undo_enlarge(image: Bytes, columns: int) -> Bytes:
    """Shrink an enlarged image back to `columns`; return it unchanged if it is not enlarged."""
    times = max(1, image.shape[1] // columns)
    small = image[::times, ::times]
    same = np.array_equal(small.repeat(times, 0).repeat(times, 1), image)
    return small if same else image


def encode_png(image: Bytes) -> bytes:
    """Encode an image (H, W, 1 or 3) as PNG; our own code, so that drawing needs no package."""
    rows, columns, channels = image.shape
    lines = np.concatenate(
        [np.zeros((rows, 1), np.uint8), image.reshape(rows, columns * channels)], 1
    )
    head = struct.pack(">IIBBBBB", columns, rows, 8, 0 if channels == 1 else 2, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n"
    packed = zlib.compress(lines.tobytes(), 9)
    for name, data in ((b"IHDR", head), (b"IDAT", packed), (b"IEND", b"")):
        chunk = name + data
        whole += struct.pack(">I", len(data)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return whole


def save_png(image: Bytes, path: Path) -> None:
    path.write_bytes(encode_png(image))


def save_gif(frames: Sequence[Bytes], path: Path, milliseconds: int = 90) -> None:
    """Save frames that follow each other; the last one stays longer."""
    pillow, _ = import_pillow()
    first, *others = (pillow.fromarray(one if one.shape[2] == 3 else one[..., 0]) for one in frames)
    times = [milliseconds] * len(others) + [20 * milliseconds]
    first.save(path, save_all=True, append_images=others, duration=times, loop=0)


def find_nearest(images: Bytes, among: Bytes, at_once: int = 4096) -> Bytes:
    """Return for each image the one `among` others with the smallest squared difference."""
    flat = images.reshape(len(images), -1).astype(np.float32)
    least, found = np.full(len(images), np.inf), np.zeros(len(images), int)
    for begin in range(0, len(among), at_once):
        some = among[begin : begin + at_once].reshape(-1, flat.shape[1]).astype(np.float32)
        apart = (some**2).sum(1) - 2 * flat @ some.T  # without a term that is the same for all
        nearest = apart.argmin(1)
        closer = apart[np.arange(len(flat)), nearest] < least
        least[closer], found[closer] = apart.min(1)[closer], begin + nearest[closer]
    return among[found]
