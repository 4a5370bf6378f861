"""What is said about a graph, or about its nodes: settings, and good ones for who gives none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.config.declare import check, setting
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.recipe import Preset, Recipe, TrainingPlan
from manyheads.training.config import Training

Relations = Literal["none", "hops", "edges", "both"]
Readout = Literal["mean", "sum"]
Goal = Literal["numbers", "labels", "classes"]


@dataclass(frozen=True)
class GraphData:
    """Where graphs come from: a table of molecules, or one of nodes and one of edges."""

    molecules: Path | None = setting(None, "Molecules, one a line: .csv or .tsv with a head.")
    valid_molecules: Path | None = setting(None, "The same, for validation.")
    smiles: str = setting("smiles", "The column that holds a molecule, as SMILES.")
    nodes: Path | None = setting(None, "Of one graph: its nodes, one a line, first their names.")
    edges: Path | None = setting(None, "Its edges: two names of nodes, and a label if they have.")
    target: tuple[str, ...] = setting((), "The column to learn; of molecules also several.")
    split: str = setting(
        "split", "The column of nodes that says train, valid or test, where there is one."
    )
    held_out: float = setting(
        0.1, "Share to validate on, where no file or column says which.", above=0, below=1
    )

    def __post_init__(self) -> None:
        check(self, self.misfits())

    def misfits(self) -> Iterator[str]:
        if (self.nodes is None) != (self.edges is None):
            yield "nodes and edges are given together"
        if (self.molecules is None) == (self.nodes is None):
            yield "give molecules, or nodes with edges, and not both"
        if self.nodes is not None and len(self.target) > 1:
            yield f"nodes have one target, got {', '.join(self.target)}"


def small_network(width: int, depth: int, heads: int, dropout: float) -> TransformerConfig:
    return TransformerConfig(
        width=width,
        depth=depth,
        heads=heads,
        ffn_width=2 * width,
        feed_forward="gelu",
        position=None,
        dropout=dropout,
    )


PRESETS = {
    "tiny": Preset(
        "For a thousand molecules: minutes on a laptop.",
        small_network(64, 4, 8, 0.1),
        epochs=100,
        batch=1024,
        learning_rate=1e-3,
    ),
    "small": Preset(
        "For thousands of molecules and more.",
        small_network(128, 6, 8, 0.1),
        epochs=150,
        batch=2048,
        learning_rate=1e-3,
    ),
}
# One graph is one batch; few of its nodes have labels.
OF_NODES = Preset(
    "For one graph.",
    replace(small_network(64, 2, 8, 0.6), pattern="Window(1)", ffn_width=64),
    epochs=200,
    batch=1,
    learning_rate=5e-3,
    training={"steps": 200, "tokens_per_batch": 10**6, "weight_decay": 0.3, "ema": 0.0},
)


@dataclass(frozen=True)
class GraphRecipe(Recipe):
    """What to learn, from what, with what."""

    implementation = "manyheads.tasks.graph.task:GraphTask"
    files = ("molecules", "valid_molecules", "smiles", "nodes", "edges", "target")
    example = "--molecules train.csv --target solubility"
    use = "predict"
    presets = PRESETS
    plan = TrainingPlan(
        {"schedule": "cosine", "ema": 0.99, "weight_decay": 0.05},
        warmup=(50, 2000, 10),
        least_between=20,
    )

    task: Literal["graph"] = setting(about="What is learned.")
    data: GraphData = setting(about="Where it is learned from.")
    goal: Goal | None = setting(
        None, "Numbers, yes or no (labels), or one of several (classes); null: as the data has it."
    )
    relations: Relations = setting(
        "both",
        "What attention knows of two nodes: the edges between them on the shortest path (hops), "
        "the label of their own edge (edges), both or none.",
    )
    hops: int = setting(6, "Hops that are told apart; farther ones are alike.", least=1, most=100)
    readout: Readout = setting("mean", "What stands for a graph: the mean or the sum of its nodes.")
    network: TransformerConfig = setting(small_network(64, 4, 8, 0.1), "What learns it.")
    training: Training = setting(Training(), "How long, how fast and on how much at a time.")
    start_from: Path | None = setting(None, "A run: its network and its weights.")

    def __post_init__(self) -> None:
        if self.network.position is not None or self.network.relative is not None:
            raise ValueError(
                "nodes have no place on a line; network.position: null and network.relative: null "
                "would do, and relations says what attention knows of two nodes"
            )

    @classmethod
    def presets_for(cls, data: GraphData) -> Mapping[str, Preset]:
        return PRESETS if data.nodes is None else dict.fromkeys(PRESETS, OF_NODES)

    @classmethod
    def data_of(cls, files: Mapping[str, Any]) -> GraphData:
        return GraphData(**files)
