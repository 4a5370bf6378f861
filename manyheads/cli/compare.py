"""The command compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, ClassVar

import typer

from manyheads.cli import decoders
from manyheads.cli.options import DeviceOption
from manyheads.cli.train import PresetOption, RunsOption, SettingsArgument, TaskGroup, catch_signals


def compare_example(what: str) -> str:
    from manyheads.tasks.table import find_recipe, trained_tasks

    files = f" {find_recipe(what).example}" if what in trained_tasks() else ""
    return f"Example: manyheads compare {what}{files} --out runs/compared"


def compare_networks(
    *,
    files: dict[str, Any],
    what: str,
    settings: SettingsArgument = None,
    out: RunsOption = None,
    preset: PresetOption = None,
    length: Annotated[
        int,
        typer.Option(
            min=3, help="Length, in tokens, of the sequence on which a layer is measured."
        ),
    ] = 32,
    device: DeviceOption = None,
) -> None:
    """Train a network of each kind on the same files for the same number of steps.

    Prints one table: parameters, speed, scores; the path between the first and the last token, how
    many steps must follow one another, and the operations of a layer.

    Each kind has the settings of `train --network`, with its own learning rate. A setting that you
    give (training.learning_rate=0.001) applies to every kind that has it.

    Ctrl-C stops after the current step; type the same command to continue.
    """
    from manyheads.cli.run_screen import show_progress
    from manyheads.comparing import compare as compared
    from manyheads.comparing import format_comparison
    from manyheads.learn import Request, resolve
    from manyheads.modules.config import CONFIGS
    from manyheads.tasks.table import find_recipe, trained_tasks
    from manyheads.training.distributed import join_processes, leave_processes
    from manyheads.training.run import RECIPE

    if out is None:
        raise ValueError("the runs need a folder: --out runs/compared")
    if what not in trained_tasks():
        raise ValueError(f"there is no task {what!r}; there are {', '.join(trained_tasks())}")
    kinds = [kind for kind in find_recipe(what).networks if kind in CONFIGS]
    if len(kinds) == 1:
        raise ValueError(f"{what} is learned by a {kinds[0]} alone: there is nothing to compare")
    if any(one.partition("=")[0].strip() == "network.kind" for one in settings or []):
        raise ValueError("all kinds of networks are compared; leave out network.kind")
    begun = any((out / kind / RECIPE).exists() for kind in kinds)
    if out.exists() and not begun and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is there already and holds no runs; give --out a new folder")
    world = join_processes(device)
    requests = [
        Request(what, settings_for(kind, settings or []), files, world.device.type, kind, preset)
        for kind in kinds
    ]
    first, gathered = resolve(requests[0])
    recipes = [first, *(resolve(request, gathered)[0] for request in requests[1:])]
    with show_progress(world.first) as watch, catch_signals() as asked:
        rows = compared(
            recipes,
            gathered,
            out,
            world,
            watch,
            length=length,
            asked_to_stop=asked,
        )
    leave_processes()
    if world.first and rows:
        (out / "compared.md").write_text(format_comparison(rows) + "\n", encoding="utf-8")
        kept = json.dumps([row.row() for row in rows], indent=1)
        (out / "compared.json").write_text(kept + "\n", encoding="utf-8")
        print(format_comparison(rows))
    if asked():
        raise typer.Exit(asked.code)


class CompareGroup(TaskGroup):
    function, example = staticmethod(compare_networks), staticmethod(compare_example)
    others: ClassVar = {"decoders": (decoders.ABOUT, decoders.make_compare_decoders)}


def settings_for(kind: str, settings: Sequence[str]) -> list[str]:
    """Leave out the settings of the network that only other kinds have."""
    from manyheads.modules.config import CONFIGS

    names = {each: {one.name for one in fields(config)} for each, config in CONFIGS.items()}
    others = {f"network.{name}" for name in set().union(*names.values()) - names[kind]}
    return [one for one in settings if one.partition("=")[0].strip() not in others]
