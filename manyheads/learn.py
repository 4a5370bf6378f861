"""From a user's request to a trained model: resolve the recipe, prepare the folder, train."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from manyheads.catalog import find_model
from manyheads.codecs.text import Text
from manyheads.config import read, read_part, text_of, write
from manyheads.tasks.recipe import Choice, Recipe
from manyheads.tasks.table import (
    find_recipe,
    find_task,
    load_recipe,
    recipe_in,
    task_names,
    trained_tasks,
)
from manyheads.tasks.task import Task
from manyheads.training.distributed import World
from manyheads.training.files import (
    read_tensors,
    refuse_what_is_no_number,
    write_tensors,
    write_text,
)
from manyheads.training.optimizers import find_optimizer
from manyheads.training.pace import fit_steps, measure_pace
from manyheads.training.run import CORPUS, RECIPE, START, WEIGHTS, Run, draw_curves
from manyheads.training.trainer import Callback, Trainer
from manyheads.training.weights import adopt


@dataclass(frozen=True)
class Request:
    """What the user asks for: a task with its files, or a recipe file; and settings.

    If `what` is not the name of a task, it is a recipe file, which has network and start_from.
    """

    what: str  # the name of a task, or the path of a recipe
    settings: Sequence[str] = ()  # training.steps=20000
    files: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    network: str | None = None
    preset: str | None = None
    start_from: Path | None = None

    def __post_init__(self) -> None:
        what = self.what
        if what in task_names():
            return
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

    def recipe_source(self) -> RecipeSource:
        """Return where the recipe comes from: the recipe file, or the task and its files."""
        if self.what not in task_names():
            return RecipeSource.in_file(Path(self.what), self.settings)
        family = find_recipe(self.what)
        return RecipeSource(family, self.what, family.data_of(self.files), self.settings)


def resolve(request: Request, corpus: Any = None) -> tuple[Any, Any]:
    """Return the recipe with every setting resolved, and its corpus."""
    source = request.recipe_source()
    said = read_part(source.family, "start_from", source.text, source.settings)
    named = said or request.start_from
    folder = None if named is None else find_model(named)
    start = None if folder is None else load_recipe(folder / RECIPE)
    asked = Choice(request.device, request.network, request.preset, start)
    first = source.choose(0, asked, folder)  # report mistakes before reading a long corpus
    if source.text and request.preset:
        source.refuse_idle_preset(first, asked, folder)
    task = find_task(source.task)
    if corpus is None:
        corpus = task.gather(first)
    recipe = task.settle(source.choose(corpus.tokens, asked, folder), corpus)
    # Make paths absolute, so that the recipe can be used from any folder.
    given = {one.name: getattr(recipe.data, one.name) for one in fields(recipe.data)}
    data = replace(recipe.data, **{name: whole_path(value) for name, value in given.items()})
    return replace(recipe, data=data, start_from=whole_path(recipe.start_from)), corpus


def whole_path(value: Any) -> Any:
    """Make a path, or each path in a tuple, absolute; return other values unchanged."""
    if isinstance(value, tuple):
        return tuple(map(whole_path, value))
    return value.absolute() if isinstance(value, Path) else value


@dataclass(frozen=True)
class RecipeSource:
    """Where a recipe comes from: the files of a task or a recipe's text, and settings over both."""

    family: type[Recipe]
    task: str
    data: Any
    settings: Sequence[str] = ()
    text: str = ""  # of the recipe file
    file: str = RECIPE

    @classmethod
    def in_file(cls, path: Path, settings: Sequence[str]) -> RecipeSource:
        """Read a recipe file; mistakes in its task or data are reported with all others."""
        family, text = recipe_in(path), text_of(path)
        task = read_part(family, "task", text, settings)
        data = read_part(family, "data", text, settings, family.files)
        if task is None or data is None:
            recipe = load_recipe(path, settings)
            task, data = recipe.task, recipe.data
        return cls(family, task, data, settings, text, str(path))

    def choose(self, tokens: int, asked: Choice, start_from: Path | None) -> Any:
        """Return the recipe for a corpus of about `tokens` tokens."""
        network = read_part(self.family, "network", self.text, self.settings, ("kind",))
        if network is not None:
            asked = asked._replace(network=network.kind)
        try:
            base = self.family.choose(self.task, self.data, tokens, asked)
        except ValueError:
            if network is None:
                raise
            # A setting asks for a kind of network that the task does not have: `read` reports it.
            base = self.family.choose(self.task, self.data, tokens, asked._replace(network=None))
        own: Any = read(self.family, self.text, self.file, self.settings, base)
        if asked.start is not None and own.codec != asked.start.codec:
            raise ValueError(
                f"{start_from} brings its vocabulary with it; leave out codec settings"
            )
        return replace(own, start_from=start_from)

    def refuse_idle_preset(self, chosen: Any, asked: Choice, start_from: Path | None) -> None:
        """Refuse a preset if the recipe file says all that presets choose, as a run's does."""

        def changes(preset: str) -> bool:
            try:
                return bool(self.choose(0, asked._replace(preset=preset), start_from) != chosen)
            except ValueError:  # another preset does not go with the settings in the file
                return True

        others = {*self.family.presets_for(self.data)} - {asked.preset}
        if others and not any(map(changes, others)):
            raise ValueError(
                f"{self.file} says all that --preset {asked.preset} would choose; leave the "
                "preset out, and change settings one by one: network.width=256"
            )


