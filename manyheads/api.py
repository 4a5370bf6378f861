"""The Python API: load a model, train a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast, get_args, get_origin, get_type_hints

from manyheads.attention.patterns import Pattern
from manyheads.cli.run_screen import show_progress
from manyheads.config import write_inline
from manyheads.config.declare import Settings
from manyheads.config.fields import find_nearest_name
from manyheads.learn import Request, refuse_minutes, resume_run, start_run
from manyheads.models import load as load
from manyheads.tasks.model import Model
from manyheads.tasks.table import find_recipe, recipe_in, task_names
from manyheads.training.distributed import join_processes
from manyheads.training.run import CORPUS, Run
from manyheads.training.trainer import Callback


def train(
    task: str | Path,
    *,
    out: str | Path,
    network: str | Mapping[str, Any] | Settings | None = None,
    preset: str | None = None,
    start_from: str | Path | None = None,
    device: str | None = None,
    minutes: float | None = None,
    callback: Callback | None = None,
    **given: Any,
) -> Model:
    """train("translation", source="a.de", target="a.en", out="runs/de-en", training={"steps": 900})

    Do what `manyheads train` does, and return the trained model. Keyword arguments are the files
    of the task, named like the options of the command, and the settings of its recipe. The path
    of a recipe can replace the name of the task; `network` is a kind of network, some of its
    settings, or a whole config. Progress is printed unless there is a `callback`.
    """
    what, kind = str(task), network if isinstance(network, str) else None
    if not isinstance(network, str | None):
        given = {**given, "network": network}
    origin = None if start_from is None else Path(start_from)
    request = Request(what, network=kind, preset=preset, start_from=origin)
    files, settings = sort_arguments(what, given)
    if minutes is not None:
        refuse_minutes(minutes, settings)
    world = join_processes(device)
    request = replace(request, settings=settings, files=files, device=world.device.type)
    run = Run(Path(out))
    deadline = start_run(request, run, world, minutes)
    with nullcontext(callback) if callback else show_progress(world.first) as told:
        told.say((run / CORPUS).read_text(encoding="utf-8").rstrip())
        resume_run(run, world, told, deadline=deadline)
    world.wait()
    return load(run.folder, str(world.device))


def sort_arguments(what: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Split keyword arguments into files by name and settings such as "network.width=512"."""
    family = find_recipe(what) if what in task_names() else recipe_in(Path(what))
    groups = [one.name for one in fields(cast(Any, family)) if one.name != "task"]
    files, settings = dict[str, Any](), list[str]()
    for name, value in part_data(given, family.files):
        if name in family.files and not isinstance(value, Mapping):
            kind = get_type_hints(get_type_hints(family)["data"])[name]
            if what in task_names() and {Path, str, tuple} & {
                kind,
                *get_args(kind),
                get_origin(kind),
            }:
                files[name] = file_value(kind, value)
            else:  # a number, or a file that replaces one of a recipe
                several = get_origin(kind) is tuple and isinstance(value, str | Path)
                settings += flatten_setting(f"data.{name}", [value] if several else value)
        elif name in groups:
            settings += flatten_setting(name, value)
        else:
            names = [*family.files, *groups]
            near = find_nearest_name(name, names)
            hint = f"did you mean {near}?" if near else f"its fields are {', '.join(names)}"
            raise ValueError(f"{what} has no field {name!r}; {hint}")
    return files, settings


def part_data(given: Mapping[str, Any], files: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments, and each part of `data` by itself: a file under its own name.

    {"data": {"text": "a.txt", "context": 64}} -> ("text", "a.txt"), ("data", {"context": 64})
    """
    for name, value in given.items():
        if name != "data" or not isinstance(value, Mapping):
            yield name, value
            continue
        for inner, held in value.items():
            yield (inner, held) if inner in files else (name, {inner: held})


def file_value(kind: Any, value: Any) -> Any:
    """Convert a value to the type of its field in the task's data: a path, a string, or a tuple."""
    if get_origin(kind) is tuple:
        one = get_args(kind)[0]
        return tuple(map(one, [value] if isinstance(value, str | Path) else value))
    return Path(value) if Path in (kind, *get_args(kind)) else value


def flatten_setting(name: str, value: Any) -> Iterator[str]:
    """ "network", {"width": 512} -> "network.width=512"; a pattern is written as its text"""
    if isinstance(value, Settings):
        value = {one.name: getattr(value, one.name) for one in fields(cast(Any, value)) if one.init}
    if isinstance(value, Mapping):
        for inner, held in value.items():
            yield from flatten_setting(f"{name}.{inner}", held)
        return
    several = tuple(map(write_pattern, value)) if isinstance(value, list | tuple) else value
    try:
        yield f"{name}={write_inline(write_pattern(several))}"
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None


def write_pattern(value: Any) -> Any:
    return str(value) if isinstance(value, Pattern) else value
