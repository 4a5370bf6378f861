"""train, resume, compare."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from manyheads.recipe import Recipe
    from manyheads.tasks.prepare import Gathered
    from manyheads.training.course import Watch
    from manyheads.training.runs import Run

KINDS = ("translation", "summarization", "answering")
File = Annotated[Path | None, typer.Option()]


def train(
    what: Annotated[str, typer.Argument(help=f"A task ({', '.join(KINDS)}), or a recipe.yaml.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Any setting: training.steps=20000 network.width=512")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Sentences to read, one a line.")] = None,
    target: Annotated[Path | None, typer.Option(help="What is to be written for each.")] = None,
    valid_source: Annotated[Path | None, typer.Option(help="The same, for validation.")] = None,
    valid_target: Annotated[Path | None, typer.Option(help="")] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="Or both in one file: .tsv or .jsonl, also .gz, .xz, .bz2.")
    ] = None,
    valid_pairs: Annotated[Path | None, typer.Option(help="")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the run.")] = None,
    network: Annotated[
        str | None, typer.Option(help="transformer, recurrent or convolutional.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, small or base; else by corpus and machine.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; else what there is.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the recipe and what it would cost; stop.")
    ] = False,
) -> None:
    """Train a model from text files: one command, no configuration."""
    from manyheads.training.runs import Run
    from manyheads.training.world import join

    files = {
        "source": source,
        "target": target,
        "valid_source": valid_source,
        "valid_target": valid_target,
        "pairs": pairs,
        "valid_pairs": valid_pairs,
    }
    world = join(device)
    recipe, gathered = wanted(what, settings or [], files, network, preset, world.device.type)
    if dry_run:
        from manyheads.estimate import estimate
        from manyheads.settings import write

        print(write(recipe))
        print(estimate(recipe, gathered, world.device))
        return
    if out is None:
        raise ValueError("a run needs a folder: --out runs/my-model")
    run = Run(out)
    with watching(world.first) as watch:
        from manyheads.learn import begin

        begin(recipe, run, gathered, world)
        watch.say((run / "corpus.txt").read_text(encoding="utf-8").rstrip())
        carry_on(run, watch, world)


def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    device: Annotated[str | None, typer.Option(help="cpu or cuda; else what there is.")] = None,
) -> None:
    """Go on with a run as if it had never stopped."""
    from manyheads.training.runs import RECIPE, Run
    from manyheads.training.world import join

    if not (folder / RECIPE).exists():
        raise ValueError(f"{folder} holds no run: there is no {RECIPE} in it")
    world = join(device)
    with watching(world.first) as watch:
        carry_on(Run(folder), watch, world)


def wanted(
    what: str,
    settings: list[str],
    files: dict[str, Path | None],
    network: str | None,
    preset: str | None,
    device: str,
) -> tuple[Recipe, Gathered]:
    """The recipe that was asked for, with every choice made, and its corpus."""
    from manyheads.recipe import Recipe, recipe_for
    from manyheads.settings import load, read, write
    from manyheads.tasks.prepare import gather
    from manyheads.tasks.reading import Data

    if what not in KINDS:
        if not Path(what).suffix:
            raise ValueError(
                f"there is no task {what!r}; there are {', '.join(KINDS)}, or name a recipe.yaml"
            )
        given = [f"--{name.replace('_', '-')}" for name, path in files.items() if path]
        if given:
            raise ValueError(f"{what} says what to read; {given[0]} is for a task without a recipe")
        chosen = load(Recipe, Path(what), settings)
        return chosen, gather(chosen.task, chosen.data, chosen.training.seed)
    kind: Any = what
    data = Data(**cast(dict[str, Any], files))
    gathered = gather(kind, data)
    base = recipe_for(kind, data, len(gathered.train), device, network, preset)
    return read(Recipe, write(base), "recipe.yaml", settings), gathered


def carry_on(run: Run, watch: Watch, world: Any) -> None:
    from manyheads.learn import go_on
    from manyheads.training.world import leave

    with stoppable() as asked:
        ended = go_on(run, world, watch, asked)
    leave()
    if not ended:
        watch.say(f"stopped; `manyheads resume {run.folder}` goes on from here")
    else:
        watch.say(f"done: {run.folder}")


@contextmanager
def watching(first: bool) -> Iterator[Watch]:
    from manyheads.screen import Screen
    from manyheads.training.course import Watch

    if not first:
        yield Watch()
        return
    with Screen() as screen:
        yield screen


@contextmanager
def stoppable() -> Iterator[Any]:
    """Inside, Ctrl-C and SIGTERM ask for a stop after the step; a second one stops at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
