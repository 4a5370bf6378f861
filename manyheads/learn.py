"""From a recipe and a folder to a trained model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from manyheads.codecs.text import Text
from manyheads.config import write
from manyheads.tasks.table import family_of, load_recipe
from manyheads.training.averages import load_weights, weights_of
from manyheads.training.curves import curves
from manyheads.training.distributed import World
from manyheads.training.files import read_tensors, write_tensors
from manyheads.training.run import CORPUS, RECIPE, START, WEIGHTS, Run
from manyheads.training.trainer import Course, Job, Watch

HEADS = ("head.", "pooler.")  # what stands on a network and is of one task alone


def begin(recipe: Any, run: Run, gathered: Any = None, world: World = World()) -> None:
    """Make the folder of a run and put all into it that the run will read."""
    if world.first:
        family = family_of(recipe)
        with run.created():
            gathered = family.gather(recipe) if gathered is None else gathered
            family.prepare(gathered, recipe, run)
            if short := unreached(recipe, run):
                run.text(CORPUS, (run / CORPUS).read_text(encoding="utf-8") + f"  {short}\n")
            if recipe.start_from is not None:
                weights, note = read_tensors(recipe.start_from / WEIGHTS)
                write_tensors(run / START, weights, note)
            tried(recipe, run)
            run.text(RECIPE, write(recipe))  # last: a folder with a recipe is a run that can go on
    world.wait()


def unreached(recipe: Any, run: Run) -> str:
    """Where texts are too few for all the pieces that were asked for: how many there are."""
    if recipe.start_from is not None or recipe.codec.kind not in ("bpe", "unigram"):
        return ""
    names = ("tokenizer.json", "source.json", "target.json")
    sizes = [Text.load(run / name).size for name in names if (run / name).exists()]
    if min(sizes) >= recipe.codec.size:
        return ""
    return f"codec.size is {recipe.codec.size:,}, these texts have {min(sizes):,} pieces"


def tried(recipe: Any, run: Run) -> None:
    """Refuse now what would fail later: a network that cannot be built, batches without room."""
    job = learning(recipe, run)
    if recipe.start_from is None:
        with torch.device("meta"):
            job.network()
    else:
        job.network()  # with the weights it starts from
    longest, room = job.plan.longest, recipe.training.tokens_per_batch
    if longest > room:
        shorter = "context" if hasattr(recipe.data, "context") else "longest_tokens"
        raise ValueError(
            f"training.tokens_per_batch={room} has no room for the longest example, which has "
            f"{longest} tokens; training.tokens_per_batch={longest} or a lower data.{shorter} "
            "would do"
        )
    job.plan.epoch(0)


def go_on(
    run: Run,
    world: World = World(),
    watch: Watch = Watch(),
    asked_to_stop: Callable[[], bool] = lambda: False,
    deadline: float = math.inf,
) -> bool:
    """Train from where the run stands, until a time (monotonic) at most; whether it ended."""
    recipe, _ = load_recipe(run / RECIPE)
    with run.alone() if world.first else nullcontext():
        course = Course(learning(recipe, run), recipe.training, run, world, watch)
        ended = course.go(lambda: asked_to_stop() or time.monotonic() > deadline)
        late = not ended and deadline < math.inf and not asked_to_stop()
        if late and not course.due(recipe.training.validate_every):
            course.validate()  # so that what was learned in the time is in the result
            course.save()
        if world.first:
            curves(run)
    return ended


def learning(recipe: Any, run: Run) -> Job:
    """What a run learns, from its folder alone."""
    job = family_of(recipe).job(recipe, run)
    return Begun(job, run) if (run / START).exists() else job


class Begun:
    """A job whose network begins with weights that were trained before."""

    def __init__(self, job: Job, run: Run):
        self.job, self.run = job, run
        self.plan, self.loss, self.judge = job.plan, job.loss, job.judge
        self.whole = False  # whether no head begins anew: then it is a model before the first step

    def network(self) -> nn.Module:
        network = self.job.network()
        held, _ = read_tensors(self.run / START)
        own, taken = weights_of(network), adopted(network, held)
        self.whole = own.keys() == taken.keys()
        load_weights(network, {**own, **taken})
        return network


def adopted(network: nn.Module, held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights held, by their names here: an encoder's also where it is part of a network.

    A head of another size begins anew; all else has to fit.
    """
    taken = {}
    for name, own in weights_of(network).items():
        names = (name, name.removeprefix("encoder."), f"encoder.{name}")
        found = next((held[other] for other in names if other in held), None)
        if found is not None and found.shape == own.shape:
            taken[name] = found.to(own.dtype)
        elif not name.startswith(HEADS):
            there = "missing" if found is None else tuple(found.shape)
            raise ValueError(
                f"the weights to start from do not fit: {name} is {tuple(own.shape)} here and "
                f"{there} there; without network settings the network is the one it starts from"
            )
    return taken
