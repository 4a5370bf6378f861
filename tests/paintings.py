"""Images of two classes, and a run that learns a little from them within a second."""

from functools import cache
from pathlib import Path

import numpy as np

import manyheads


def squares(count: int, channels: int = 1) -> np.ndarray:
    """A bright half on a dark ground: the upper one or the lower one."""
    images = np.random.default_rng(0).integers(0, 100, (count, 8, 8, channels), np.uint8)
    images[::2, :4] += 150
    images[1::2, 4:] += 150
    return images


def save_arrays(path: Path, channels: int = 1) -> Path:
    labels = np.array(["up", "down"] * 20)
    np.savez(path, images=squares(40, channels).squeeze(), labels=labels)
    return path


@cache
def train_painter(base: Path) -> Path:
    """A run that knows two classes of images in black and white; none may change it."""
    folder = base / "painter"
    folder.mkdir()
    arrays = save_arrays(folder / "squares.npz")
    settings = {"steps": 60, "validate_every": 60, "tokens_per_batch": 1024, "learning_rate": 0.02}
    network = {"width": 16, "depth": 1, "heads": 2, "ffn_width": 32}
    manyheads.train(
        "image",
        images=arrays,
        levels=2,
        classes=True,
        out=folder / "run",
        device="cpu",
        network=network,
        training=settings,
        drawn=4,
    )
    return folder / "run"
