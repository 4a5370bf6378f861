"""Models that others may guess for: who guesses is found by its name, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from manyheads.decoding.draft_heads import HeadDrafter
from manyheads.decoding.draft_table import Ids
from manyheads.decoding.drafters import Smaller, make_drafter
from manyheads.decoding.drafts import Drafter
from manyheads.decoding.step import RewindableStep
from manyheads.tasks.draft_file import DRAFTS, DraftFile, Pairs, WrittenStates, read_drafts
from manyheads.tasks.model import Model


class DraftedModel(Model):
    """One that writes token by token."""

    reads = False  # a source, before it writes
    written_at_once = 64  # texts, while drafts are made

    @property
    def beat(self) -> int:
        """Tokens after which the same voice comes again."""
        return 1

    @property
    def decoder(self) -> Any:
        return getattr(self.network, "decoder", self.network)

    @cached_property
    def drafters(self) -> dict[str, Drafter]:
        return {}

    def find_drafter(self, name: str) -> Drafter | None:
        """Who guesses ahead: kept, so that it knows what was written before."""
        if name and name not in self.drafters:
            self.drafters[name] = self.make_drafter(name)
        return self.drafters.get(name)

    def make_drafter(self, name: str) -> Drafter:
        """With what was made for this model, where its folder has it."""
        folder = self.task.folder
        known = DraftFile() if folder is None or name == "again" else read_drafts(folder)
        if name != "heads":
            return make_drafter(name, known.table, self.beat)
        if known.head is None:
            raise ValueError(
                f"{self.name} has no {DRAFTS} with heads; `manyheads train drafts --model "
                f"{self.name} --out {self.name}` makes them"
            )
        return HeadDrafter(known.head, self.network, known.table, self.stops())

    def add_drafter(self, name: str, other: Model) -> None:
        """Let another model guess for this one, if it has the same vocabularies."""
        same = isinstance(other, type(self)) and other.vocabularies() == self.vocabularies()
        if not isinstance(other, DraftedModel) or not same:
            raise ValueError(
                f"{other.name} cannot guess for {self.name}: it is no model of the same kind with "
                "the same vocabulary"
            )
        self.drafters[name] = Smaller(other.begin_draft, lambda: other.device)

    def vocabularies(self) -> list[Any]:
        """What tokens mean: equal where those of two models mean the same."""
        raise NotImplementedError

    def begin_draft(self, source: Sequence[int]) -> tuple[RewindableStep, list[int]]:
        """A step that has read nothing yet, and the tokens that writing starts from."""
        raise NotImplementedError

    # ---- what drafts are made of -----------------------------------------------------------------

    def stops(self) -> Ids:
        """Tokens after which nothing is written."""
        raise NotImplementedError

    def find_sources(self, path: Path | None) -> Sequence[Ids]:
        """What it is to write for, or on from: the lines of a file, or what it was trained on."""
        raise NotImplementedError

    def write_for(self, sources: Sequence[Ids], first: int) -> list[list[int]]:
        """What it writes for each by itself, the stop too; `first` is the number of the first."""
        raise NotImplementedError

    def read_written(self, pairs: Pairs, spare: int) -> WrittenStates:
        """What it has written, with so many tokens to spare after each."""
        raise NotImplementedError
