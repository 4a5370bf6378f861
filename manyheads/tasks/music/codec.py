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
    """Pieces as numbers; the special tokens around them are added where batches are made."""

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
        """{pitch: number} for each kind of event that has a pitch: key down, key up, ..."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The name of each number, for labels of pictures."""
        return [self.name(number) for number in ids]

    def name(self, number: int) -> str:
        """The name of a special token; "?" for a number that does not exist."""
        return SPECIAL_TOKEN_NAMES[number] if 0 <= number <= EOS else "?"

    def describe(self) -> dict[str, Any]:
        """The settings that its file keeps, apart from its kind."""
        return {}

    # ---- the same music, higher or lower -----------------------------------------------------

    def pitches(self) -> list[int]:
        """The pitch of every number of the vocabulary; 0 where it has none."""
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
        """(shifts, size): each number moved by so many semitones; none leaves the range."""
        found = np.tile(np.arange(self.size), (len(shifts), 1))
        for table, shift in zip(found, shifts, strict=True):
            for key in self.keys():
                for pitch, number in key.items():
                    table[number] = key.get(pitch + shift, number)
        return found
