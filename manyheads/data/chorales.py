"""Where chorales come from: an .npz of grids, end to end, with the length of each."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def grids(path: Path) -> dict[str, list[NDArray[np.int16]]]:
    """The splits of a file that holds `<split>_notes` (steps, 4) and `<split>_lengths` of each."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            found = {name: held[name] for name in held.files}
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, TypeError):
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
    return {s: cut(path, s, found[f"{s}_notes"], found[f"{s}_lengths"]) for s in splits}


def cut(
    path: Path, split: str, notes: NDArray[np.int16], lengths: NDArray[np.int64]
) -> list[NDArray[np.int16]]:
    if notes.ndim != 2 or notes.shape[1] != 4 or not np.issubdtype(notes.dtype, np.integer):
        raise ValueError(
            f"{path}: {split}_notes should be whole numbers of shape (steps, 4), "
            f"they are {notes.dtype} of shape {notes.shape}"
        )
    whole = lengths.ndim == 1 and np.issubdtype(lengths.dtype, np.integer)
    if not whole or (lengths < 0).any() or lengths.sum() != len(notes):
        raise ValueError(
            f"{path}: {split}_lengths should be counts that add up to {len(notes)} steps, "
            f"they add up to {lengths.sum()}"
        )
    return [part.astype(np.int16) for part in np.split(notes, np.cumsum(lengths)[:-1])]
