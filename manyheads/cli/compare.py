"""compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.options import DeviceOption
from manyheads.cli.train import TASKS, Wish, given, stoppable, wanted, watching

KINDS = TASKS[:3]  # text in, text out


def compare(
    what: Annotated[
        str, typer.Argument(metavar="TASK", help=f"{', '.join(KINDS)}.", show_default=False)
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING=VALUE...",
            help="For all of them: training.steps=2000 network.width=256",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the runs: a new one, or one to go on with.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="As in train.")] = None,
    target: Annotated[Path | None, typer.Option(help="As in train.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="As in train.")] = None,
    valid_source: Annotated[Path | None, typer.Option(help="As in train.")] = None,
    valid_target: Annotated[Path | None, typer.Option(help="As in train.")] = None,
    valid_pairs: Annotated[Path | None, typer.Option(help="As in train.")] = None,
    preset: Annotated[str | None, typer.Option(help="tiny, small or base.")] = None,
    length: Annotated[
        int, typer.Option(min=3, help="Tokens of the sequence a layer is measured on.")
    ] = 32,
    device: DeviceOption = None,
) -> None:
    """Train a Transformer, a recurrent and a convolutional network on the same pairs and budget.

    One table: parameters, speed, scores, and what the lecture compares: the path between the first
    and the last token, how many steps must follow each other, and the operations of a layer.

    Each has the settings that `train --network` gives it, a learning rate of its own among them.
    What is given (training.learning_rate=0.001) holds for all.

    Ctrl-C stops after the step it is at; the same command goes on from there.
    """
    from manyheads.comparing import compare as compared
    from manyheads.comparing import table
    from manyheads.modules.build import BUILDERS
    from manyheads.training.distributed import join, leave
    from manyheads.training.run import RECIPE

    if out is None:
        raise ValueError("the runs need a folder: --out runs/compared")
    if what not in KINDS:
        raise ValueError(f"there is no task {what!r}; there are {', '.join(KINDS)}")
    begun = any((out / kind / RECIPE).exists() for kind in BUILDERS)
    if out.exists() and not begun and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is there already and holds no runs; give --out a new folder")
    files = given(
        source=source,
        target=target,
        pairs=pairs,
        valid_source=valid_source,
        valid_target=valid_target,
        valid_pairs=valid_pairs,
    )
    world = join(device)
    wish = Wish(what, settings or [], files, world.device.type, None, preset)
    _, gathered = wanted(wish)
    recipes = [wanted(wish._replace(network=kind), gathered)[0] for kind in BUILDERS]
    if [recipe.network.kind for recipe in recipes] != [*BUILDERS]:
        raise ValueError("all kinds of networks are compared; leave out network.kind")
    with watching(world.first) as watch, stoppable() as asked:
        rows = compared(
            recipes,
            gathered,
            out,
            world,
            watch,
            length=length,
            asked_to_stop=asked,
        )
    leave()
    if world.first and rows:
        (out / "compared.md").write_text(table(rows) + "\n", encoding="utf-8")
        kept = json.dumps([row.row() for row in rows], indent=1)
        (out / "compared.json").write_text(kept + "\n", encoding="utf-8")
        print(table(rows))
    if asked():
        raise typer.Exit(asked.code)
