"""Notes, and pieces of music made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PITCHES = 128
PERFECT = (0, 7)  # octaves and fifths in semitones, modulo 12
PIANO = range(21, 109)  # the pitches that a piano has
LONGEST_SECONDS = 24 * 3600.0
UNITS = (1, 2, 4, 8, 16, 32, 64)  # possible beats, as fractions of a whole note: 4 is a quarter
NAMES = ("C", "C♯", "D", "E♭", "E", "F", "F♯", "G", "A♭", "A", "B♭", "B")


class Note(NamedTuple):
    """A pitch from its start to its end."""

    start: float  # seconds, or steps of a grid where a codec counts in them
    end: float
    pitch: int  # 60 is the middle C
    velocity: int = 80  # how hard it is struck, 1 to 127
    voice: int = 0  # which of the piece's voices plays it


class Voice(NamedTuple):
    """A voice: its name, and its General MIDI program counted from 0."""

    name: str = "piano"
    program: int = 0


class Tempo(NamedTuple):
    """The tempo from `start` seconds on."""

    start: float = 0.0
    quarters_per_minute: float = 120.0


class Meter(NamedTuple):
    """The meter from `start` seconds on: beats 6 and unit 8 are six eighths."""

    start: float = 0.0
    beats: int = 4
    unit: int = 4


@dataclass(frozen=True)
class Piece:
    """Notes in the order in which they begin; the tempos say where its quarter notes are.

    A performance by a person has tempos too, but its notes need not keep to them.
    """

    notes: tuple[Note, ...]
    voices: tuple[Voice, ...] = (Voice(),)
    tempos: tuple[Tempo, ...] = (Tempo(),)
    meters: tuple[Meter, ...] = (Meter(),)

    def __post_init__(self) -> None:
        for note in self.notes:
            check_note(note, len(self.voices))
        if not all(0 <= voice.program <= 127 for voice in self.voices):
            raise ValueError(f"a voice's program is 0 to 127, got {self.voices}")
        starts = [tempo.start for tempo in self.tempos]
        if not starts or starts[0] != 0 or starts != sorted(starts):
            raise ValueError(f"the first tempo starts at 0 and the others follow, got {starts}")
        if not all(0 < tempo.quarters_per_minute < float("inf") for tempo in self.tempos):
            raise ValueError(f"a tempo is over 0 quarter notes a minute, got {self.tempos}")
        if not all(1 <= m.beats <= 255 and m.unit in UNITS for m in self.meters):
            raise ValueError(
                f"a meter is 1 to 255 beats of a 1st, half, 4th ... or 64th, got {self.meters}"
            )
        object.__setattr__(self, "notes", tuple(sorted(self.notes)))

    @property
    def start(self) -> float:
        """When the first note begins."""
        return self.notes[0].start if self.notes else 0.0

    @property
    def seconds(self) -> float:
        """When the last note ends."""
        return max((note.end for note in self.notes), default=0.0)


def check_note(note: Note, voices: int) -> None:
    if not 0 <= note.start < note.end <= LONGEST_SECONDS:
        raise ValueError(
            f"a note begins at 0 seconds or later and ends after that, within a day; "
            f"got {note.start} to {note.end}"
        )
    if not 0 <= note.pitch <= 127:
        raise ValueError(f"a pitch is 0 to 127, 60 is the middle C; got {note.pitch}")
    if not 1 <= note.velocity <= 127:
        raise ValueError(f"a velocity is 1 to 127, got {note.velocity}")
    if not 0 <= note.voice < voices:
        raise ValueError(f"a piece of {voices} voices has no voice {note.voice}")


def pitch_name(pitch: int) -> str:
    """60 -> "C4" """
    return f"{NAMES[pitch % 12]}{pitch // 12 - 1}"


def to_quarters(
    piece: Piece, seconds: Sequence[float] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Convert seconds to quarter notes, by the tempos of the piece: at 120 a minute, 1.5 -> 3.0"""
    at = np.asarray(seconds, dtype=np.float64)
    starts, rates, before = tempo_map(piece)
    i = np.maximum(np.searchsorted(starts, at, side="right") - 1, 0)
    return before[i] + (at - starts[i]) * rates[i]


def seconds_at(piece: Piece, counted: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert quarter notes back to seconds: at 120 a minute, 3.0 -> 1.5"""
    at = np.asarray(counted, dtype=np.float64)
    starts, rates, before = tempo_map(piece)
    i = np.maximum(np.searchsorted(before, at, side="right") - 1, 0)
    return starts[i] + (at - before[i]) / rates[i]


def tempo_map(piece: Piece) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return for each tempo its start, its quarter notes per second, and the quarters before it."""
    starts = np.array([tempo.start for tempo in piece.tempos])
    rates = np.array([tempo.quarters_per_minute / 60 for tempo in piece.tempos])
    return starts, rates, np.concatenate([[0.0], np.cumsum(np.diff(starts) * rates[:-1])])


def separate_notes(notes: Iterable[Note]) -> list[Note]:
    """End each note where the same pitch begins again in its voice, as one key can play it.

    Merge two notes that begin together: keep the longer length and the higher velocity.
    """
    found: list[Note] = []
    for note in sorted(notes, key=lambda n: (n.voice, n.pitch, n.start)):
        last = found[-1] if found else None
        if last is None or (last.voice, last.pitch) != (note.voice, note.pitch):
            found.append(note)
        elif last.start == note.start:
            end, velocity = max(last.end, note.end), max(last.velocity, note.velocity)
            found[-1] = last._replace(end=end, velocity=velocity)
        else:
            found[-1] = last._replace(end=min(last.end, note.start))
            found.append(note)
    return sorted(found)


# ---- changed pieces --------------------------------------------------------------------------


def transposition_range(pitches: Iterable[int]) -> range:
    """Return by how many semitones pitches can move and stay on a piano: [60, 108] -> range(-39, 1)

    0 is always in the range, also for pitches that a piano does not have.
    """
    met = set(pitches) or {60}
    return range(min(0, PIANO.start - min(met)), max(0, PIANO.stop - 1 - max(met)) + 1)


def require_piece(piece: object) -> None:
    """Raise an error for what is no piece, such as the path of one."""
    if not isinstance(piece, Piece):
        raise ValueError(f"a piece is read here, as load_midi(path) gives it; got {piece!r}")


def drop_first_silence(piece: Piece) -> Piece:
    """Remove the silence before the first note: recordings may have minutes of it."""
    marks = {name: marks_from(getattr(piece, name), piece.start) for name in ("tempos", "meters")}
    return replace(piece, notes=move_notes(piece.notes, -piece.start), **marks)


def move_notes(notes: Iterable[Note], seconds: float) -> tuple[Note, ...]:
    """Move notes by this many seconds."""
    return tuple(n._replace(start=n.start + seconds, end=n.end + seconds) for n in notes)


def cut_piece(piece: Piece, seconds: float) -> Piece:
    """Keep the notes that begin before this time."""
    return replace(piece, notes=tuple(note for note in piece.notes if note.start < seconds))


def marks_from(marks: tuple[Any, ...], seconds: float) -> tuple[Any, ...]:
    """Return the mark in force at this time and all later ones, with times counted from it."""
    before = [m._replace(start=0.0) for m in marks if m.start <= seconds]
    after = [m._replace(start=m.start - seconds) for m in marks if m.start > seconds]
    return (*before[-1:], *after)
