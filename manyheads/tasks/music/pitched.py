"""Numbers that speak of pitches, and where they go when music is transposed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manyheads.tasks.music.notes import room


class Pitched(ABC):
    """What a codec offers that knows which numbers its pitches have."""

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def keys(self) -> list[dict[int, int]]:
        """Pitch -> its number, for each thing that is said of pitches."""

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
        return room(p for key in self.keys() for p, number in key.items() if number in there)

    def tables(self, shifts: Sequence[int]) -> NDArray[np.int64]:
        """(shifts, size): where each number goes; what would leave all pitches stays."""
        found = np.tile(np.arange(self.size), (len(shifts), 1))
        for table, shift in zip(found, shifts, strict=True):
            for key in self.keys():
                for pitch, number in key.items():
                    table[number] = key.get(pitch + shift, number)
        return found
