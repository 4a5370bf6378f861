"""The graph task: predict targets of graphs, or of the nodes of one graph.

M networks of an ensemble, B graphs, T nodes, K targets.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.data.filters import LeftOut
from manyheads.tasks.graph.batches import GraphBatches, read_graphs, write_graphs
from manyheads.tasks.graph.checks import Difference, compare_ways
from manyheads.tasks.graph.corpus import (
    GraphCorpus,
    gather_graphs,
    gather_nodes,
    keep_targets,
    leave_out,
    read_many,
    refuse_other_splits,
)
from manyheads.tasks.graph.measures import measure_answers, refuse_immeasurable
from manyheads.tasks.graph.model import GraphModel
from manyheads.tasks.graph.network import GraphBatch, GraphNetwork, SideBySide
from manyheads.tasks.graph.records import parse_graph
from manyheads.tasks.graph.schema import RawGraph, Schema
from manyheads.tasks.graph.settings import GraphRecipe
from manyheads.tasks.graph.sources import read_node_rows
from manyheads.tasks.task import Task, Validation
from manyheads.training.files import write_text
from manyheads.training.run import CORPUS

FEW = 32  # graphs for `compare_ways`
SCHEMA, NODES, SEEN = "schema.json", "nodes.json", "seen.json"


class Evaluated(NamedTuple):
    """Scores on a test set, its size, and what was left out."""

    scores: dict[str, float]
    examples: int
    left_out: LeftOut


class GraphTask(Task):
    """The graph task with its schema."""

    Recipe = GraphRecipe

    def __init__(self, recipe: GraphRecipe, schema: Schema, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.schema, self.of_nodes = schema, recipe.data.nodes is not None

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: GraphRecipe) -> GraphCorpus:
        if not recipe.data.target:
            raise ValueError("which column is to be learned? --target solubility would say it")
        return gather_graphs(recipe) if recipe.data.nodes is None else gather_nodes(recipe)

    @classmethod
    def settle(cls, recipe: GraphRecipe, corpus: GraphCorpus) -> GraphRecipe:
        schema = Schema.learn(corpus.train, recipe.data.target, recipe.goal, corpus.valid)
        refuse_immeasurable(schema, [schema.encode(one) for one in corpus.valid])
        return replace(recipe, goal=schema.goal)

    @classmethod
    def prepare(cls, corpus: GraphCorpus, recipe: GraphRecipe, folder: Path) -> None:
        schema = Schema.learn(corpus.train, recipe.data.target, recipe.goal, corpus.valid)
        schema.save(folder / SCHEMA)
        (folder / "data").mkdir(exist_ok=True)
        for split, graphs in (("train", corpus.train), ("valid", corpus.valid)):
            write_graphs(folder / "data" / f"{split}.npz", [schema.encode(g) for g in graphs])
        names = (NODES, corpus.names) if corpus.names else (SEEN, corpus.seen)
        write_text(folder / names[0], json.dumps(names[1], ensure_ascii=False) + "\n")
        write_text(folder / CORPUS, "\n".join([str(corpus), *corpus.notes]) + "\n")

    @classmethod
    def open(cls, recipe: GraphRecipe, folder: Path) -> Self:
        return cls(recipe, Schema.load(folder / SCHEMA), folder)

    def read_names(self, file: str) -> list[str]:
        names: list[str] = json.loads((self.held_in() / file).read_text(encoding="utf-8"))
        return names

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> SideBySide:
        made = (
            GraphNetwork(self.recipe, self.schema, self.of_nodes)
            for _ in range(self.recipe.members)
        )
        return SideBySide(made)

    def batches(self, split: str = "train") -> GraphBatches:
        graphs = read_graphs(self.held_in() / "data" / f"{split}.npz")
        training = self.recipe.training
        return GraphBatches(graphs, self.recipe, training.tokens_per_batch, training.seed)

    def loss(self, network: SideBySide, batch: GraphBatch) -> dict[str, Tensor]:
        """Return the summed loss of all known targets, averaged over the networks."""
        said = network(batch).float()
        if not (network.training and self.recipe.consistency and self.schema.goal == "classes"):
            return {"loss": self.errors(said, batch.wanted).sum() / len(said)}
        said = torch.cat([said, network(batch).float()])
        many = batch.wanted.isfinite().sum()  # the trainer divides losses by this
        return {
            "loss": self.errors(said, batch.wanted).sum() / len(said),
            "consistency": self.recipe.consistency * many * measure_disagreement(said),
        }

    def errors(self, said: Tensor, wanted: Tensor) -> Tensor:
        """Return the loss of each target, 0 if it is not known: (M, ..., K) -> (M, ...)"""
        known = wanted.isfinite()
        wanted = torch.where(known, wanted, 0.0).expand(len(said), *wanted.shape)
        if self.schema.goal == "classes":
            each = F.cross_entropy(
                said.flatten(0, -2),
                wanted.long().flatten(),
                reduction="none",
                label_smoothing=self.recipe.training.label_smoothing,
            ).view(wanted.shape)
        else:
            said = said[..., 0] if self.of_nodes else said
            each = (said - wanted).square()
            if self.schema.goal == "labels":
                each = F.binary_cross_entropy_with_logits(said, wanted, reduction="none")
        return each * known

    def model(self, network: SideBySide, name: str = "") -> GraphModel:
        return GraphModel(self, network, name)

    # ---- from a model to what it says ----------------------------------------------------------

    @torch.no_grad()
    def answer(self, network: SideBySide, batches: GraphBatches) -> list[Tensor]:
        """Return the answer for each graph: unscaled numbers, or probabilities."""
        network.eval()
        device = next(network.parameters()).device
        found: dict[int, Tensor] = {}
        for rows in batches.epoch(0):
            said = self.combine(network(batches.batch(rows).to(device)).float())
            found |= {row[0]: one for row, one in zip(rows, said, strict=True)}
        return [found[i] for i in range(len(batches.graphs))]

    def combine(self, said: Tensor) -> Tensor:
        """Average the outputs of the ensemble into answers on the CPU: (M, ...) -> (...)"""
        said = said.cpu()
        if self.schema.goal == "numbers":
            # In float32, a number above 16 million is no longer told from the next one.
            mean, spread = torch.tensor(self.schema.scales, dtype=torch.float64).T
            return said.mean(0) * spread + mean
        return (said.softmax(-1) if self.schema.goal == "classes" else said.sigmoid()).mean(0)

    def validate(self, network: SideBySide) -> Validation:
        batches = self.held_out
        scores = measure_answers(self.schema, self.answer(network, batches), batches.graphs)
        if self.schema.goal == "numbers":  # the first score must be better when higher
            scores = {"pearson": scores.pop("pearson"), **scores}
        rounded = {name: round(value, 4) for name, value in scores.items()}
        return Validation({**rounded, "loss": self.mean_loss(network, batches)}, [])

    @cached_property
    def held_out(self) -> GraphBatches:
        return self.batches("valid")

    def encode(self, graphs: Sequence[RawGraph]) -> GraphBatches:
        """Encode graphs as batches; warn about values that training never met."""
        unknown = (one for graph in graphs for one in self.schema.find_unknown(graph))
        for sentence in dict.fromkeys(unknown):
            warnings.warn(sentence, stacklevel=2)
        empty = [""] * len(self.schema.targets)
        encoded = [
            self.schema.encode(g if g.targets else replace(g, targets=empty)) for g in graphs
        ]
        return GraphBatches(encoded, self.recipe, self.at_once)

    def predict(self, network: SideBySide, lines: Sequence[str | RawGraph]) -> list[str]:
        """Predict for molecules as SMILES, for graphs as JSON, or for nodes by their names."""
        if self.of_nodes:
            return self.predict_nodes(network, [str(line) for line in lines])
        if not lines:
            return []
        answers = self.answer(network, self.encode([parse_graph(line) for line in lines]))
        return ["\t".join(self.format(one)) for one in answers]

    def predict_nodes(self, network: SideBySide, names: Sequence[str]) -> list[str]:
        for name in names:
            self.check_line(name)
        (said,) = self.answer(network, self.held_out)
        return ["\t".join(self.format(said[self.node_numbers[name]])) for name in names]

    def check_line(self, line: str) -> None:
        """Raise if a line is no graph that the model reads, or no node of its graph."""
        if not self.of_nodes:
            empty = [""] * len(self.schema.targets)
            self.schema.encode(replace(parse_graph(line), targets=empty))
        elif line not in self.node_numbers:
            raise ValueError(f"there is no node {line!r} in the graph that was learned from")

    @cached_property
    def node_numbers(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.read_names(NODES))}

    def format(self, answer: Tensor) -> list[str]:
        if self.schema.goal == "classes":
            return [self.schema.classes[int(answer.argmax())]]
        return [f"{value:.4f}" for value in answer.flatten().tolist()]

    def compare_ways(self, network: SideBySide, lines: Sequence[str]) -> Iterator[Difference]:
        """Compare on the given graphs, or on some of the validation set."""
        given = [self.encode([parse_graph(line) for line in lines])] if lines else []
        batches = given[0] if given else self.held_out.of(self.held_out.graphs[:FEW])
        return compare_ways(cast(GraphNetwork, network.members[0]), batches)

    def evaluate(self, network: SideBySide, path: Path) -> dict[str, float]:
        return self.examine(network, path).scores

    def examine(self, network: SideBySide, path: Path) -> Evaluated:
        """Evaluate on a file like the training file; graphs seen in training are left out."""
        if self.of_nodes:
            return self.examine_nodes(network, path)
        left_out = LeftOut()
        read = read_many(path, self.recipe.data, left_out)
        seen = {*self.read_names(SEEN)}
        batches = self.encode(leave_out(read, seen, "also among those it learned from", left_out))
        scores = measure_answers(self.schema, self.answer(network, batches), batches.graphs)
        return Evaluated(scores, len(batches.graphs), left_out)

    def examine_nodes(self, network: SideBySide, path: Path) -> Evaluated:
        """Evaluate on nodes of the training graph, without those whose labels were used in
        training; with a split column, on those that it marks as test.
        """
        data, names = self.recipe.data, self.read_names(NODES)
        rows = read_node_rows(path, data.target[0])
        key = next(iter(next(iter(rows.values()))))
        if wrong := next((name for name in rows if name not in set(names)), None):
            raise ValueError(f"{path}: there is no node {wrong!r} in the graph it learned from")
        targets = [rows[n][data.target[0]] if n in rows else "" for n in names]
        whole, left_out = RawGraph({key: names}, [], targets), LeftOut()
        if any(data.split in row for row in rows.values()):
            split = [rows.get(n, {}).get(data.split, "") for n in names]
            refuse_other_splits(split, data.split)
            whole = keep_targets(whole, split, "test")
        whole = self.leave_out_learned(whole, left_out)  # the split may be another than learned
        (graph,) = self.held_out.graphs
        tested = replace(graph, wanted=self.schema.encode_targets(whole.targets))
        scores = measure_answers(self.schema, self.answer(network, self.held_out), [tested])
        return Evaluated(scores, sum(map(bool, whole.targets)), left_out)

    def leave_out_learned(self, whole: RawGraph, left_out: LeftOut) -> RawGraph:
        """Remove the targets that were used for training or validation."""
        (train,), (valid,) = self.batches("train").graphs, self.held_out.graphs
        seen = np.isfinite(train.wanted) | np.isfinite(valid.wanted)
        (names,) = whole.columns.values()
        for name, target, known in zip(names, whole.targets, seen, strict=True):
            if target and known:
                left_out.add("also among those it learned from", name)
        both = zip(whole.targets, seen, strict=True)
        left = replace(whole, targets=["" if known else target for target, known in both])
        if any(whole.targets) and not any(left.targets):
            count = sum(map(bool, whole.targets))
            raise ValueError(f"no node is left: all {count} are also among those it learned from")
        return left


def measure_disagreement(said: Tensor) -> Tensor:
    """Return how far answers are from their sharpened mean: (S, ..., K) -> ()"""
    each = said.softmax(-1)
    mean = each.detach().mean(0).square()  # sharpen: likely classes become likelier
    mean = mean / mean.sum(-1, keepdim=True)
    return (each - mean).square().sum(-1).mean()
