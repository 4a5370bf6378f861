"""Statistics of music: how dense, how high, how regular, and how often patterns repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.tasks.music.notes import NAMES, PERFECT, Piece, pitch_name

PATTERN = 4  # notes of a melody; a pattern is the three intervals between them
TICK_SECONDS = 0.01  # lengths are rounded to this before they are compared


@dataclass(frozen=True)
class Statistics:
    """Statistics of several pieces together; repeats are counted within each piece."""

    pieces: int
    seconds: float  # from the first note of each
    notes: int
    notes_per_second: float
    lowest: int  # pitches
    mean_pitch: float
    highest: int
    classes: tuple[float, ...]  # share of notes that are a C, a C sharp, ...
    length_median: float  # length of a note in seconds
    length_share: float  # share of notes with the most common length
    onset_median: float  # seconds from the begin of a note or chord to the begin of the next
    onset_share: float  # share of the most common of these
    polyphony: float  # mean number of notes at once, while any sounds
    repeated: float  # share of 4-note patterns of a melody that occur again in their piece
    # Only of pieces with several voices, highest first, each one note at a time; None without any.
    parallels: float | None = None  # parallel fifths and octaves, in 1000 moves of two voices
    crossed: float | None = None  # share of time in which a lower voice is above a higher one

    @staticmethod
    def of(pieces: Iterable[Piece]) -> Statistics:
        several = [piece for piece in pieces if piece.notes]
        if not several:
            raise ValueError("statistics are of notes, these pieces have none")
        notes = [note for piece in several for note in piece.notes]
        pitches = np.array([note.pitch for note in notes])
        lengths = np.array([note.end - note.start for note in notes])
        between = np.concatenate([gaps_between_onsets(piece) for piece in several])
        seconds = sum(piece.seconds - piece.start for piece in several)
        patterns = [pattern for piece in several for pattern in find_repeats(piece)]
        parallels, crossed = measure_voices([piece for piece in several if is_sung(piece)])
        return Statistics(
            pieces=len(several),
            seconds=seconds,
            notes=len(notes),
            notes_per_second=len(notes) / seconds,
            lowest=int(pitches.min()),
            mean_pitch=float(pitches.mean()),
            highest=int(pitches.max()),
            classes=tuple((np.bincount(pitches % 12, minlength=12) / len(notes)).tolist()),
            length_median=float(np.median(lengths)),
            length_share=share_of_commonest(lengths),
            onset_median=float(np.median(between)) if len(between) else 0.0,
            onset_share=share_of_commonest(between),
            polyphony=float(lengths.sum() / sum(map(sounding_seconds, several))),
            repeated=float(np.mean(patterns)) if patterns else 0.0,
            parallels=parallels,
            crossed=crossed,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the statistics for JSON, rounded to four digits after the point."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        } | {"classes": [round(share, 4) for share in self.classes]}


def distance(one: Statistics, other: Statistics) -> float:
    """Return the total variation distance of their pitch classes: 0 if equal, 1 if disjoint.

    It is half of the sum of all absolute differences.
    """
    return sum(abs(a - b) for a, b in zip(one.classes, other.classes, strict=True)) / 2


def format_columns(columns: dict[str, Statistics]) -> str:
    """Format a table of columns: `print(format_columns({"data": one, "drawn": other}))`"""
    each = [format_rows(one) for one in columns.values()]
    width = max(12, *map(len, columns))
    lines = [f"  {'':<24}" + "".join(f"{name:>{width}}" for name in columns)]
    for row in dict.fromkeys(row for column in each for row in column):
        told = (column.get(row, "–") for column in each)
        lines.append(f"  {row:<24}" + "".join(f"{value:>{width}}" for value in told))
    return "\n".join(line.rstrip() for line in lines)


def format_rows(one: Statistics) -> dict[str, str]:
    told = {
        "pieces": f"{one.pieces:,}",
        "seconds": f"{one.seconds:,.1f}",
        "notes": f"{one.notes:,}",
        "notes a second": f"{one.notes_per_second:.2f}",
        "lowest pitch": pitch_name(one.lowest),
        "mean pitch": f"{one.mean_pitch:.1f}",
        "highest pitch": pitch_name(one.highest),
        "length of a note, median": f"{one.length_median:.2f} s",
        "  the commonest length": f"{one.length_share:.1%}",
        "between onsets, median": f"{one.onset_median:.2f} s",
        "  the commonest gap": f"{one.onset_share:.1%}",
        "notes at once": f"{one.polyphony:.2f}",
        "4-note patterns repeated": f"{one.repeated:.1%}",
    } | {f"  {name}": f"{share:.1%}" for name, share in zip(NAMES, one.classes, strict=True)}
    if one.parallels is not None:
        told["parallels in 1000 moves"] = f"{one.parallels:.2f}"
    if one.crossed is not None:
        told["voices crossed"] = f"{one.crossed:.2%}"
    return told


def cut_opening(piece: Piece, seconds: float) -> Piece:
    """Return the first `seconds` of a piece, counted from its first note."""
    end = piece.start + seconds
    notes = [
        n._replace(end=min(n.end, end)) for n in piece.notes if n.start < end - TICK_SECONDS / 2
    ]
    return replace(piece, notes=tuple(notes))


def share_of_commonest(lengths: NDArray[np.float64]) -> float:
    """Return the share of the most common value."""
    if not len(lengths):
        return 0.0
    _, counts = np.unique(np.rint(lengths / TICK_SECONDS), return_counts=True)
    return float(counts.max() / counts.sum())


def gaps_between_onsets(piece: Piece) -> NDArray[np.float64]:
    """Return the seconds between times at which notes begin."""
    return np.diff(np.unique([note.start for note in piece.notes]))


def sounding_seconds(piece: Piece) -> float:
    """Return the seconds during which any note sounds."""
    total, until = 0.0, 0.0
    for note in piece.notes:  # in the order in which they begin
        total += max(0.0, note.end - max(note.start, until))
        until = max(until, note.end)
    return total


def find_repeats(piece: Piece) -> list[bool]:
    """Return for each pattern of a melody whether it occurs again in the piece, at any pitch."""
    steps = [
        tuple(b - a for a, b in pairwise(line[i : i + PATTERN]))
        for line in melodies(piece)
        for i in range(len(line) - PATTERN + 1)
    ]
    count = Counter(steps)
    return [count[pattern] > 1 for pattern in steps]


def is_sung(piece: Piece) -> bool:
    """Whether a piece has several voices and each sings one note at a time."""
    begins = [(note.voice, note.start) for note in piece.notes]
    return len({voice for voice, _ in begins}) > 1 and len(set(begins)) == len(begins)


def measure_voices(pieces: Sequence[Piece]) -> tuple[float | None, float | None]:
    """Return the parallels in 1000 moves of two voices, and the share of time with crossings."""
    parallel = moves = 0
    crossed = seconds = 0.0
    for piece in pieces:
        at = np.unique([moment for note in piece.notes for moment in note[:2]])
        sounds = np.full((len(piece.voices), len(at) - 1), -1)  # pitches between these moments
        for note in piece.notes:
            begin, end = np.searchsorted(at, note[:2])
            sounds[note.voice, begin:] = -1  # a voice sings one note at a time
            sounds[note.voice, begin:end] = note.pitch
        lasts, apart = np.diff(at), np.zeros(len(at) - 1, bool)
        for high, low in combinations(sounds, 2):
            both = (high >= 0) & (low >= 0)
            apart |= both & (low > high)
            moved = both[1:] & both[:-1] & (np.diff(high) != 0) & (np.diff(low) != 0)
            interval = (high - low) % 12
            alike = (interval[1:] == interval[:-1]) & np.isin(interval[1:], PERFECT)
            alike &= np.sign(np.diff(high)) == np.sign(np.diff(low))
            moves, parallel = moves + int(moved.sum()), parallel + int((moved & alike).sum())
        crossed, seconds = crossed + float(lasts[apart].sum()), seconds + float(lasts.sum())
    return 1000 * parallel / moves if moves else None, crossed / seconds if seconds else None


def melodies(piece: Piece) -> list[list[int]]:
    """Return the pitches of each voice, the highest of those that begin together."""
    lines = []
    for voice in range(len(piece.voices)):
        tops: dict[float, int] = {}
        for note in piece.notes:
            if note.voice == voice:
                tops[note.start] = max(note.pitch, tops.get(note.start, 0))
        lines.append([*tops.values()])
    return lines
