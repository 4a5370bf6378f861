"""What music is like in numbers: how dense, how high, how regular, and what of it comes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.tasks.music.notes import NAMES, PERFECT, Piece, pitch_name

PATTERN = 4  # notes of a melody, so that three steps between them are compared
TICK_SECONDS = 0.01  # lengths that differ by less are the same


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
    classes: tuple[float, ...]  # the share of notes that are a C, a C sharp, ...
    length_median: float  # seconds of a note
    length_share: float  # of notes that have the most common length
    onset_median: float  # seconds from the begin of one note or chord to that of the next
    onset_share: float  # of those that are the most common
    polyphony: float  # notes that sound at once, where any does
    repeated: float  # the share of patterns of 4 notes of a melody that come again in their piece
    # Of pieces whose voices sing one note at a time each, from the highest; None without any.
    parallels: float | None = None  # fifths and octaves after the like, in 1000 moves of two voices
    crossed: float | None = None  # the share of time in which a voice is over one that is before it

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
        """As JSON keeps it, with four digits after the point."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        } | {"classes": [round(share, 4) for share in self.classes]}


def distance(one: Statistics, other: Statistics) -> float:
    """How far their pitch classes are apart: 0 for the same shares, 1 for none in common.

    Half of the sum of all differences, which is called the total variation.
    """
    return sum(abs(a - b) for a, b in zip(one.classes, other.classes, strict=True)) / 2


def format_columns(columns: dict[str, Statistics]) -> str:
    """A column each: `print(format_columns({"data": one, "drawn": other}))`"""
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
    """Its first seconds, counted from its first note."""
    end = piece.start + seconds
    notes = [
        n._replace(end=min(n.end, end)) for n in piece.notes if n.start < end - TICK_SECONDS / 2
    ]
    return replace(piece, notes=tuple(notes))


def share_of_commonest(lengths: NDArray[np.float64]) -> float:
    """The share of the most common value."""
    if not len(lengths):
        return 0.0
    _, counts = np.unique(np.rint(lengths / TICK_SECONDS), return_counts=True)
    return float(counts.max() / counts.sum())


def gaps_between_onsets(piece: Piece) -> NDArray[np.float64]:
    """Seconds between one moment at which notes begin and the next."""
    return np.diff(np.unique([note.start for note in piece.notes]))


def sounding_seconds(piece: Piece) -> float:
    """Seconds during which any note sounds."""
    total, until = 0.0, 0.0
    for note in piece.notes:  # in the order in which they begin
        total += max(0.0, note.end - max(note.start, until))
        until = max(until, note.end)
    return total


def find_repeats(piece: Piece) -> list[bool]:
    """For each pattern of a melody whether it occurs elsewhere in the piece, at any height."""
    steps = [
        tuple(b - a for a, b in pairwise(line[i : i + PATTERN]))
        for line in melodies(piece)
        for i in range(len(line) - PATTERN + 1)
    ]
    count = Counter(steps)
    return [count[pattern] > 1 for pattern in steps]


def is_sung(piece: Piece) -> bool:
    """Whether it has several voices and each sings one note at a time."""
    begins = [(note.voice, note.start) for note in piece.notes]
    return len({voice for voice, _ in begins}) > 1 and len(set(begins)) == len(begins)


def measure_voices(pieces: Sequence[Piece]) -> tuple[float | None, float | None]:
    """How voices move beside each other: parallels in 1000 moves of two, the share of crossings."""
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
    """The pitches of each voice, the highest where several begin together."""
    lines = []
    for voice in range(len(piece.voices)):
        tops: dict[float, int] = {}
        for note in piece.notes:
            if note.voice == voice:
                tops[note.start] = max(note.pitch, tops.get(note.start, 0))
        lines.append([*tops.values()])
    return lines
