"""The command lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def lab(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Experiments to run, or all; without any, print the list."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results, with a subfolder for each experiment.")
    ] = Path("lab"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds to run.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run in seconds, only to see that it works.")
    ] = False,
) -> None:
    """Test what lectures on Transformers claim: small experiments, minutes each on a CPU.

    Example: manyheads lab residuals --out lab

    Then: manyheads lab all --quick, to see in seconds what they write
    """
    from manyheads.lab.table import EXPERIMENTS, check_experiments

    if not names:
        width = max(map(len, EXPERIMENTS))
        for name, (_, about) in EXPERIMENTS.items():
            print(f"{name:<{width}}  {about}")
        return
    asked = check_experiments(names)
    from manyheads.lab.report import run_experiment

    for name in asked:
        run_experiment(name, out, seeds=seeds, seed=seed, quick=quick)
