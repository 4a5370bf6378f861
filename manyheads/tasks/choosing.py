"""Every setting of a run: what was said of it, and for the rest what suits corpus and machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyheads.config import part, read, text_of
from manyheads.tasks.recipe import Choice
from manyheads.tasks.table import load_recipe, task_in
from manyheads.tasks.task import Task
from manyheads.training.run import RECIPE


@dataclass(frozen=True)
class Said:
    """What a person said of a run: files by option or in a recipe, and settings over both."""

    family: type[Task]
    task: str
    data: Any
    settings: Sequence[str] = ()
    text: str = ""  # of the recipe
    file: str = RECIPE

    @classmethod
    def in_file(cls, path: Path, settings: Sequence[str]) -> Said:
        """What a recipe says; mistakes in what it learns are told with all others."""
        family, text = task_in(path), text_of(path)
        task = part(family.Recipe, "task", text, settings)
        data = part(family.Recipe, "data", text, settings, family.files)
        if task is None or data is None:
            recipe, _ = load_recipe(path, settings)
            task, data = recipe.task, recipe.data
        return cls(family, task, data, settings, text, str(path))

    def of(self, field: str, only: Sequence[str] = ()) -> Any:
        return part(self.family.Recipe, field, self.text, self.settings, only)

    def choice(
        self, asked: Choice, start_from: Path | None, found: Callable[[Path], Path]
    ) -> Callable[[int], Any]:
        """From the tokens of a corpus to the recipe for it."""
        network = self.of("network", ("kind",))
        kind = asked.network if network is None else network.kind
        named = self.of("start_from") or start_from
        folder = None if named is None else found(named)
        start = None if folder is None else load_recipe(folder / RECIPE)[0]

        def settled(tokens: int) -> Any:
            base = self.preset(tokens, asked._replace(network=kind, start=start))
            own = read(self.family.Recipe, self.text, self.file, self.settings, base)
            if start is not None and own.codec != start.codec:
                raise ValueError(
                    f"{folder} brings its vocabulary with it; leave out codec settings"
                )
            return replace(own, start_from=folder)

        return settled

    def preset(self, tokens: int, asked: Choice) -> Any:
        """With a kind of network that a setting asks for and the task has not: told by `read`."""
        try:
            return self.family.choose(self.task, self.data, tokens, asked)
        except ValueError:
            if self.of("network", ("kind",)) is None:
                raise
            return self.family.choose(self.task, self.data, tokens, asked._replace(network=None))
