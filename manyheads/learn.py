"""From a recipe and a folder to a trained model."""

from __future__ import annotations

import json
from collections.abc import Callable

import torch

from manyheads.recipe import Recipe
from manyheads.settings import load, write
from manyheads.tasks.prepare import Gathered, corpus, gather, load_codecs, prepare
from manyheads.tasks.texts import Codecs, HeldOut, Learning, Texts
from manyheads.training.course import Course, Watch
from manyheads.training.curves import curves
from manyheads.training.runs import RECIPE, Run
from manyheads.training.world import World


def begin(
    recipe: Recipe, run: Run, gathered: Gathered | None = None, world: World = World()
) -> None:
    """Make the folder of a run and put all into it that the run will read."""
    if world.first:
        with run.created():
            gathered = gathered or gather(recipe.task, recipe.data, recipe.training.seed)
            prepare(gathered, recipe.codec, recipe.data.longest_tokens, run)
            tried(recipe, run)
            run.text(RECIPE, write(recipe))  # last: a folder with a recipe is a run that can go on
    world.wait()


def tried(recipe: Recipe, run: Run) -> None:
    """Refuse now what would fail later: a network that cannot be built, batches without room."""
    job = learning(recipe, run)
    with torch.device("meta"):
        job.network()
    job.plan.epoch(0)


def go_on(
    run: Run,
    world: World = World(),
    watch: Watch = Watch(),
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train from where the run stands; whether it came to its end."""
    recipe = load(Recipe, run / RECIPE)
    course = Course(learning(recipe, run), recipe.training, run, world, watch)
    ended = course.go(asked_to_stop)
    if world.first:
        curves(run)
    return ended


def learning(recipe: Recipe, run: Run) -> Learning:
    """The task of a run, from its folder alone: the files it was read from may be gone."""
    codecs = load_codecs(run.folder)
    return Learning(
        Texts(recipe.task, codecs, recipe.network),
        corpus(run, "train", codecs),
        held_out(run, codecs),
        layout=recipe.layout,
        tokens=recipe.training.tokens_per_batch,
        seed=recipe.training.seed,
    )


def held_out(run: Run, codecs: Codecs) -> HeldOut:
    lines = (run / "data" / "valid.jsonl").read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines if line]
    sources = [record["source"] for record in records]
    return HeldOut(
        sources, [record["references"] for record in records], corpus(run, "valid", codecs)
    )
