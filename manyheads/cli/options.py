"""What several commands ask for alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeVar

import typer

T = TypeVar("T")

BEAM = 5
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
    from manyheads.tasks.table import find_task

    loaded = load(model, device)
    if not isinstance(loaded, kind):
        raise ValueError(
            f"{model} is a model for {loaded.kind}; "
            f"`manyheads {find_task(loaded.kind).use} --model {model}` is what it is for"
        )
    return loaded
