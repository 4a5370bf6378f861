"""The commands. Each loads what it needs when it runs, so that --help answers at once."""

from __future__ import annotations

import io
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from manyheads import __version__
from manyheads.cli import about, interop
from manyheads.cli import compare as comparing
from manyheads.cli import lab as laboratory
from manyheads.cli import train as training
from manyheads.cli.options import add_command
from manyheads.cli.verbs import VerbCommand
from manyheads.tasks.table import VERBS

if TYPE_CHECKING:
    from manyheads.attention.places import Places


class Ordered(TyperGroup):
    """Lists commands in the order of use."""

    def list_commands(self, ctx: Any) -> list[str]:
        first = ["train", "resume", "compare", *VERBS]
        return [*first, *(name for name in super().list_commands(ctx) if name not in first)]


app = typer.Typer(
    cls=Ordered,
    help="Train, run and look inside Transformer sequence models.",
    epilog='Example: manyheads translate "Ich habe keine Zeit."\n\n'
    "Then: manyheads train --help, for what can be trained; manyheads COMMAND --help, for the rest",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


FULL = (
    "the GPU's memory is full; a smaller --beam or training.tokens_per_batch, "
    "or --device cpu, would do"
)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    if version:
        print(f"manyheads {__version__}")
        raise typer.Exit


for name, group, metavar, about_it, example in (
    (
        "train",
        training.TrainGroup,
        "TASK|RECIPE [SETTING=VALUE]...",
        "Train a model: for a task, from files; or from a recipe, a YAML file with all settings.",
        "Example: manyheads train translation --source train.de --target train.en --out runs/de-en"
        "\n\nThen: manyheads train translation --help, for the options of a task",
    ),
    (
        "compare",
        comparing.CompareGroup,
        "TASK [SETTING=VALUE]...",
        "Train a network of each kind on the same files for the same number of steps, and "
        "compare them.",
        "Example: manyheads compare translation --source train.de --target train.en --out runs/all",
    ),
):
    tasks = typer.Typer(cls=group, help=about_it, epilog=example, no_args_is_help=True)
    tasks.callback()(lambda: None)
    app.add_typer(tasks, name=name, subcommand_metavar=metavar)
for verb, about_it in VERBS.items():
    app.command(verb, cls=VerbCommand, help=about_it)(lambda: None)


def draw(
    pattern: Annotated[str, typer.Argument(help='Attention pattern: "Causal() & Window(2)"')],
    line: Annotated[
        int | None, typer.Option(help="Number of tokens on a line.", show_default="16")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(help="Rows x columns of an image, x channels if there are any: 8x8"),
    ] = None,
    blocks: Annotated[
        str | None, typer.Option(help="With --grid: generate in blocks of this size: 4x4")
    ] = None,
    graph: Annotated[str | None, typer.Option(help="The edges of a graph: 0-1,1-2,2-3")] = None,
    query: Annotated[
        int | None, typer.Option(help="With --grid: the token whose view is shown.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture to this file too.")] = None,
) -> None:
    """Draw an attention pattern: who may attend to whom.

    Example: manyheads draw "Causal() & Window(2)" --grid 8x8 --png window.png
    """
    from manyheads.attention.notation import read
    from manyheads.cli.screen import print_picture
    from manyheads.inspect.drawing import draw as drawn

    if png is not None and png.is_dir():
        raise ValueError(f"--png names a file to write, {png} is a folder")
    picture = drawn(read(pattern), places_of(line, grid, blocks, graph), query)
    print_picture(picture, png, picture.save)


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the run and the picture.")] = Path(
        "demo"
    ),
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps; without it, as many as take a minute."),
    ] = None,
) -> None:
    """Translate with a trained model, and train a small one before your eyes.

    Example: manyheads demo
    """
    from manyheads.demo import run

    run(out, steps)


for own in (
    training.resume,
    interop.import_,
    interop.export,
    interop.verify,
    about.models,
    about.env,
    draw,
    laboratory.lab,
    demo,
):
    add_command(app, own.__name__.rstrip("_"), own)


def places_of(
    line_: int | None, grid_: str | None, blocks: str | None, graph_: str | None
) -> Places:
    """Return the one geometry that was asked for; by default a line of 16 tokens."""
    from manyheads.attention.places import graph, grid, line

    asked = [
        f"--{name}"
        for name, value in (("line", line_), ("grid", grid_), ("graph", graph_))
        if value is not None
    ]
    if len(asked) > 1:
        raise ValueError(f"one geometry at a time, got {' and '.join(asked)}")
    if blocks is not None and grid_ is None:
        raise ValueError("--blocks says in which order a --grid is generated, and no --grid came")
    if grid_ is not None:
        sizes = read_sizes(grid_, "--grid", "8x8 or 8x8x3", (2, 3))
        cut = read_sizes(blocks, "--blocks", "4x4", (2,)) if blocks else None
        refuse_too_many(math.prod(sizes))
        return grid(*sizes, blocks=(cut[0], cut[1]) if cut else None)
    if graph_ is not None:
        edges = edges_of(graph_)
        return graph(edges, 1 + max(max(edge) for edge in edges))
    length = 16 if line_ is None else line_
    if length < 1:
        raise ValueError(f"a line has 1 token or more, got --line {length}")
    refuse_too_many(length)
    return line(length)


def refuse_too_many(tokens: int) -> None:
    """Refuse more tokens than a drawing holds, before their places are made."""
    from manyheads.inspect.drawing import MOST

    if tokens > MOST:
        raise ValueError(f"a drawing holds {MOST} tokens at most, got {tokens}")


def read_sizes(text: str, option: str, example: str, counts: tuple[int, ...]) -> list[int]:
    """ "8x8" -> [8, 8]"""
    parts = text.strip().lower().split("x")
    if len(parts) not in counts or not all(part.isdecimal() for part in parts):
        raise ValueError(f"{option} reads like {example}, got {text!r}")
    return [int(part) for part in parts]


def edges_of(text: str) -> list[tuple[int, int]]:
    """ "0-1,1-2" -> [(0, 1), (1, 2)]"""
    edges = [re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", part) for part in text.split(",")]
    if not all(edges):
        raise ValueError(f"--graph reads like 0-1,1-2,2-3, got {text!r}")
    pairs = [(int(edge[1]), int(edge[2])) for edge in edges if edge]
    if max(max(pair) for pair in pairs) >= 1024:
        raise ValueError("--graph draws nodes numbered 0 to 1023")
    return pairs


def format_error(error: ValueError | OSError) -> str:
    """Return one sentence; for several mistakes a line each, as editors find them:
    recipe.yaml:4:10: ...
    """
    from manyheads.config import Mistakes

    if isinstance(error, Mistakes) and len(error.lines) > 1:
        return "\n".join([f"{len(error.lines)} mistakes", *error.lines])
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {str(error.filename)!r}"
    return str(error)


def refuse(sentence: str) -> NoReturn:
    print(f"manyheads: {sentence}", file=sys.stderr)
    raise SystemExit(2) from None


def main() -> None:
    """Report a user's mistake as one sentence with exit code 2; --debug shows the traceback."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):  # a terminal without these characters shows others
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    debug = len(arguments) < len(sys.argv) - 1
    try:
        app(arguments)
    except (ValueError, OSError) as error:
        if debug:
            raise
        refuse(format_error(error))
    except RuntimeError as error:
        from torch import OutOfMemoryError  # not at the top: torch takes seconds to load

        if debug or not isinstance(error, OutOfMemoryError):
            raise
        refuse(FULL)
