"""Batches of crops of music, different in each epoch.

N pieces, P crops of them, V versions of each piece.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from manyheads.data.batches import Ints
from manyheads.data.shards import Shard
from manyheads.data.windows import Rows, Windows, cut_pieces
from manyheads.modules.config import Layout
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.settings import check_context
from manyheads.training.files import write_text


@dataclass(frozen=True, eq=False)
class Augmentation:
    """How many versions of each piece the shard holds, and how far each may be transposed."""

    versions: int
    lowest: Ints  # (N,) semitones, 0 or less
    highest: Ints  # (N,) 0 or more

    def save(self, path: Path) -> None:
        held = {
            "versions": self.versions,
            "lowest": self.lowest.tolist(),
            "highest": self.highest.tolist(),
        }
        write_text(path, json.dumps(held) + "\n")

    @staticmethod
    def load(path: Path) -> Augmentation:
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            ends = (np.array(held[name], np.int64) for name in ("lowest", "highest"))
            return Augmentation(int(held["versions"]), *ends)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} does not say how pieces vary; begin the run anew") from None

    @property
    def shifts(self) -> range:
        """All transpositions that any piece may have, in semitones."""
        return range(int(self.lowest.min(initial=0)), int(self.highest.max(initial=0)) + 1)


class MusicWindows(Windows):
    """Plans and makes the batches of a music model.

    The shard holds V versions of each piece one after the other. An epoch takes one of them,
    transposes it at random within its range and crops it from a random place, all by the seed and
    the number of the epoch. Windows begin with a whole step: no chord is cut apart.
    """

    def __init__(
        self,
        documents: Shard,
        augmentation: Augmentation,
        codec: MusicCodec,
        context: int,
        tokens: int,
        layout: Layout = "packed",
        *,
        seed: int = 0,
    ):
        super().__init__(
            documents, context, tokens, layout, seed=seed, pad=codec.special_tokens.pad
        )
        check_context(context, codec.beat)
        if len(documents) != len(augmentation.lowest) * augmentation.versions:
            raise ValueError(
                f"{len(augmentation.lowest)} pieces in {augmentation.versions} versions are not "
                f"the {len(documents)} that are in the shard; begin the run anew"
            )
        self.augmentation, self.beat = augmentation, codec.beat
        self.numbers: NDArray[np.int64] = codec.tables(augmentation.shifts)  # (shifts, size)

    def epoch(self, number: int) -> list[Rows]:
        """The batches of an epoch, in random order."""
        augmentation, random = self.augmentation, np.random.default_rng([self.seed, number])
        count = len(augmentation.lowest)
        version = random.integers(augmentation.versions, size=count)
        shift = random.integers(augmentation.lowest, augmentation.highest + 1)
        offsets = random.integers(self.context // self.beat, size=count) * self.beat
        chosen = np.arange(count) * augmentation.versions + version
        batches = self.crop(chosen, offsets, shift - augmentation.shifts.start, number)
        return [batches[i] for i in random.permutation(len(batches))]

    def crop(self, chosen: Ints, offsets: Ints, tables: Ints, epoch: int) -> list[Rows]:
        """Return batches of only the chosen documents."""
        lengths = self.documents.lengths[chosen]
        ends = lengths.cumsum()
        begins, counts = cut_pieces(ends, self.context, offsets)
        of = np.searchsorted(ends, begins, side="right")
        there = (self.documents.ends[chosen] - ends)[of] + begins
        return self.batched(there, counts, tables[of], epoch)

    def read(self, places: Ints, tables: Ints) -> Ints:
        return self.numbers[tables, super().read(places, tables)]
