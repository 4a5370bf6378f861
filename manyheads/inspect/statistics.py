"""What music is like in numbers: how dense, how high, how regular, and what of it comes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.codecs.notes import NAMES, Piece, named

PATTERN = 4  # notes of a melody, so that three steps between them are compared
TICK_SECONDS = 0.01  # lengths that differ by less are the same


@dataclass(frozen=True)
class Statistics:
    """Of some pieces together; what repeats, within each."""

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

    @staticmethod
    def of(pieces: Iterable[Piece]) -> Statistics:
        several = [piece for piece in pieces if piece.notes]
        if not several:
            raise ValueError("statistics are of notes, these pieces have none")
        notes = [note for piece in several for note in piece.notes]
        pitches = np.array([note.pitch for note in notes])
        lengths = np.array([note.end - note.start for note in notes])
        between = np.concatenate([gaps(piece) for piece in several])
        seconds = sum(piece.seconds - piece.notes[0].start for piece in several)
        patterns = [pattern for piece in several for pattern in again(piece)]
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
            length_share=commonest(lengths),
            onset_median=float(np.median(between)) if len(between) else 0.0,
            onset_share=commonest(between),
            polyphony=float(lengths.sum() / sum(map(sounding, several))),
            repeated=float(np.mean(patterns)) if patterns else 0.0,
        )

    def plain(self) -> dict[str, Any]:
        """To keep as JSON."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        } | {"classes": [round(share, 4) for share in self.classes]}


def distance(one: Statistics, other: Statistics) -> float:
    """Between their pitch classes: 0 where the shares are alike, 1 where none is in common.

    Half of the sum of all differences, which is called the total variation.
    """
    return sum(abs(a - b) for a, b in zip(one.classes, other.classes, strict=True)) / 2


def beside(columns: dict[str, Statistics]) -> str:
    """A column each: `print(beside({"data": one, "drawn": other}))`"""
    each = [shown(one) for one in columns.values()]
    width = max(12, *map(len, columns))
    lines = [f"  {'':<24}" + "".join(f"{name:>{width}}" for name in columns)]
    for row in each[0]:
        lines.append(f"  {row:<24}" + "".join(f"{column[row]:>{width}}" for column in each))
    return "\n".join(line.rstrip() for line in lines)


def shown(one: Statistics) -> dict[str, str]:
    return {
        "pieces": f"{one.pieces:,}",
        "seconds": f"{one.seconds:,.1f}",
        "notes": f"{one.notes:,}",
        "notes a second": f"{one.notes_per_second:.2f}",
        "lowest pitch": named(one.lowest),
        "mean pitch": f"{one.mean_pitch:.1f}",
        "highest pitch": named(one.highest),
        "length of a note, median": f"{one.length_median:.2f} s",
        "  the commonest length": f"{one.length_share:.1%}",
        "between onsets, median": f"{one.onset_median:.2f} s",
        "  the commonest gap": f"{one.onset_share:.1%}",
        "notes at once": f"{one.polyphony:.2f}",
        "4-note patterns repeated": f"{one.repeated:.1%}",
    } | {f"  {name}": f"{share:.1%}" for name, share in zip(NAMES, one.classes, strict=True)}


def opening(piece: Piece, seconds: float) -> Piece:
    """Its first seconds, counted from its first note."""
    begin = min((note.start for note in piece.notes), default=0.0)
    notes = [
        n._replace(end=min(n.end, begin + seconds))
        for n in piece.notes
        if n.start < begin + seconds - TICK_SECONDS / 2
    ]
    return replace(piece, notes=tuple(notes))


def commonest(lengths: NDArray[np.float64]) -> float:
    """The share of what is most often met."""
    if not len(lengths):
        return 0.0
    _, counts = np.unique(np.rint(lengths / TICK_SECONDS), return_counts=True)
    return float(counts.max() / counts.sum())


def gaps(piece: Piece) -> NDArray[np.float64]:
    """Seconds between one moment at which notes begin and the next."""
    return np.diff(np.unique([note.start for note in piece.notes]))


def sounding(piece: Piece) -> float:
    """Seconds during which any note sounds."""
    total, until = 0.0, 0.0
    for note in piece.notes:  # in the order in which they begin
        total += max(0.0, note.end - max(note.start, until))
        until = max(until, note.end)
    return total


def again(piece: Piece) -> list[bool]:
    """For each pattern of a melody whether it occurs elsewhere in the piece, at any height."""
    steps = [
        tuple(b - a for a, b in pairwise(line[i : i + PATTERN]))
        for line in melodies(piece)
        for i in range(len(line) - PATTERN + 1)
    ]
    count = Counter(steps)
    return [count[pattern] > 1 for pattern in steps]


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
