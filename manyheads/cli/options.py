"""What several commands ask for alike."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from manyheads.decoding.config import BEAM as BEAM

T = TypeVar("T")

SEARCH = "Searching for the best"
CHANCE = "Drawing at random"

ModelOption = Annotated[str, typer.Option(help="A run's folder, or the name of a built-in model.")]
DeviceOption = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:1; else the GPU where there is one.")
]
LengthPenalty = Annotated[
    float,
    typer.Option(
        help="The best has the highest score / length ** this; 0 favours short ones.",
        rich_help_panel=SEARCH,
    ),
]
LeastTokens = Annotated[int, typer.Option(help="Write no fewer than this.")]
TopK = Annotated[
    int, typer.Option(help="Only the likeliest so many; 0: all.", rich_help_panel=CHANCE)
]
TopP = Annotated[
    float,
    typer.Option(help="Only the likeliest that make up this share.", rich_help_panel=CHANCE),
]
Seed = Annotated[int, typer.Option(help="The same seed draws the same.", rich_help_panel=CHANCE)]


def given(context: typer.Context) -> set[str]:
    """The names of the options that were typed."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def option(name: str) -> str:
    """as_json is typed --json, top_k --top-k."""
    return f"--{name.removeprefix('as_').replace('_', '-')}"


def refuse_unwritable(name: str, path: Path) -> None:
    """Before the work: a file that cannot be written, in a folder that has to be there."""
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{name} names a file in a folder that is there, got {path}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{name} {path} cannot be written: you lack the permission")


def refuse_no_folder(name: str, folder: Path) -> None:
    """Before the work: a folder that neither is there nor can be made."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"{name} names a folder in a folder, {there} is a file")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{name} {folder} cannot be written: you lack the permission")


def loaded_as(kind: type[T] | tuple[type[T], ...], model: str, device: str | None) -> T:
    """The model, if it is one that this command is for."""
    from manyheads.models import load
    from manyheads.tasks.table import find_recipe

    loaded = load(model, device)
    if not isinstance(loaded, kind):
        raise ValueError(
            f"{model} is a model for {loaded.kind}; "
            f"`manyheads {find_recipe(loaded.kind).use} --model {model}` is what it is for"
        )
    return loaded


# ---- options made from dataclasses ------------------------------------------------------------


def options_of(kind: Any, names: tuple[str, ...], panel: str) -> list[inspect.Parameter]:
    """An option for each of these fields, described as the field is; a list may be given again."""
    types, about = get_type_hints(kind), {one.name: one.metadata for one in fields(kind)}
    made = []
    for name in names:
        each = types[name]
        if get_origin(each) is tuple:
            each = list[get_args(each)[0]] | None  # type: ignore[misc]
        elif Path in (each, *get_args(each)):
            each = Path | None
        elif each not in (int, float, bool, str):
            each = str | None  # as it is typed: the task reads it
        text = str(about[name].get("about", ""))
        told = typer.Option(help=text, rich_help_panel=panel, show_default=False)
        made.append(parameter(name, Annotated[each, told]))
    return made


def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def with_options(
    function: Callable[..., None], more: list[inspect.Parameter]
) -> Callable[..., None]:
    """The function with these options before its own; it is called with them as `files`."""
    own = inspect.signature(function, eval_str=True)
    names = {one.name for one in more}
    told: Any = getattr(function, "func", function)  # of one that is given in part
    fixed = getattr(function, "keywords", {})

    def run(**given: Any) -> None:
        files = {name: given.pop(name) for name in names & given.keys()}
        held = {name: tuple(v) if isinstance(v, list) else v for name, v in files.items()}
        function(files={name: value for name, value in held.items() if value}, **given)

    kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.parameters.values()]
    free = [one for one in kept if one.name != "files" and one.name not in fixed]
    parameters = [*more, *free]
    run.__doc__, run.__name__ = told.__doc__, told.__name__
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
