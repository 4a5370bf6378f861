"""train, resume."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from manyheads.commands.options import DeviceOption

if TYPE_CHECKING:
    from manyheads.recipe import Recipe
    from manyheads.tasks.prepare import Gathered
    from manyheads.training.course import Watch
    from manyheads.training.runs import Run
    from manyheads.training.world import World

KINDS = ("translation", "summarization", "answering")
FILES = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
DATA, MODEL = "What to learn from", "What to learn with"


def train(
    what: Annotated[
        str,
        typer.Argument(
            metavar="TASK|RECIPE", help=f"{', '.join(KINDS)}; or a recipe.yaml.", show_default=False
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING=VALUE",
            help="Any setting of a recipe: training.steps=20000 network.width=512",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the run: a new one.")] = None,
    source: Annotated[
        Path | None, typer.Option(help="Texts to read, one a line.", rich_help_panel=DATA)
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(help="What is to be written for each.", rich_help_panel=DATA),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Or both in one file, .tsv or .jsonl. All files may be .gz, .xz or .bz2 too.",
            rich_help_panel=DATA,
        ),
    ] = None,
    valid_source: Annotated[
        Path | None,
        typer.Option(
            help="The same for validation; else some pairs are held out.", rich_help_panel=DATA
        ),
    ] = None,
    valid_target: Annotated[
        Path | None, typer.Option(help="What is wanted for each.", rich_help_panel=DATA)
    ] = None,
    valid_pairs: Annotated[
        Path | None, typer.Option(help="Or both in one file.", rich_help_panel=DATA)
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="tiny, small or base; else by corpus and machine.", rich_help_panel=MODEL
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="transformer, recurrent or convolutional.", rich_help_panel=MODEL),
    ] = None,
    device: DeviceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the recipe and what it would cost; stop.")
    ] = False,
) -> None:
    """Train a model from text files: one command, no configuration.

    Ctrl-C stops after the step it is at; `manyheads resume` goes on from there.
    """
    from manyheads.training.runs import CORPUS, Run
    from manyheads.training.world import join

    files = named(source, target, pairs, valid_source, valid_target, valid_pairs)
    world = join(device)
    asked = what, settings or [], files, network, preset, world.device.type
    if dry_run:
        from manyheads.estimate import estimate
        from manyheads.settings import write

        recipe, gathered = wanted(*asked)
        print(write(recipe))
        print(estimate(recipe, gathered, world.device))
        return
    if out is None:
        raise ValueError("a run needs a folder: --out runs/my-model")
    from manyheads.learn import begin

    run = Run(out)
    if not world.first:
        world.wait()  # one process reads the corpus; the others find it in the folder
    else:
        # The folder first: to read a long corpus for a folder that is refused helps nobody.
        with run.created():
            recipe, gathered = wanted(*asked)
            begin(recipe, run, gathered, world)
    carry_on(run, world, (run / CORPUS).read_text(encoding="utf-8").rstrip())


def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    device: DeviceOption = None,
) -> None:
    """Go on with a run as if it had never stopped."""
    from manyheads.training.runs import RECIPE, Run
    from manyheads.training.world import join

    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if not (folder / RECIPE).exists():
        raise ValueError(f"{folder} holds no run: there is no {RECIPE} in it")
    carry_on(Run(folder), join(device))


def named(*paths: Path | None) -> dict[str, Path | None]:
    """The files that were given, in the order of FILES."""
    return dict(zip(FILES, paths, strict=True))


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
        refuse_no_recipe(what, files, network, preset)
        chosen = load(Recipe, Path(what), settings)
        return chosen, gather(chosen.task, chosen.data, chosen.training.seed)
    kind: Any = what
    data = Data(**cast(dict[str, Any], files))

    def settled(corpus: int) -> Recipe:
        base = recipe_for(kind, data, corpus, device, network, preset)
        return read(Recipe, write(base), "recipe.yaml", settings)

    chosen = settled(0)  # mistakes are told before a long corpus is read
    gathered = gather(kind, chosen.data, chosen.training.seed)
    return settled(gathered.tokens()), gathered


def refuse_no_recipe(
    what: str, files: dict[str, Path | None], network: str | None, preset: str | None
) -> None:
    """What is no task is a recipe, and that says what the options would."""
    if Path(what).is_dir():
        raise ValueError(f"{what} is a folder; a run's recipe is the recipe.yaml in it")
    if not Path(what).suffix:
        raise ValueError(
            f"there is no task {what!r}; there are {', '.join(KINDS)}, or name a recipe.yaml"
        )
    given = [f"--{name.replace('_', '-')}" for name, path in files.items() if path]
    if given:
        raise ValueError(f"{what} says what to read; {given[0]} is for a task without a recipe")
    if network:
        raise ValueError(f"{what} says which network; network.kind={network} changes it")
    if preset:
        raise ValueError(f"{what} holds all settings; --preset is for a task without a recipe")


def carry_on(run: Run, world: World, words: str = "") -> None:
    """Train until the end or until asked to stop, telling these words first."""
    from manyheads.learn import go_on
    from manyheads.training.world import leave

    with watching(world.first) as watch, stoppable() as asked:
        if words:
            watch.say(words)
        ended = go_on(run, world, watch, asked)
    leave()
    if ended:
        watch.say(f"done: `manyheads translate --model {run.folder}` writes with it")
    else:
        watch.say(f"stopped; `manyheads resume {run.folder}` goes on from here")


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
def stoppable() -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C and SIGTERM ask for a stop after the step; a second Ctrl-C stops at once.

    A second SIGTERM does not: launchers send several, and none is to cost the checkpoint.
    """
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if number == signal.SIGINT and number in asked:
            raise KeyboardInterrupt
        asked.append(number)
        with suppress(OSError):  # not print: it may be in the middle of one
            os.write(2, b"\nstopping after this step; a second Ctrl-C stops at once\n")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
