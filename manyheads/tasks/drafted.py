"""Models with speculative decoding: drafters are found by name and kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from manyheads.decoding.config import DRAFTERS
from manyheads.decoding.draft_heads import HeadDrafter
from manyheads.decoding.draft_table import Ids
from manyheads.decoding.drafters import Smaller, make_drafter
from manyheads.decoding.drafts import Drafter
from manyheads.decoding.step import RewindableStep
from manyheads.tasks.draft_file import DRAFTS, DraftFile, Pairs, WrittenStates, read_drafts
from manyheads.tasks.model import Model


class DraftedModel(Model):
    """A model that writes token by token, and may use a drafter."""

    reads = False  # whether it reads a source before it writes
    written_at_once = 64  # texts in a batch while drafts are made

    @property
    def beat(self) -> int:
        """Number of tokens after which the same voice comes again; 1 if there are no voices."""
        return 1

    @property
    def decoder(self) -> Any:
        return getattr(self.network, "decoder", self.network)

    @cached_property
    def drafters(self) -> dict[str, Drafter]:
        return {}

    def find_drafter(self, name: str) -> Drafter | None:
        """Return the drafter with this name; it is kept, because it remembers what was written."""
        if name and name not in self.drafters:
            self.drafters[name] = self.make_drafter(name)
        return self.drafters.get(name)

    def make_drafter(self, name: str) -> Drafter:
        """Make a drafter, with the draft file of this model if there is one."""
        if name not in DRAFTERS:
            raise ValueError(
                f"there is no drafter {name!r}; there are {', '.join(DRAFTERS)}, and models: "
                f"add_drafter({name!r}, manyheads.load(...)) makes one known by this name"
            )
        folder = self.task.folder
        known = DraftFile() if folder is None or name == "again" else read_drafts(folder)
        if name != "heads":
            return make_drafter(name, known.table, self.beat)
        if (kind := self.task.recipe.network.kind) != "transformer":
            raise ValueError(f"draft heads are for a transformer, {self.name} is a {kind} network")
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
        """Return the vocabularies: equal if the tokens of two models mean the same."""
        raise NotImplementedError

    def begin_draft(self, source: Sequence[int]) -> tuple[RewindableStep, list[int]]:
        """Return a step that has read nothing yet, and the tokens to start from."""
        raise NotImplementedError

    # ---- data to make drafts from ----------------------------------------------------------------

    def stops(self) -> Ids:
        """Return the end tokens."""
        raise NotImplementedError

    def find_sources(self, path: Path | None) -> Sequence[Ids]:
        """Return sources or prompts to write for: lines of a file, or the training data."""
        raise NotImplementedError

    def write_for(self, sources: Sequence[Ids], first: int) -> list[list[int]]:
        """Write for each source, end token included; `first` is the number of the first source."""
        raise NotImplementedError

    def read_written(self, pairs: Pairs, spare: int) -> WrittenStates:
        """Return the states over what the model wrote, with `spare` more tokens after each text."""
        raise NotImplementedError
