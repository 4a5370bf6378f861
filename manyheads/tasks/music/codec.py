"""The base class of music codecs, which encode pieces as token ids and decode them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manyheads.codecs.text import EOS, SPECIAL_TOKEN_NAMES, SpecialTokens
from manyheads.tasks.music.notes import Piece, transposition_range


class MusicCodec(ABC):
    """Encodes pieces as token ids, without start and end tokens."""

    kind: ClassVar[str]
    beat: ClassVar[int] = 1  # token ids of one step, which are never separated
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
        """Return {pitch: token id} for each kind of event with a pitch: key down, key up, ..."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the name of each token id, for labels of pictures."""
        return [self.name(number) for number in ids]

    def name(self, number: int) -> str:
        """Return the name of a special token, or "?" for an id that does not exist."""
        return SPECIAL_TOKEN_NAMES[number] if 0 <= number <= EOS else "?"

    def describe(self) -> dict[str, Any]:
        """Return the settings to save in the codec file, apart from its kind."""
        return {}

    # ---- transposition -----------------------------------------------------------------------

    def pitches(self) -> list[int]:
        """Return the pitch of every token id of the vocabulary, 0 if it has none."""
        found = [0] * self.size
        for key in self.keys():
            for pitch, number in key.items():
                found[number] = pitch
        return found

    def room(self, ids: Sequence[int]) -> range:
        """Return by how many semitones these token ids can be transposed and stay on a piano."""
        there = set(ids)
        return transposition_range(
            p for key in self.keys() for p, number in key.items() if number in there
        )

    def tables(self, shifts: Sequence[int]) -> NDArray[np.int64]:
        """Return (shifts, size): each token id transposed, or unchanged if that is out of range."""
        found = np.tile(np.arange(self.size), (len(shifts), 1))
        for table, shift in zip(found, shifts, strict=True):
            for key in self.keys():
                for pitch, number in key.items():
                    table[number] = key.get(pitch + shift, number)
        return found