def start_run(request: Request, run: Run, world: World, minutes: float | None = None) -> float:
    """Make the folder of a run; return the time.monotonic() at which training has to stop."""
    if not world.first:
        world.wait()  # one process reads the corpus; the others find it in the folder
        return math.inf
    # The folder comes first: it may be refused, and to read a long corpus takes time.
    with run.make_folder():
        recipe, corpus = resolve(request)
        prepare_run(recipe, run, corpus, world)
        if minutes is None:
            return math.inf
        deadline = time.monotonic() + 60 * minutes
        run.write(CORPUS, f"{fit_into(minutes, recipe, run, world)}\n")
        return deadline


def refuse_minutes(minutes: float, settings: Sequence[str]) -> None:
    if not 0 < minutes < math.inf:
        raise ValueError(f"--minutes is above 0, got {minutes:g}")
    if any(one.partition("=")[0].strip() == "training.steps" for one in settings):
        raise ValueError("--minutes chooses training.steps, which was given too; ask for one")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--minutes measures one process; for several give training.steps")


def fit_into(minutes: float, recipe: Any, run: Run, world: World) -> str:
    """Set the steps in the run's recipe to what fits into the time; return a line about it."""
    began, meant = time.monotonic(), recipe.training.steps
    pace = measure_pace(Trainer(open_task(recipe, run), run, world))
    left = 60 * minutes - (time.monotonic() - began)
    training = fit_steps(left, recipe.training, pace)
    write_text(run / RECIPE, write(replace(recipe, training=training)))
    return (
        f"{training.steps:,} of {meant:,} steps fit into --minutes {minutes:g}, "
        f"{pace.step_seconds:.2g} s each"
    )


def prepare_run(recipe: Any, run: Run, gathered: Any = None, world: World = World()) -> None:
    """Make the folder of a run and write everything into it that the run will read."""
    if world.first:
        task = find_task(recipe.task)
        with run.make_folder():
            gathered = task.gather(recipe) if gathered is None else gathered
            task.prepare(gathered, recipe, run.folder)
            if short := describe_shortage(recipe, run):
                run.write(CORPUS, f"  {short}\n")
            if recipe.start_from is not None:
                weights, note = read_tensors(recipe.start_from / WEIGHTS)
                refuse_what_is_no_number(weights, recipe.start_from / WEIGHTS)
                write_tensors(run / START, weights, note)
            dry_check(recipe, run)
            # Written last: a folder with a recipe is a run that can be resumed.
            write_text(run / RECIPE, write(recipe))
    world.wait()


def describe_shortage(recipe: Any, run: Run) -> str:
    """Say how many pieces the vocabulary has if the texts are too few for codec.size."""
    codec = getattr(recipe, "codec", None)
    if recipe.start_from is not None or getattr(codec, "kind", "") not in ("bpe", "unigram"):
        return ""
    names = ("tokenizer.json", "source.json", "target.json")
    sizes = [Text.load(run / name).size for name in names if (run / name).exists()]
    if min(sizes) >= recipe.codec.size:
        return ""
    return f"codec.size is {recipe.codec.size:,}, these texts have {min(sizes):,} pieces"


def dry_check(recipe: Any, run: Run) -> None:
    """Refuse now what would fail later: a network that cannot be built, too small batches."""
    find_optimizer(recipe.training.optimizer)
    task = open_task(recipe, run)
    if recipe.start_from is None:
        with torch.device("meta"):
            task.network()
    else:
        adopt(task.network(), run / START)
    batches, room = task.batches(), recipe.training.tokens_per_batch
    longest = batches.longest
    if longest > room:
        shorter = "context" if hasattr(recipe.data, "context") else "longest_tokens"
        raise ValueError(
            f"training.tokens_per_batch={room} has no room for the longest example, which has "
            f"{longest} tokens; training.tokens_per_batch={longest} or a lower data.{shorter} "
            "would do"
        )
    batches.epoch(0)


def resume_run(
    run: Run,
    world: World = World(),
    callback: Callback = Callback(),
    asked_to_stop: Callable[[], bool] = lambda: False,
    deadline: float = math.inf,
) -> bool:
    """Train from the last checkpoint, until `deadline` at most; return whether the run ended."""
    recipe = load_recipe(run / RECIPE)
    with run.hold_lock() if world.first else nullcontext():
        trainer = Trainer(open_task(recipe, run), run, world, callback)
        ended = trainer.fit(lambda: asked_to_stop() or time.monotonic() > deadline)
        late = not ended and deadline < math.inf and not asked_to_stop()
        if late and not trainer.due(recipe.training.validate_every):
            trainer.validate()  # so that the result includes the last steps
            trainer.save()
        if world.first:
            draw_curves(run)
    return ended


def open_task(recipe: Any, run: Run) -> Task:
    """Open the task of a run, from its recipe and the files in its folder."""
    return find_task(recipe.task).open(recipe, run.folder)
