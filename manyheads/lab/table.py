"""Which experiments there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyheads.tasks.table import find_object

# Each with its class, and with what it shows.
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "residuals": (
        "manyheads.lab.residuals:Residuals",
        "Residual connections carry the position of a token up the stack.",
    ),
    "scale": (
        "manyheads.lab.scale:Scale",
        "Scores are divided by √d, else attention is decided before anything is learned.",
    ),
    "heads": ("manyheads.lab.heads:Heads", "Several heads look for several things at once."),
    "positions": (
        "manyheads.lab.positions:Positions",
        "What is left of a position beyond the lengths that were learned.",
    ),
    "cost": (
        "manyheads.lab.cost:Cost",
        "Attention is cheap while a sequence is shorter than the network is wide.",
    ),
    "bottleneck": (
        "manyheads.lab.bottleneck:Bottleneck",
        "One state does not hold a long sentence; attention need not hold it.",
    ),
    "depth": (
        "manyheads.lab.depth:Depth",
        "Residuals and norms keep gradients alive through many layers.",
    ),
    "weights": (
        "manyheads.lab.weights:Weights",
        "Attention is a layer whose weights depend on the data.",
    ),
    "multimodality": (
        "manyheads.lab.multimodality:Multimodality",
        "A source has several good translations; what writes all words at once mixes them.",
    ),
    "symmetry": (
        "manyheads.lab.symmetry:Symmetry",
        "Global attention sees that an image is symmetric, local attention does not.",
    ),
}


def check_experiments(names: Sequence[str]) -> list[str]:
    """The names that were asked for, each once; `all` stands for every experiment."""
    for name in names:
        if name not in (*EXPERIMENTS, "all"):
            raise ValueError(
                f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}, and all"
            )
    return list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))


def find_experiment(name: str) -> Any:
    """Its class: this loads torch."""
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return find_object(EXPERIMENTS[name][0])
