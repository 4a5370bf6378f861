"""Chorales as token ids: at each sixteenth soprano, alto, tenor and bass, in this order.

A grid is (steps, 4) pitches, -1 where a voice rests. It does not tell a held note from a repeated
one: consecutive steps with the same pitch are one long note.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.codecs.text import EOS
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.notes import (
    PITCHES,
    Note,
    Piece,
    Tempo,
    Voice,
    pitch_name,
    seconds_at,
    to_quarters,
)
from manyheads.tasks.music.settings import VOICES

Grid = NDArray[np.int16]

REST = -1
SILENCE = EOS + 1  # token id of a rest; that of pitch p is SILENCE + 1 + p
STEPS_PER_QUARTER = 4
QUARTERS_PER_MINUTE = 80.0
CHOIR = 52  # program number in General MIDI
LONGEST_STEPS = 1 << 16


class Chorales(MusicCodec):
    """Encodes pieces of four voices; `grid(flatten(grid))` returns the same grid."""

    kind = "chorales"
    beat = len(VOICES)  # token ids of one step, which are never separated
    size = SILENCE + 1 + PITCHES

    def encode(self, piece: Piece) -> list[int]:
        """Return token ids step by step: S A T B, S A T B, ..."""
        return self.flatten(grid_of(piece))

    def render(self, ids: Sequence[int]) -> Piece:
        """Decode any token ids; special tokens are skipped, the last step may lack voices."""
        return piece_of(self.grid(ids))

    def flatten(self, grid: Grid) -> list[int]:
        """[[72, 67, 64, -1]] -> [76, 71, 68, 3]"""
        check_grid(grid)
        return (grid.astype(np.int64) + SILENCE + 1).flatten().tolist()

    def grid(self, ids: Sequence[int]) -> Grid:
        """[76, 71, 68, 3] -> [[72, 67, 64, -1]]; voices missing in the last step are rests."""
        sung = [number - SILENCE - 1 for number in ids if SILENCE <= number < self.size]
        sung += [REST] * (-len(sung) % len(VOICES))
        return np.array(sung, dtype=np.int16).reshape(-1, len(VOICES))

    def name(self, number: int) -> str:
        """C5, G4, E4, –"""
        if number == SILENCE:
            return "–"
        if SILENCE < number < self.size:
            return pitch_name(number - SILENCE - 1)
        return super().name(number)

    def keys(self) -> list[dict[int, int]]:
        return [{pitch: SILENCE + 1 + pitch for pitch in range(PITCHES)}]


def check_grid(grid: Grid) -> None:
    if grid.ndim != 2 or grid.shape[1] != len(VOICES) or not np.issubdtype(grid.dtype, np.integer):
        raise ValueError(
            f"a grid is steps by {len(VOICES)} voices of whole numbers, "
            f"got {grid.dtype} of shape {grid.shape}"
        )
    wrong = grid[(grid < REST) | (grid > 127)]
    if wrong.size:
        raise ValueError(f"a grid holds pitches 0 to 127, and -1 for a rest; got {wrong[0]}")


def grid_of(piece: Piece) -> Grid:
    """Round a piece of four voices to sixteenths; each note gets at least one."""
    if len(piece.voices) != len(VOICES):
        raise ValueError(
            f"a chorale has {len(VOICES)} voices, each in a track of its own; "
            f"this piece has {len(piece.voices)}"
        )
    spans = to_quarters(piece, np.array([(n.start, n.end) for n in piece.notes]).reshape(-1, 2))
    steps = np.rint(spans * STEPS_PER_QUARTER).astype(np.int64)
    steps[:, 1] = np.maximum(steps[:, 1], steps[:, 0] + 1)
    if steps.max(initial=0) > LONGEST_STEPS:
        raise ValueError(
            f"a chorale has {LONGEST_STEPS} sixteenths at most, this piece has {steps.max()}"
        )
    grid = np.full((steps.max(initial=0), len(VOICES)), REST, dtype=np.int16)
    for note, (start, end) in zip(piece.notes, steps, strict=True):
        grid[start:, note.voice] = REST  # one note at a time: a new note ends the one before
        grid[start:end, note.voice] = note.pitch
    sung = np.flatnonzero((grid != REST).any(axis=1))
    return grid[: sung[-1] + 1 if len(sung) else 0]


def piece_of(grid: Grid, like: Piece | None = None) -> Piece:
    """Turn a grid into a piece: steps with the same pitch are one note; `like` gives the tempos."""
    check_grid(grid)
    like = Piece((), tempos=(Tempo(0.0, QUARTERS_PER_MINUTE),)) if like is None else like
    at = seconds_at(like, np.arange(len(grid) + 1) / STEPS_PER_QUARTER).tolist()
    notes = []
    for voice in range(len(VOICES)):
        step = 0
        for pitch, run in groupby(grid[:, voice].tolist()):
            start, step = step, step + sum(1 for _ in run)
            if pitch != REST:
                notes.append(Note(at[start], at[step], pitch, voice=voice))
    voices = tuple(Voice(name, CHOIR) for name in VOICES)
    return Piece(tuple(notes), voices, like.tempos, like.meters)


BROKEN = (ValueError, TypeError, RuntimeError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


def read_grids(path: Path) -> dict[str, list[Grid]]:
    """Read {split: grids} from a file with `<split>_notes` (steps, 4) and `<split>_lengths`."""
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
        check_grid(notes)  # before the cast to int16: 65,596 would become a middle C
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
