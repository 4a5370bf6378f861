"""The experiments by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyheads.tasks.table import find_object

# The class of each, and what it shows.
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "residuals": (
        "manyheads.lab.residuals:Residuals",
        "Residual connections carry the position of a token up the stack.",
    ),
    "scale": (
        "manyheads.lab.scale:Scale",
        "Without division of scores by √d, attention is almost one-hot before training.",
    ),
    "heads": ("manyheads.lab.heads:Heads", "Several heads attend to several things at once."),
    "positions": (
        "manyheads.lab.positions:Positions",
        "Which position encodings work beyond the training length.",
    ),
    "cost": (
        "manyheads.lab.cost:Cost",
        "Attention is cheap while a sequence is shorter than the network is wide.",
    ),
    "bottleneck": (
        "manyheads.lab.bottleneck:Bottleneck",
        "One state cannot hold a long sentence; with attention it need not.",
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
        "A source has several good translations; a model that writes all words at once mixes them.",
    ),
    "symmetry": (
        "manyheads.lab.symmetry:Symmetry",
        "Global attention sees that an image is symmetric, local attention does not.",
    ),
}


def check_experiments(names: Sequence[str]) -> list[str]:
    """Return the given names, each once; `all` means every experiment."""
    for name in names:
        if name not in (*EXPERIMENTS, "all"):
            raise ValueError(
                f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}, and all"
            )
    return list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))


def find_experiment(name: str) -> Any:
    """Return the class of an experiment; this imports torch."""
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return find_object(EXPERIMENTS[name][0])
