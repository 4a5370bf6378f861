"""The commands of a graph model, and their options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from manyheads.config.declare import setting
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import ExamplesOptions, InspectOptions, PredictOptions, refuse_unwritable


@dataclass(frozen=True)
class PredictGraphOptions(PredictOptions):
    """Predict numbers or classes for molecules, graphs, or nodes of the training graph.

    Example: manyheads predict --model runs/esol CCO "c1ccccc1"
    """


@dataclass(frozen=True)
class LookGraphOptions(Options):
    """Draw a graph with the attention of its nodes.

    Example: manyheads look --model runs/esol "CCO" --out molecule.png
    """

    graph: tuple[str, ...] = setting(
        (), "A molecule as SMILES, or a graph as JSON.", argument="GRAPH"
    )
    layer: int | None = setting(None, "The layer, counted from 0.", instead="all of them")
    head: int | None = setting(None, "The head, counted from 0.", instead="all of them")
    out: Path | None = setting(None, "Write a picture to this .png file.")

    def __post_init__(self) -> None:
        if len(self.graph) != 1:
            raise ValueError(
                f'one graph is looked at, such as "CCO", got {len(self.graph) or "none"}'
            )
        if self.out is not None:
            refuse_unwritable("--out", self.out, ".png")


@dataclass(frozen=True)
class InspectGraphOptions(InspectOptions):
    """Show what every node of a molecule or a graph attends to, as a page in one file, or live.

    Example: manyheads inspect --model runs/esol "CCO" --out page.html
    """

    text: str | None = setting(None, "A molecule as SMILES, or a graph as JSON.", argument="GRAPH")
    page_of: ClassVar[str] = 'a molecule or a graph: manyheads inspect --model runs/esol "CCO"'


COMMANDS = "manyheads.tasks.graph.commands"
VERBS = {
    "predict": Verb(PredictGraphOptions, f"{COMMANDS}:predict_graphs"),
    "evaluate": Verb(ExamplesOptions, f"{COMMANDS}:evaluate_graphs"),
    "inspect": Verb(InspectGraphOptions, "manyheads.cli.inspect:inspect_text"),
    "look": Verb(LookGraphOptions, f"{COMMANDS}:look"),
}
