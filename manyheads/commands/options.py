"""What several commands ask for alike."""

from __future__ import annotations

from typing import Annotated

import typer

BEAM = 5
SEARCH = "Searching for the best"

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
