"""Graph corpora: read graphs, and split them into training and validation."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from manyheads.data.batches import split_off
from manyheads.data.filters import LeftOut
from manyheads.data.sources import kind_of
from manyheads.tasks.graph.records import read_graph_file
from manyheads.tasks.graph.schema import RawGraph
from manyheads.tasks.graph.settings import GraphData, GraphRecipe
from manyheads.tasks.graph.sources import read_molecules, read_nodes

GRAPHS_HELD_OUT, NODES_HELD_OUT = 0.05, 0.1  # default shares
WANTED = {"train": ("train",), "valid": ("valid", "val"), "test": ("test",)}


@dataclass
class GraphCorpus:
    """Graphs for training and validation; for node tasks, the same graph with other targets."""

    train: list[RawGraph]
    valid: list[RawGraph]
    names: list[str] = field(default_factory=list)  # of the nodes, for a node task
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def tokens(self) -> int:
        return sum(map(len, self.train))

    @property
    def notes(self) -> list[str]:
        return [str(self.left_out)] if self.left_out.counts else []

    @property
    def seen(self) -> list[str]:
        """Names of all graphs for training and validation."""
        return sorted({one.name for one in (*self.train, *self.valid) if one.name})

    def __str__(self) -> str:
        if not self.names:
            return f"{len(self.train):,} graphs to learn from, {len(self.valid):,} to validate on"
        train, valid = (sum(map(bool, some[0].targets)) for some in (self.train, self.valid))
        return f"{len(self.names):,} nodes: {train:,} to learn from, {valid:,} to validate on"


def gather_graphs(recipe: GraphRecipe) -> GraphCorpus:
    """Read many graphs; those of the validation set are removed from the training set."""
    data, left_out = recipe.data, LeftOut()
    train = read_many(Path(data.molecules or data.graphs or ""), data, left_out)
    other = data.valid_molecules or data.valid_graphs
    if other is not None:
        valid = read_many(other, data, left_out)
    else:
        train, valid = split_graphs(train, data.held_out or GRAPHS_HELD_OUT, recipe.training.seed)
    known = {one.name for one in valid if one.name}
    kept = leave_out(train, known, "also among those to validate on", left_out)
    return GraphCorpus(kept, valid, [], left_out)


def read_many(path: Path, data: GraphData, left_out: LeftOut) -> list[RawGraph]:
    """Read graphs as JSON, or a table of molecules."""
    if data.graphs is not None or kind_of(path) == ".jsonl":
        return [name_by_content(one) for one in read_graph_file(path, data.target)]
    return read_molecules(path, data.smiles, data.target, left_out)


def name_by_content(one: RawGraph) -> RawGraph:
    """Give a graph without a name one that only exact copies share: "3 nodes, 5f1c9b0e2a7d4c68" """
    told = json.dumps([one.columns, one.edges, one.targets])
    content = f"{len(one)} nodes, {sha256(told.encode()).hexdigest()[:16]}"
    return replace(one, name=one.name or content)


def leave_out(
    graphs: Sequence[RawGraph], known: set[str], reason: str, left_out: LeftOut
) -> list[RawGraph]:
    """Drop graphs with a known name; a molecule has one name for all ways to write it."""
    for one in graphs:
        if one.name in known:
            left_out.add(reason, one.name)
    kept = [one for one in graphs if one.name not in known]
    if not kept:
        raise ValueError(f"no graph is left: all {len(graphs)} are {reason}")
    return kept


def split_graphs(
    graphs: list[RawGraph], share: float, seed: int
) -> tuple[list[RawGraph], list[RawGraph]]:
    """Split off a share of the graphs that have a target."""
    order = [i for i, one in enumerate(graphs) if any(one.targets)] or [*range(len(graphs))]
    random.Random(seed).shuffle(order)
    kept, few = split_off(graphs, set(order[: max(1, round(share * len(order)))]))
    if not kept:
        raise ValueError("one graph is too few: some are to learn from, some to validate on")
    return kept, few


def gather_nodes(recipe: GraphRecipe) -> GraphCorpus:
    """Read one graph; return it twice, with the training labels and the validation labels."""
    data = recipe.data
    whole, names = read_nodes(Path(data.nodes or ""), Path(data.edges or ""), data.target[0])
    split = whole.columns.pop(data.split, None) or draw_split(whole, data, recipe.training.seed)
    refuse_other_splits(split, data.split)
    train, valid = (keep_targets(whole, split, of) for of in ("train", "valid"))
    for some, of in ((train, "learn from"), (valid, "validate on")):
        if not any(some.targets):
            raise ValueError(f"no node with a {data.target[0]} is there to {of}")
    return GraphCorpus([train], [valid], names)


def refuse_other_splits(split: Sequence[str], column: str) -> None:
    known = {"", *(word for words in WANTED.values() for word in words)}
    if wrong := next((word for word in split if word not in known), None):
        raise ValueError(
            f"the column {column!r} says {wrong!r}; train, valid and test, or nothing, would do"
        )


def draw_split(whole: RawGraph, data: GraphData, seed: int) -> list[str]:
    labelled = [i for i, label in enumerate(whole.targets) if label]
    few = max(1, round((data.held_out or NODES_HELD_OUT) * len(labelled)))
    some = set(random.Random(seed).sample(labelled, min(few, len(labelled))))
    return ["valid" if i in some else "train" for i in range(len(whole))]


def keep_targets(whole: RawGraph, split: Sequence[str], of: str) -> RawGraph:
    """Keep only the targets of one split."""
    both = zip(whole.targets, split, strict=True)
    return replace(whole, targets=[t if s in WANTED[of] else "" for t, s in both])
