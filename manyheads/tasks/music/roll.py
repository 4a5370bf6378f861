"""Draw a piece as a piano roll: time to the right, pitch upwards."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manyheads.inspect.drawing import Picture
from manyheads.tasks.music.notes import Note, Piece, pitch_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW_SECONDS = 20.0  # longest row, unless there would be more than MOST_ROWS
MOST_ROWS = 6
BLACK = {1, 3, 6, 8, 10}  # keys of an octave
COLOURS = ("#3b6ea8", "#d9822b", "#4f9d69", "#b4484f", "#7a5ea8", "#7d6b5d")


@dataclass(frozen=True, eq=False)
class Roll(Picture):
    """A piano roll of a piece: coloured by voice if it has several, else the louder the darker."""

    piece: Piece
    title: str = ""

    def __post_init__(self) -> None:
        if not self.piece.notes:
            raise ValueError("a piano roll shows notes, this piece has none")

    def figure(self) -> Figure:
        # The object interface: no global state, no window, safe in any thread.
        from matplotlib.figure import Figure

        end = self.piece.seconds
        rows = min(MOST_ROWS, max(1, math.ceil(end / ROW_SECONDS - 1e-6)))
        row = math.ceil(end / rows)  # seconds; equal rows, so that none has only the last moment
        low, high = self.span
        height = 0.6 + rows * (0.35 + (0.07 if rows <= 2 else 0.045) * (high - low))
        figure = Figure(figsize=(11, height), layout="constrained")
        figure.suptitle(self.title or self.summary, fontsize=10)
        axes = figure.subplots(rows, 1, squeeze=False)[:, 0]
        for i, axis in enumerate(axes):
            self.draw(axis, i * row, min((i + 1) * row, end) if rows == 1 else (i + 1) * row)
        axes[-1].set_xlabel("minutes : seconds", fontsize=9)
        if len(self.piece.voices) > 1:
            self.name_voices(axes[0])
        return figure

    @property
    def span(self) -> tuple[int, int]:
        """The pitches to show: those of all notes, and at least two octaves."""
        pitches = [note.pitch for note in self.piece.notes]
        more = max(4, 24 - (max(pitches) - min(pitches)))
        return min(pitches) - more // 2, max(pitches) + 1 + more // 2

    @property
    def summary(self) -> str:
        pitches = [note.pitch for note in self.piece.notes]
        low, high = pitch_name(min(pitches)), pitch_name(max(pitches))
        return f"{len(pitches):,} notes from {low} to {high}, {format_clock(self.piece.seconds)}"

    def draw(self, axis: Any, start: float, end: float) -> None:
        """Draw the notes between two times, over the white and black keys of a keyboard."""
        from matplotlib.collections import PolyCollection

        low, high = self.span
        octaves = [pitch for pitch in range(low, high) if pitch % 12 == 0]
        for pitch in range(low, high):
            if pitch % 12 in BLACK:
                axis.axhspan(pitch - 0.5, pitch + 0.5, color="#f2f2f2", linewidth=0)
        for pitch in octaves:
            axis.axhline(pitch - 0.5, color="#c8c8c8", linewidth=0.7)
        notes = [note for note in self.piece.notes if note.start < end and note.end > start]
        boxes = [box(note, lane) for note, lane in zip(notes, share_rows(notes), strict=True)]
        colours = [self.colour(note) for note in notes]
        axis.add_collection(
            PolyCollection(boxes, facecolors=colours, edgecolors="white", linewidths=0.4, zorder=2)
        )
        axis.set(xlim=(start, end), ylim=(low - 0.5, high - 0.5))
        axis.set_yticks(octaves, [pitch_name(pitch) for pitch in octaves])
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.xaxis.set_major_formatter(lambda at, _: format_clock(at))

    def colour(self, note: Note) -> Any:
        import matplotlib

        if len(self.piece.voices) > 1:
            return COLOURS[note.voice % len(COLOURS)]
        return matplotlib.colormaps["Blues"](0.25 + 0.75 * note.velocity / 127)

    def name_voices(self, axis: Any) -> None:
        from matplotlib.patches import Patch

        patches = [
            Patch(color=COLOURS[i % len(COLOURS)], label=voice.name)
            for i, voice in enumerate(self.piece.voices)
        ]
        add_legend(axis, patches, len(patches))


def add_legend(axis: Any, handles: Sequence[Any], columns: int) -> None:
    """Put a legend above the picture, at the right."""
    beside = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": columns}
    axis.legend(handles=handles, fontsize=8, frameon=False, borderaxespad=0.2, **beside)


def share_rows(notes: Sequence[Note]) -> list[tuple[int, int]]:
    """Return (part, number of parts) of the row for each note: voices in unison share a row."""
    pitches: dict[int, list[Note]] = defaultdict(list)
    for note in notes:
        pitches[note.pitch].append(note)
    found = []
    for note in notes:
        voices = {n.voice for n in pitches[note.pitch] if n.start < note.end and note.start < n.end}
        found.append((sum(voice > note.voice for voice in voices), len(voices)))
    return found


def box(note: Note, lane: tuple[int, int]) -> list[tuple[float, float]]:
    """Return the corners of a note in its part of the row; the last voice has the lowest part."""
    part, parts = lane
    low = note.pitch - 0.45 + 0.9 * part / parts
    high = low + 0.9 / parts
    return [(note.start, low), (note.start, high), (note.end, high), (note.end, low)]


def format_clock(seconds: float) -> str:
    """75.4 -> "1:15.4", 75.0 -> "1:15" """
    tenths = round(seconds * 10)
    minutes, rest = divmod(tenths, 600)
    return f"{minutes}:{rest // 10:02d}" + (f".{rest % 10}" if rest % 10 else "")
