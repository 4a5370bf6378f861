"""Small experiments that show what a lecture on Transformers claims, each in minutes on a CPU."""

from pathlib import Path
from typing import Any


def run(name: str, out: str | Path, **asked: Any) -> dict[str, Any]:
    """run("residuals", out="lab", seeds=3, seed=0, quick=False): what `manyheads lab` does; gives
    what it keeps in lab.json.
    """
    from manyheads.lab.report import run_experiment  # loads torch

    return run_experiment(name, out, **asked)
