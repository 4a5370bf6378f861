"""Every setting of a run: what was asked, and for the rest what suits corpus and machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from manyheads.catalog import find_model
from manyheads.config import part, read, text_of
from manyheads.tasks.recipe import Choice, Recipe
from manyheads.tasks.table import (
    find_recipe,
    find_task,
    load_recipe,
    recipe_in,
    task_names,
    trained_tasks,
)
from manyheads.training.run import RECIPE


@dataclass(frozen=True)
class Request:
    """What a person asks for: a task with its files, or a recipe in a file; and settings."""

    what: str  # the name of a task, or the path of a recipe
    settings: Sequence[str] = ()  # training.steps=20000
    files: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    network: str | None = None
    preset: str | None = None
    start_from: Path | None = None

    def said(self) -> Said:
        """A recipe's own words, or the files of a task."""
        if self.what in task_names():
            family = find_recipe(self.what)
            return Said(family, self.what, family.data_of(self.files), self.settings)
        self.refuse_no_recipe()
        return Said.in_file(Path(self.what), self.settings)

    def refuse_no_recipe(self) -> None:
        """What is no task is a recipe, and that says what the options would."""
        what = self.what
        if Path(what).is_dir():
            raise ValueError(f"{what} is a folder; a run's recipe is the recipe.yaml in it")
        if not Path(what).suffix:
            raise ValueError(
                f"there is no task {what!r}; there are {', '.join(trained_tasks())}, "
                "or name a recipe.yaml"
            )
        if self.network:
            raise ValueError(f"{what} says which network; network.kind={self.network} changes it")
        if self.start_from:
            raise ValueError(f"{what} says where to start; start_from={self.start_from} changes it")


def resolve(request: Request, corpus: Any = None) -> tuple[Any, Any]:
    """The recipe that was asked for, with every choice made, and its corpus."""
    said = request.said()
    asked = Choice(request.device, request.network, request.preset)
    choose = said.choice(asked, request.start_from)
    first = choose(0)  # mistakes are told before a long corpus is read
    if corpus is None:
        corpus = find_task(said.task).gather(first)
    recipe = find_task(said.task).settle(choose(corpus.tokens), corpus)
    return replace(recipe, data=with_whole_paths(recipe.data)), corpus


def with_whole_paths(data: Any) -> Any:
    """So that the recipe can be used from any folder."""

    def whole(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(whole, value))
        return value.absolute() if isinstance(value, Path) else value

    return replace(data, **{one.name: whole(getattr(data, one.name)) for one in fields(data)})


@dataclass(frozen=True)
class Said:
    """What was said of a run: files by option or in a recipe, and settings over both."""

    family: type[Recipe]
    task: str
    data: Any
    settings: Sequence[str] = ()
    text: str = ""  # of the recipe
    file: str = RECIPE

    @classmethod
    def in_file(cls, path: Path, settings: Sequence[str]) -> Said:
        """What a recipe says; mistakes in what it learns are told with all others."""
        family, text = recipe_in(path), text_of(path)
        task = part(family, "task", text, settings)
        data = part(family, "data", text, settings, family.files)
        if task is None or data is None:
            recipe = load_recipe(path, settings)
            task, data = recipe.task, recipe.data
        return cls(family, task, data, settings, text, str(path))

    def of(self, field: str, only: Sequence[str] = ()) -> Any:
        return part(self.family, field, self.text, self.settings, only)

    def choice(self, asked: Choice, start_from: Path | None) -> Callable[[int], Any]:
        """From the tokens of a corpus to the recipe for it."""
        network = self.of("network", ("kind",))
        kind = asked.network if network is None else network.kind
        named = self.of("start_from") or start_from
        folder = None if named is None else find_model(named)
        start = None if folder is None else load_recipe(folder / RECIPE)

        def settled(tokens: int) -> Any:
            base = self.preset(tokens, asked._replace(network=kind, start=start))
            own = read(self.family, self.text, self.file, self.settings, base)
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
