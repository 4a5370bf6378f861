"""Music to numbers and back: what every codec of music offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manyheads.codecs.text import EOS, SPECIAL_TOKEN_NAMES, SpecialTokens
from manyheads.tasks.music.notes import Piece, transposition_range


class MusicCodec(ABC):
    """Pieces as numbers, the signs around them left to whoever lays out a batch."""

    kind: ClassVar[str]
    beat: ClassVar[int] = 1  # how many numbers make a step that is not cut
    special_tokens: ClassVar[SpecialTokens] = SpecialTokens(unknown=None)

    @property
    @abstractmethod
    def size(self) -> int: ...
    @abstractmethod
    def encode(self, piece: Piece) -> list[int]: ...
    @abstractmethod
    def render(self, ids: Sequence[int]) -> Piece: ...
    @abstractmethod
    def keys(self) -> list[dict[int, int]]:
        """Pitch -> its number, for each thing that is said of pitches."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each number says, to label a picture with."""
        return [self.name(number) for number in ids]

    def name(self, number: int) -> str:
        """Of a number that is no music."""
        return SPECIAL_TOKEN_NAMES[number] if 0 <= number <= EOS else "?"

    def describe(self) -> dict[str, Any]:
        """What its file says beside its kind."""
        return {}

    # ---- the same music, higher or lower -----------------------------------------------------

    def pitches(self) -> list[int]:
        """For every number there is, the pitch that it speaks of; 0 where it speaks of none."""
        found = [0] * self.size
        for key in self.keys():
            for pitch, number in key.items():
                found[number] = pitch
        return found

    def room(self, ids: Sequence[int]) -> range:
        """By how many semitones these can move and stay on a piano."""
        there = set(ids)
        return transposition_range(
            p for key in self.keys() for p, number in key.items() if number in there
        )

    def tables(self, shifts: Sequence[int]) -> NDArray[np.int64]:
        """(shifts, size): where each number goes; what would leave all pitches stays."""
        found = np.tile(np.arange(self.size), (len(shifts), 1))
        for table, shift in zip(found, shifts, strict=True):
            for key in self.keys():
                for pitch, number in key.items():
                    table[number] = key.get(pitch + shift, number)
        return found
