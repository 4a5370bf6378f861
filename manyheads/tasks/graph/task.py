"""Something is said about each graph, or about each node of one.

B graphs, T nodes, K targets.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.metrics.labels import accuracy, macro_f1, pearson, rmse, roc_auc
from manyheads.metrics.measured import Measured
from manyheads.tasks.graph.batches import GraphBatches, read_graphs, write_graphs
from manyheads.tasks.graph.network import GraphBatch, GraphNetwork
from manyheads.tasks.graph.schema import RawGraph, Schema
from manyheads.tasks.graph.settings import GraphRecipe
from manyheads.tasks.graph.sources import LeftOut, parse_smiles, read_molecules, read_nodes
from manyheads.tasks.task import Task, Validation
from manyheads.training.files import write_text
from manyheads.training.run import CORPUS

SCHEMA, NODES = "schema.json", "nodes.json"
SHOWN = 5


@dataclass
class GraphCorpus:
    """Graphs to learn from and to validate on; of one graph both are it, with other targets."""

    train: list[RawGraph]
    valid: list[RawGraph]
    names: list[str] = field(default_factory=list)  # of the nodes of one graph
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def tokens(self) -> int:
        return sum(map(len, self.train))

    @property
    def notes(self) -> list[str]:
        return [str(self.left_out)] if self.left_out.reasons else []

    def __str__(self) -> str:
        if not self.names:
            return f"{len(self.train):,} graphs to learn from, {len(self.valid):,} to validate on"
        train, valid = (sum(map(bool, some[0].targets)) for some in (self.train, self.valid))
        return f"{len(self.names):,} nodes: {train:,} to learn from, {valid:,} to validate on"


class GraphTask(Task):
    """A task of this kind with what its graphs are made of."""

    Recipe = GraphRecipe

    def __init__(self, recipe: GraphRecipe, schema: Schema, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.schema, self.of_nodes = schema, recipe.data.nodes is not None

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: GraphRecipe) -> GraphCorpus:
        data = recipe.data
        if not data.target:
            raise ValueError("which column is to be learned? --target solubility would say it")
        if data.nodes is not None:
            return gather_nodes(recipe)
        left_out, columns = LeftOut(), (data.smiles, data.target)
        train = read_molecules(Path(data.molecules or ""), *columns, left_out)
        if data.valid_molecules is not None:
            valid = read_molecules(data.valid_molecules, *columns, left_out)
        else:
            train, valid = split_graphs(train, data.held_out, recipe.training.seed)
        known = {one.name for one in valid}
        for one in train:
            if one.name in known:
                left_out.add("also among those to validate on", one.name)
        return GraphCorpus([g for g in train if g.name not in known], valid, [], left_out)

    @classmethod
    def settle(cls, recipe: GraphRecipe, corpus: GraphCorpus) -> GraphRecipe:
        goal = Schema.learn(corpus.train, recipe.data.target, recipe.goal).goal
        return replace(recipe, goal=goal)

    @classmethod
    def prepare(cls, corpus: GraphCorpus, recipe: GraphRecipe, folder: Path) -> None:
        schema = Schema.learn(corpus.train, recipe.data.target, recipe.goal)
        schema.save(folder / SCHEMA)
        (folder / "data").mkdir(exist_ok=True)
        for split, graphs in (("train", corpus.train), ("valid", corpus.valid)):
            write_graphs(folder / "data" / f"{split}.npz", [schema.encode(g) for g in graphs])
        if corpus.names:
            write_text(folder / NODES, json.dumps(corpus.names, ensure_ascii=False) + "\n")
        write_text(folder / CORPUS, "\n".join([str(corpus), *corpus.notes]) + "\n")

    @classmethod
    def open(cls, recipe: GraphRecipe, folder: Path) -> Self:
        return cls(recipe, Schema.load(folder / SCHEMA), folder)

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> GraphNetwork:
        return GraphNetwork(self.recipe, self.schema, self.of_nodes)

    def batches(self, split: str = "train") -> GraphBatches:
        graphs, training = (
            read_graphs(self.held_in() / "data" / f"{split}.npz"),
            self.recipe.training,
        )
        return GraphBatches(graphs, self.recipe.hops, training.tokens_per_batch, training.seed)

    def loss(self, network: GraphNetwork, batch: GraphBatch) -> dict[str, Tensor]:
        """Of all that has a target."""
        known = batch.wanted.isfinite()
        said = network(batch).float()
        if self.schema.goal == "classes":
            wanted = torch.where(known, batch.wanted, 0).long()
            each = F.cross_entropy(said.flatten(0, -2), wanted.flatten(), reduction="none")
            return {"loss": (each * known.flatten()).sum()}
        said = said[..., 0] if self.of_nodes else said
        wanted = torch.where(known, batch.wanted, said.detach())
        if self.schema.goal == "numbers":
            return {"loss": F.mse_loss(said, wanted, reduction="sum")}
        wanted = torch.where(known, batch.wanted, 0.0)
        each = F.binary_cross_entropy_with_logits(said, wanted, reduction="none")
        return {"loss": (each * known).sum()}

    # ---- from a model to what it says ----------------------------------------------------------

    @torch.no_grad()
    def answer(self, network: GraphNetwork, batches: GraphBatches) -> list[Tensor]:
        """Of each graph what is said: numbers as they are, or scores."""
        network.eval()
        device = next(network.parameters()).device
        found: dict[int, Tensor] = {}
        for rows in batches.epoch(0):
            said = network(batches.batch(rows).to(device)).float().cpu()
            found |= {row[0]: one for row, one in zip(rows, said, strict=True)}
        answers = [found[i] for i in range(len(batches.graphs))]
        if self.schema.goal != "numbers":
            return answers
        mean, spread = torch.tensor(self.schema.scales).T
        return [one * spread + mean for one in answers]

    def validate(self, network: GraphNetwork) -> Validation:
        batches = self.held_out
        answers = self.answer(network, batches)
        wanted = [torch.from_numpy(one.wanted) for one in batches.graphs]
        measured = self.measure(answers, wanted)
        scores = {name: round(one.value, 4) for name, one in measured.items()}
        if self.schema.goal == "numbers":  # what counts first is more where it is better
            scores = {"pearson": scores.pop("pearson"), **scores}
        scores["loss"] = self.mean_loss(network, batches)
        return Validation(scores, [])

    @cached_property
    def held_out(self) -> GraphBatches:
        return self.batches("valid")

    def measure(self, answers: Sequence[Tensor], wanted: Sequence[Tensor]) -> dict[str, Measured]:
        """Over all that is known, target by target where there are several."""
        said, true = torch.stack([*answers]), torch.stack([*wanted])
        known = true.isfinite()
        if self.schema.goal == "classes":
            likeliest = said.argmax(-1)[known].tolist()
            right = true[known].long().tolist()
            names = self.schema.classes
            both = [names[i] for i in likeliest], [names[i] for i in right]
            return {"accuracy": accuracy(*both), "f1": macro_f1(*both)}
        if self.schema.goal == "numbers":
            mean, spread = torch.tensor(self.schema.scales).T
            true = true * spread + mean
            both = said[known].tolist(), true[known].tolist()
            return {"rmse": rmse(*both), "pearson": pearson(*both)}
        return {"auc": roc_auc(said[known].tolist(), true[known].tolist())}

    def encode(self, graphs: Sequence[RawGraph]) -> GraphBatches:
        empty = [""] * len(self.schema.targets)
        encoded = [
            self.schema.encode(g if g.targets else replace(g, targets=empty)) for g in graphs
        ]
        return GraphBatches(encoded, self.recipe.hops, self.at_once)

    def predict(self, network: GraphNetwork, lines: Sequence[str]) -> list[str]:
        """Of molecules as SMILES, or of nodes by their names."""
        if self.of_nodes:
            return self.predict_nodes(network, lines)
        answers = self.answer(network, self.encode([parse_smiles(line) for line in lines]))
        return ["\t".join(self.format(value) for value in one.tolist()) for one in answers]

    def predict_nodes(self, network: GraphNetwork, names: Sequence[str]) -> list[str]:
        held = json.loads((self.held_in() / NODES).read_text(encoding="utf-8"))
        number = {name: i for i, name in enumerate(held)}
        if wrong := next((name for name in names if name not in number), None):
            raise ValueError(f"there is no node {wrong!r} in the graph that was learned from")
        (said,) = self.answer(network, self.held_out)
        return [self.schema.classes[int(said[number[name]].argmax())] for name in names]

    def format(self, value: float) -> str:
        return f"{value:.4f}" if self.schema.goal == "numbers" else f"{sigmoid(value):.4f}"

    def evaluate(self, network: GraphNetwork, path: Path) -> dict[str, float]:
        if self.of_nodes:
            raise ValueError(
                "nodes are evaluated by the column of their split, while it is trained"
            )
        data, left_out = self.recipe.data, LeftOut()
        batches = self.encode(read_molecules(path, data.smiles, data.target, left_out))
        wanted = [torch.from_numpy(one.wanted) for one in batches.graphs]
        measured = self.measure(self.answer(network, batches), wanted)
        return {name: one.value for name, one in measured.items()}


def gather_nodes(recipe: GraphRecipe) -> GraphCorpus:
    data = recipe.data
    whole, names = read_nodes(Path(data.nodes or ""), Path(data.edges or ""), data.target[0])
    split = whole.columns.pop(data.split, None)
    if split is None:
        labelled = [i for i, label in enumerate(whole.targets) if label]
        some = set(
            random.Random(recipe.training.seed).sample(
                labelled, max(1, round(data.held_out * len(labelled)))
            )
        )
        split = ["valid" if i in some else "train" for i in range(len(names))]
    train, valid = (
        replace(
            whole, targets=[t if s in of else "" for t, s in zip(whole.targets, split, strict=True)]
        )
        for of in (("train",), ("valid", "val"))
    )
    return GraphCorpus([train], [valid], names)


def split_graphs(
    graphs: list[RawGraph], share: float, seed: int
) -> tuple[list[RawGraph], list[RawGraph]]:
    order = [*range(len(graphs))]
    random.Random(seed).shuffle(order)
    few = set(order[: max(1, round(share * len(graphs)))])
    kept = [one for i, one in enumerate(graphs) if i not in few]
    if not kept:
        raise ValueError("one molecule is too few: some are to learn from, some to validate on")
    return kept, [graphs[i] for i in sorted(few)]


def sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))
