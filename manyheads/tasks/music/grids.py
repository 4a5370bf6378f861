"""Where chorales come from: an .npz of grids, end to end, with the length of each."""

from __future__ import annotations

import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.tasks.music.chorales import Grid, check_grid

BROKEN = (ValueError, TypeError, RuntimeError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


def read_grids(path: Path) -> dict[str, list[Grid]]:
    """The splits of a file that holds `<split>_notes` (steps, 4) and `<split>_lengths` of each."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    try:
        with np.load(BytesIO(data), allow_pickle=False) as held:
            found = {name: held[name] for name in held.files}
    except BROKEN:
        raise ValueError(
            f"{path} is not an .npz of plain numbers; pickled arrays are not read: save each "
            "split as <split>_notes and <split>_lengths"
        ) from None
    splits = [name.removesuffix("_notes") for name in found if name.endswith("_notes")]
    if not splits or not all(f"{split}_lengths" in found for split in splits):
        raise ValueError(
            f"{path} should hold <split>_notes and <split>_lengths, "
            f"it holds {', '.join(found) or 'nothing'}"
        )
    return {s: split_grids(path, s, found[f"{s}_notes"], found[f"{s}_lengths"]) for s in splits}


def split_grids(path: Path, split: str, notes: NDArray[Any], lengths: NDArray[Any]) -> list[Grid]:
    try:
        check_grid(notes)  # before it is made small: 65,596 would become a middle C
    except ValueError as error:
        raise ValueError(f"{path}: {split}_notes: {error}") from None
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise ValueError(
            f"{path}: {split}_lengths should be whole numbers in a row, "
            f"they are {lengths.dtype} of shape {lengths.shape}"
        )
    if (lengths < 0).any() or lengths.sum() != len(notes):
        raise ValueError(
            f"{path}: {split}_lengths should be counts that add up to {len(notes)} steps, "
            f"they add up to {lengths.sum()}"
        )
    return [part.astype(np.int16) for part in np.split(notes, np.cumsum(lengths))[:-1]]
