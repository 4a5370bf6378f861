"""Attention between nodes: an edge's label in the place of a distance.

B graphs, T nodes, D width, F columns, K outputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Graph
from manyheads.attention.relatives import Relative, RelativeBias, RelativeContent, Together
from manyheads.attention.rules import Clipped, Edges
from manyheads.modules.build import read_patterns
from manyheads.modules.checks import mean
from manyheads.modules.init import init_normal
from manyheads.modules.stack import Stack
from manyheads.tasks.graph.schema import Schema
from manyheads.tasks.graph.settings import GraphRecipe

DEGREES = 32  # edges of a node that are told apart


class GraphBatch(NamedTuple):
    """Graphs side by side, short ones filled up."""

    nodes: Tensor  # (B, T, F)
    numbers: Tensor  # (B, T, N)
    words: Tensor  # (W, 2): a node, counted over all rows, and a word
    degrees: Tensor  # (B, T)
    at: Graph
    seen: Pattern
    wanted: Tensor  # (B, K) or (B, T)

    def to(self, device: torch.device | str) -> GraphBatch:
        parts: Any = (part.to(device) for part in self)
        return GraphBatch(*parts)


class NodeEmbedding(nn.Module):
    """What a node is: the sum of what each of its columns says, and how many edges it has."""

    def __init__(self, schema: Schema, width: int):
        super().__init__()
        sizes = [len(values) + 1 for values in schema.columns.values()]
        self.columns = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.degree = nn.Embedding(DEGREES, width)
        self.numbers = nn.Linear(len(schema.numbers), width) if schema.numbers else None
        words = sum(map(len, schema.words.values()))
        self.words = nn.Linear(words, width, bias=False) if words else None
        for table in (*self.columns, self.degree):
            nn.init.normal_(table.weight, std=(len(sizes) + 1) ** -0.5)

    def forward(self, batch: GraphBatch, dropout: float) -> Tensor:
        x = self.degree(batch.degrees.clamp(0, DEGREES - 1))
        for i, table in enumerate(self.columns):
            x = x + table(batch.nodes[..., i])
        if self.numbers is not None:
            x = x + self.numbers(batch.numbers)
        if self.words is not None:
            x = x + self.words(F.dropout(self.bags(batch), dropout, self.training))
        return x  # (B, T, D)

    def bags(self, batch: GraphBatch) -> Tensor:
        """The share of each word among a node's, (B, T, words)."""
        assert self.words is not None
        rows, width = batch.degrees.shape
        bags = torch.zeros(rows * width, self.words.in_features, device=batch.degrees.device)
        bags[batch.words[:, 0], batch.words[:, 1]] = 1.0
        bags = bags / bags.sum(1, keepdim=True).clamp(min=1)
        return bags.view(rows, width, -1)


class GraphNetwork(nn.Module):
    """Nodes look at nodes, and know how they are joined; then one answer each, or one for all."""

    def __init__(self, recipe: GraphRecipe, schema: Schema, of_nodes: bool):
        super().__init__()
        config = recipe.network
        self.embedding = NodeEmbedding(schema, config.width)
        patterns = read_patterns(config)
        relative = build_relations(recipe, schema)
        self.stack = Stack.of(config, patterns, relative=relative)
        self.dropout, self.head = config.dropout, nn.Linear(config.width, schema.outputs)
        self.of_nodes, self.readout = of_nodes, recipe.readout
        init_normal(self.head)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(B, K), or (B, T, K) where each node has an answer."""
        x = self.embedding(batch, self.dropout)
        states = self.stack(x, batch.at, batch.seen)
        if not self.of_nodes:
            states = mean(states, batch.seen, batch.at)
            if self.readout == "sum":
                states = states * batch.degrees.ge(0).sum(1, keepdim=True)
        return self.head(F.dropout(states, self.dropout, self.training))


def build_relations(recipe: GraphRecipe, schema: Schema) -> Relative | None:
    """What attention knows of two nodes."""
    heads, channels = recipe.network.heads, recipe.network.width // recipe.network.heads
    parts: list[Relative] = []
    if recipe.relations in ("hops", "both"):
        parts.append(RelativeBias(heads, Clipped(recipe.hops)))
    if recipe.relations in ("edges", "both"):
        parts.append(RelativeContent(channels, Edges(len(schema.edges) + 1), values=True))
    return Together(*parts) if len(parts) > 1 else next(iter(parts), None)
