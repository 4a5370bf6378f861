"""Small experiments that test claims about Transformers, each in minutes on a CPU."""

from pathlib import Path
from typing import Any


def run(name: str, out: str | Path, **asked: Any) -> dict[str, Any]:
    """Run an experiment as `manyheads lab` does: run("residuals", out="lab", seeds=3, seed=0,
    quick=False); return the contents of lab.json.
    """
    from manyheads.lab.report import run_experiment  # imports torch

    return run_experiment(name, out, **asked)
