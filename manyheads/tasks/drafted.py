"""Models that others may guess for: who guesses is found by its name, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from manyheads.decoding.drafters import Smaller, make_drafter
from manyheads.decoding.drafts import Drafter
from manyheads.decoding.step import RewindableStep
from manyheads.tasks.model import Model


class DraftedModel(Model):
    """One that writes token by token."""

    @cached_property
    def drafters(self) -> dict[str, Drafter]:
        return {}

    def find_drafter(self, name: str) -> Drafter | None:
        """Who guesses ahead: kept, so that it knows what was written before."""
        if name and name not in self.drafters:
            self.drafters[name] = self.make_drafter(name)
        return self.drafters.get(name)

    def make_drafter(self, name: str) -> Drafter:
        return make_drafter(name)

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
