"""Settings and presets of graph models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from manyheads.config.declare import Settings, setting
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.graph.verbs import VERBS
from manyheads.tasks.recipe import Choice, Preset, Recipe, TrainingPlan
from manyheads.training.config import Training

Relations = Literal["none", "hops", "edges", "both"]
Readout = Literal["mean", "sum", "node"]
Distance = Literal["hops", "walks"]
Goal = Literal["numbers", "labels", "classes"]


@dataclass(frozen=True)
class GraphData(Settings):
    """Where graphs come from: a table of molecules, JSON, or a table of nodes and one of edges."""

    molecules: Path | None = setting(None, "Molecules, one per line: .csv or .tsv with a header.")
    valid_molecules: Path | None = setting(None, "The same, for validation.")
    smiles: str = setting("smiles", "Column of the molecules, as SMILES.")
    graphs: Path | None = setting(None, "Graphs of any kind, as JSON, one per line.")
    valid_graphs: Path | None = setting(None, "The same, for validation.")
    nodes: Path | None = setting(
        None, "Nodes of one graph, one per line; the first column is the name."
    )
    edges: Path | None = setting(
        None, "Edges of that graph: two names of nodes, and a label if edges have labels."
    )
    target: tuple[str, ...] = setting(
        (), "Column of the target; for molecules, can be given several times."
    )
    split: str = setting(
        "split", "Column of the nodes that says train, valid or test, if there is one."
    )
    held_out: float | None = setting(
        None,
        "Share to hold out for validation if no file or column says which; null: a twentieth of "
        "the graphs, a tenth of the nodes.",
        above=0,
        below=1,
    )

    def misfits(self) -> Iterator[str]:
        if (self.nodes is None) != (self.edges is None):
            yield "nodes and edges are given together"
        if sum(one is not None for one in (self.molecules, self.graphs, self.nodes)) != 1:
            yield "give molecules, or graphs, or nodes with edges, and only one of them"
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
        epochs=30,
        batch=1024,
        learning_rate=1e-3,
    ),
    "small": Preset(
        "For thousands of molecules and more: a quarter of an hour on a laptop.",
        # Every other layer sees only bonds, so that it need not find neighbours among all atoms.
        replace(small_network(128, 4, 8, 0.1), pattern=["Window(1)", "Everything()"]),
        epochs=60,
        batch=1024,
        learning_rate=1e-3,
    ),
}
# One graph is one batch; few of its nodes have labels.
OF_NODES = Preset(
    "For one graph.",
    replace(small_network(64, 1, 8, 0.5), pattern="Window(1)"),
    epochs=200,
    batch=1,
    learning_rate=1e-2,
    training={
        "steps": 200,
        "tokens_per_batch": 10**6,
        "warmup_steps": 10,
        "optimizer": "adam",
        "weight_decay": 5e-4,
        "ema": 0.0,
        "validate_every": 5,
        "checkpoint_every": 100,
        "best_by": "score",
    },
)
MANY = 50_000  # from this many atoms on, a wider network is better
MEMBERS = {"tiny": 3}  # trained on few molecules, networks differ: their mean is better
FEW_LABELS: dict[str, Any] = {"rounds": 8, "drop_nodes": 0.5, "consistency": 1.0}


@dataclass(frozen=True)
class GraphRecipe(Recipe):
    """The recipe of a graph model: data, relations, network and training."""

    implementation = "manyheads.tasks.graph.task:GraphTask"
    files = (
        "molecules",
        "valid_molecules",
        "smiles",
        "graphs",
        "valid_graphs",
        "nodes",
        "edges",
        "target",
    )
    example = "--molecules train.csv --target solubility"
    use = "predict"
    verbs = VERBS
    presets = PRESETS
    plan = TrainingPlan(
        {
            "schedule": "cosine",
            "ema": 0.99,
            "weight_decay": 0.05,
            # Small corpora hold out few graphs: too few to choose the best checkpoint by.
            "best_by": "last",
            "precision": "float32",  # networks are small, and numbers must be exact
            "compile": False,
        },
        least_steps=1200,
        warmup=(50, 2000, 10),
        least_between=20,
    )

    task: Literal["graph"] = setting(about="The task.")
    data: GraphData = setting(about="Training data.")
    goal: Goal | None = setting(
        None,
        "Kind of target: numbers, yes or no (labels), or one of several classes; null: found "
        "in the data.",
    )
    relations: Relations = setting(
        "both",
        "What attention knows about two nodes: the length of the shortest path (hops), the label "
        "of their edge (edges), both or none.",
    )
    hops: int = setting(6, "Largest number of hops that is distinguished.", least=1, most=100)
    distance: Distance = setting(
        "hops",
        "Distance of two nodes: the length of the shortest path (hops), or how rarely a random "
        "walk of at most that many hops goes from one to the other (walks).",
    )
    readout: Readout = setting(
        "node",
        "Vector of a graph: the mean or the sum of its nodes, or an extra node that is joined to "
        "all.",
    )
    rounds: int = setting(
        0,
        "Use this many rounds of attention without weight matrices instead of layers, for one "
        "graph with few labels; 0: use layers.",
        least=0,
        most=100,
    )
    drop_nodes: float = setting(
        0.0, "Share of the nodes that are set to zero in each training step.", least=0, below=1
    )
    consistency: float = setting(
        0.0,
        "Weight of the loss term that makes predictions agree whichever nodes are dropped; for "
        "classes only.",
        least=0,
    )
    members: int = setting(
        1,
        "Ensemble: number of networks that are trained side by side and averaged; 3 by default "
        "if molecules are few.",
        least=1,
        most=100,
    )
    network: TransformerConfig = setting(small_network(64, 4, 8, 0.1), "Network.")
    training: Training = setting(Training(), "Training.")
    start_from: Path | None = setting(
        None, "Only null: each run numbers the columns, values and classes of its own files."
    )

    def __post_init__(self) -> None:
        if self.network.position is not None or self.network.relative is not None:
            raise ValueError(
                "nodes have no place on a line; network.position: null and network.relative: null "
                "would do, and relations says what attention knows of two nodes"
            )
        if self.rounds and len(self.network.patterns) > 1:
            raise ValueError(
                f"rounds have one pattern for all, got {', '.join(self.network.patterns)}"
            )
        if self.rounds:  # rounds have no feed-forward layers
            narrow = min(self.network.ffn_width, self.network.width)
            object.__setattr__(self, "network", replace(self.network, ffn_width=narrow))
        if self.distance == "walks" and "Window" in str(self.network.pattern):
            raise ValueError(
                f"{self.network.pattern} counts hops, and distance: walks has none; distance: hops "
                "would do"
            )

    @classmethod
    def choose(cls, task: Any, data: GraphData, tokens: int, choice: Choice = Choice()) -> Self:
        chosen = super().choose(task, data, tokens, choice)
        if data.nodes is not None:
            return replace(chosen, **FEW_LABELS)
        preset = choice.preset or cls.fitting_preset(tokens, choice.device == "cuda")
        return replace(chosen, members=MEMBERS.get(preset, 1))

    @classmethod
    def fitting_preset(cls, tokens: int, cuda: bool) -> str:
        """Choose by the corpus only: a thousand molecules are few on a GPU too."""
        return "small" if tokens >= MANY else "tiny"

    @classmethod
    def presets_for(cls, data: GraphData) -> Mapping[str, Preset]:
        return PRESETS if data.nodes is None else dict.fromkeys(PRESETS, OF_NODES)
