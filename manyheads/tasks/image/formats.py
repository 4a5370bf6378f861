"""Measure how many bytes images take in other lossless formats."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from manyheads.tasks.image.sheet import encode_png
from manyheads.tasks.image.sources import Bytes, import_pillow, match_colours

# Written by Pillow, with the settings that give the smallest files.
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"optimize": True},
    "webp": {"lossless": True, "quality": 100, "method": 6},
    "jxl": {"lossless": True, "effort": 9},
}
NAMES = {"png": "PNG", "webp": "WebP", "jxl": "JPEG XL"}


def measure_formats(images: Bytes) -> dict[str, int]:
    """Return the total bytes of images (N, rows, columns, channels) in each installed format."""
    sizes = {"PNG": sum(len(encode_png(image)) for image in images)}
    try:
        pillow, _ = import_pillow()
    except ValueError:
        return sizes
    known = pillow.registered_extensions()
    for form, how in FORMATS.items():
        if f".{form}" in known:
            found = sum(measure_file(pillow, image, form, how) for image in images)
            sizes[NAMES[form]] = min(found, sizes.get(NAMES[form], found))
    if "JPEG XL" not in sizes and (program := shutil.which("cjxl")):
        sizes["JPEG XL"] = sum(run_cjxl(program, image) for image in images)
    return sizes


def measure_file(pillow: Any, image: Bytes, form: str, how: dict[str, Any]) -> int:
    file, grey = io.BytesIO(), image.shape[2] == 1 and form != "webp"
    pillow.fromarray(image[..., 0] if grey else match_colours(image, 3)).save(file, form, **how)
    return file.tell()


def run_cjxl(program: str, image: Bytes) -> int:
    """Return the size of an image as a JPEG XL file, written by the program `cjxl`."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "a.png"), Path(folder, "a.jxl")
        before.write_bytes(encode_png(image))
        subprocess.run(
            [program, before, after, "-d", "0", "-e", "9"], check=True, capture_output=True
        )
        return after.stat().st_size
