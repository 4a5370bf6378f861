"""Performances as token ids: keys that go down and up, how hard, and the time between.

These are the events of Music Transformer: 128 keys down, 128 keys up, 100 time shifts in steps of
10 ms, 32 velocities. Note lengths already include the pedal; all voices share one keyboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from manyheads.codecs.text import EOS
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.notes import PITCHES, Note, Piece, pitch_name, separate_notes

DOWN = EOS + 1  # the first token id of an event
UP = DOWN + PITCHES
SHIFT = UP + PITCHES  # by one step; the next token id shifts by two


@dataclass(frozen=True)
class Performance(MusicCodec):
    """Encodes pieces as events; `render(encode(piece))` is the same music on a grid of steps."""

    kind: ClassVar[str] = "performance"

    steps_per_second: int = 100
    shifts: int = 100  # steps of the longest time shift
    velocities: int = 32

    def __post_init__(self) -> None:
        if self.steps_per_second < 1 or self.shifts < 1 or not 1 <= self.velocities <= 127:
            raise ValueError(
                f"a performance has 1 step a second or more, 1 shift or more and 1 to 127 "
                f"velocities, got {self}"
            )

    @property
    def velocity(self) -> int:
        """The first token id of a velocity."""
        return SHIFT + self.shifts

    @property
    def size(self) -> int:
        return self.velocity + self.velocities

    def encode(self, piece: Piece) -> list[int]:
        """A C4 of a second -> [374, 63, 358, 191]: velocity 64, C4 down, 100 steps, C4 up."""
        ids: list[int] = []
        now, velocity = 0, -1
        for step, down, pitch, wanted in self.events(piece):
            ids += self.encode_shift(step - now)
            now = step
            if down and wanted != velocity:
                ids.append(self.velocity + wanted)
                velocity = wanted
            ids.append((DOWN if down else UP) + pitch)
        return ids

    def events(self, piece: Piece) -> list[tuple[int, bool, int, int]]:
        """List (step, whether the key goes down, pitch, velocity); in a step, keys go up first."""
        found = []
        for note in separate_notes(map(self.put_on_grid, piece.notes)):
            velocity = (note.velocity - 1) * self.velocities // 127
            found.append((int(note.start), True, note.pitch, velocity))
            found.append((int(note.end), False, note.pitch, 0))
        return sorted(found)

    def put_on_grid(self, note: Note) -> Note:
        start, end = (round(at * self.steps_per_second) for at in (note.start, note.end))
        return Note(start, max(end, start + 1), note.pitch, note.velocity)

    def encode_shift(self, steps: int) -> list[int]:
        """250 steps -> shifts of 100, 100 and 50."""
        whole, rest = divmod(steps, self.shifts)
        return [SHIFT + self.shifts - 1] * whole + ([SHIFT + rest - 1] if rest else [])

    def render(self, ids: Sequence[int]) -> Piece:
        """Decode any token ids.

        A key up without a key down is skipped, as is an id that is no event; a key that goes down
        again ends its first note; notes that still sound end at the end.
        """
        notes: list[Note] = []
        held: dict[int, tuple[int, int]] = {}  # pitch -> its first step, its velocity
        now, velocity = 0, self.decode_velocity(self.velocities // 2)

        def end(pitch: int) -> None:
            start, hard = held.pop(pitch, (now, 0))
            if start < now:
                span = (start / self.steps_per_second, now / self.steps_per_second)
                notes.append(Note(*span, pitch, hard))

        for number in ids:
            if DOWN <= number < UP:
                end(number - DOWN)
                held[number - DOWN] = (now, velocity)
            elif UP <= number < SHIFT:
                end(number - UP)
            elif SHIFT <= number < self.velocity:
                now += number - SHIFT + 1
            elif self.velocity <= number < self.size:
                velocity = self.decode_velocity(number - self.velocity)
        for pitch in list(held):
            end(pitch)
        return Piece(tuple(notes))

    def decode_velocity(self, number: int) -> int:
        """Return the middle of the velocities that share this number."""
        low, after = (-(-n * 127 // self.velocities) for n in (number, number + 1))
        return 1 + (low + after - 1) // 2

    def name(self, number: int) -> str:
        """C4↓, C4↑, +250ms, v62"""
        if DOWN <= number < UP:
            return f"{pitch_name(number - DOWN)}↓"
        if UP <= number < SHIFT:
            return f"{pitch_name(number - UP)}↑"
        if SHIFT <= number < self.velocity:
            return f"+{(number - SHIFT + 1) * 1000 / self.steps_per_second:g}ms"
        if self.velocity <= number < self.size:
            return f"v{self.decode_velocity(number - self.velocity)}"
        return super().name(number)

    # ---- augmentation ------------------------------------------------------------------------

    def stretch(self, ids: Sequence[int], factor: float) -> list[int]:
        """Stretch music to `factor` times its length; each wait keeps at least one step."""
        if not 0 < factor < float("inf"):
            raise ValueError(f"time is stretched by a factor over 0, got {factor}")
        found: list[int] = []
        read = since = written = 0  # steps read, steps read at the last event, steps written
        for number in [*ids, EOS]:
            if SHIFT <= number < self.velocity:
                read += number - SHIFT + 1
                continue
            if read > since:
                step = max(round(read * factor), written + 1)
                found += self.encode_shift(step - written)
                since, written = read, step
            found.append(int(number))
        return found[:-1]

    def keys(self) -> list[dict[int, int]]:
        return [{pitch: first + pitch for pitch in range(PITCHES)} for first in (DOWN, UP)]

    def describe(self) -> dict[str, Any]:
        return asdict(self)
