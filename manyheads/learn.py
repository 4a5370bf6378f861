"""From a recipe and a folder to a trained model."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from manyheads.codecs.text import Text
from manyheads.config import write
from manyheads.request import Request, resolve
from manyheads.tasks.table import load_recipe, task_for
from manyheads.tasks.task import Task
from manyheads.training.distributed import World
from manyheads.training.files import read_tensors, refuse_what_is_no_number, write_tensors
from manyheads.training.optimizers import find_optimizer
from manyheads.training.pace import fit_steps, measure
from manyheads.training.run import CORPUS, RECIPE, START, WEIGHTS, Run, draw_curves
from manyheads.training.trainer import Callback, Trainer
from manyheads.training.weights import adopt


def start(request: Request, run: Run, world: World, minutes: float | None = None) -> float:
    """Make the folder of the run that was asked for; when it is to stop, on a monotonic clock."""
    if not world.first:
        world.wait()  # one process reads the corpus; the others find it in the folder
        return math.inf
    # The folder first: to read a long corpus for a folder that is refused helps nobody.
    with run.created():
        recipe, corpus = resolve(request)
        begin(recipe, run, corpus, world)
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
    """Write as many steps into the run's recipe as there is time for; a line to tell of it."""
    began, meant = time.monotonic(), recipe.training.steps
    pace = measure(Trainer(open_task(recipe, run), run, world))
    left = 60 * minutes - (time.monotonic() - began)
    training = fit_steps(left, recipe.training, pace)
    run.text(RECIPE, write(replace(recipe, training=training)))
    return (
        f"{training.steps:,} of {meant:,} steps fit into --minutes {minutes:g}, "
        f"{pace.step_seconds:.2g} s each"
    )


def begin(recipe: Any, run: Run, gathered: Any = None, world: World = World()) -> None:
    """Make the folder of a run and put all into it that the run will read."""
    if world.first:
        task = task_for(recipe)
        with run.created():
            gathered = task.gather(recipe) if gathered is None else gathered
            task.prepare(gathered, recipe, run.folder)
            if short := describe_shortage(recipe, run):
                run.text(CORPUS, (run / CORPUS).read_text(encoding="utf-8") + f"  {short}\n")
            if recipe.start_from is not None:
                weights, note = read_tensors(recipe.start_from / WEIGHTS)
                refuse_what_is_no_number(weights, recipe.start_from / WEIGHTS)
                write_tensors(run / START, weights, note)
            dry_check(recipe, run)
            run.text(RECIPE, write(recipe))  # last: a folder with a recipe is a run that can go on
    world.wait()


def describe_shortage(recipe: Any, run: Run) -> str:
    """Where texts are too few for all the pieces that were asked for: how many there are."""
    codec = getattr(recipe, "codec", None)
    if recipe.start_from is not None or getattr(codec, "kind", "") not in ("bpe", "unigram"):
        return ""
    names = ("tokenizer.json", "source.json", "target.json")
    sizes = [Text.load(run / name).size for name in names if (run / name).exists()]
    if min(sizes) >= recipe.codec.size:
        return ""
    return f"codec.size is {recipe.codec.size:,}, these texts have {min(sizes):,} pieces"


def dry_check(recipe: Any, run: Run) -> None:
    """Refuse now what would fail later: a network that cannot be built, batches without room."""
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


def go_on(
    run: Run,
    world: World = World(),
    callback: Callback = Callback(),
    asked_to_stop: Callable[[], bool] = lambda: False,
    deadline: float = math.inf,
) -> bool:
    """Train from where the run stands, until a time (monotonic) at most; whether it ended."""
    recipe = load_recipe(run / RECIPE)
    with run.alone() if world.first else nullcontext():
        trainer = Trainer(open_task(recipe, run), run, world, callback)
        ended = trainer.fit(lambda: asked_to_stop() or time.monotonic() > deadline)
        late = not ended and deadline < math.inf and not asked_to_stop()
        if late and not trainer.due(recipe.training.validate_every):
            trainer.validate()  # so that what was learned in the time is in the result
            trainer.save()
        if world.first:
            draw_curves(run)
    return ended


def open_task(recipe: Any, run: Run) -> Task:
    """What a run learns, from its folder alone."""
    return task_for(recipe).open(recipe, run.folder)
