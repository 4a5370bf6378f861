"""Make options of commands from the fields of dataclasses; add what every command has."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from manyheads.catalog import complete_model, find_model

ModelOption = Annotated[
    str,
    typer.Option(
        help="Folder of a run, or name of a built-in model.", autocompletion=complete_model
    ),
]
DeviceOption = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:1; without it, the GPU if there is one.")
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, help="CPU threads to use.", show_default="as many as are fastest"),
]

EXAMPLES = ("Example: ", "Then: ")  # how paragraphs with examples begin


def option_of(kind: Any, field: Field[Any], panel: str = "") -> inspect.Parameter:
    """Return the option of a field, with its description; that of a list may be given several
    times.

    It has no default of its own, so that one can see whether it was typed.
    """
    about, each = field.metadata, get_type_hints(kind)[field.name]
    if get_origin(each) is tuple:
        each = list[get_args(each)[0]]  # type: ignore[misc]
    elif set(get_args(each)) & {Path, int, float}:
        each = next(one for one in get_args(each) if one in (Path, int, float))
    elif each not in (int, float, bool, str, Path):
        each = str  # as it was typed: the task parses it
    if argument := about.get("argument"):
        told: Any = typer.Argument(metavar=argument, help=about["about"], show_default=False)
        return make_parameter(field.name, Annotated[each | None, told])
    default = field.default
    plain = default in (MISSING, None, (), "") or default is False
    shown = about.get("instead") or ("" if plain else default)
    name = field.name.replace("_", "-")
    off = f"/--no-{name}" if each is bool and default else ""  # of what is on by default
    told = typer.Option(
        about.get("flag") or f"--{name}{off}",
        help=about.get("about", "") + (f" \\[default: {shown}]" if shown != "" else ""),
        rich_help_panel=panel or about.get("panel"),
    )
    return make_parameter(field.name, Annotated[each | None, told])


def make_parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def describe_command(
    run: Callable[..., None], name: str, about: str, parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Give a function the name, help and options that typer reads."""
    run.__name__, run.__doc__ = name, inspect.cleandoc(about)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def wrap_command(function: Callable[..., None]) -> Callable[..., None]:
    """Add to a function what every command has: --threads, and a clean end at Ctrl-C."""
    described = inspect.signature(function, eval_str=True)

    def run(*args: Any, threads: int | None = None, **named: Any) -> None:
        if named.get("model"):
            from manyheads.models import read_recipe

            read_recipe(find_model(named["model"]))  # refused before torch is loaded
        if threads is not None:  # as if the user had set it in the environment
            os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(threads)
            import torch  # after that: torch reads it once

            torch.set_num_threads(threads)
        try:
            function(*args, **named)
        except KeyboardInterrupt as error:
            sentence = str(error) or "stopped; the same command begins again"
            print(f"manyheads: {sentence}", file=sys.stderr)
            raise SystemExit(130) from None

    parameters = [*described.parameters.values(), make_parameter("threads", ThreadsOption)]
    return describe_command(run, function.__name__, function.__doc__ or "", parameters)


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Add a command with its docstring as help; the examples come last, below the options."""
    # Typer would keep the line breaks of all paragraphs but the first.
    parts = [
        " ".join(one.split()) for one in inspect.cleandoc(function.__doc__ or "").split("\n\n")
    ]
    examples = [one for one in parts if one.startswith(EXAMPLES)]
    app.command(
        name,
        help="\n\n".join(one for one in parts if one not in examples),
        epilog="\n\n".join(examples),
        context_settings={"help_option_names": ["-h", "--help"]},
    )(wrap_command(function))


def make_command(name: str, function: Callable[..., None]) -> Any:
    """Make a single command, outside of any app."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    add_command(app, name, function)
    return typer.main.get_command(app)
