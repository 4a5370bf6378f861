"""Attention between nodes: an edge's label in the place of a distance.

B graphs, T nodes, D width, F columns, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.biases import sum_tensors
from manyheads.attention.kernels import Work, plan
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.kernels.sparse import Sparse
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Graph, Pairs
from manyheads.attention.positions import Relative, RelativeBias, RelativeContent, Together
from manyheads.attention.rules import Clipped, Edges
from manyheads.attention.scores import Dot
from manyheads.modules.build import read_patterns
from manyheads.modules.config import TransformerConfig
from manyheads.modules.layers import init_normal
from manyheads.modules.stack import Stack
from manyheads.tasks.graph.schema import Schema
from manyheads.tasks.graph.settings import GraphRecipe

DEGREES = 32  # edges of a node that are told apart
PADDING, HUB = -1, -2  # in the place of a degree: no node, and one that stands for its graph


class GraphBatch(NamedTuple):
    """Graphs side by side, short ones filled up."""

    nodes: Tensor  # (B, T, F)
    numbers: Tensor  # (B, T, N)
    words: Tensor  # (W, 2): a node, counted over all rows, one after the other, and a word
    degrees: Tensor  # (B, T), or what is no node of a graph
    at: Graph
    seen: Pattern
    wanted: Tensor  # (B, K) or (B, T)

    def to(self, device: torch.device | str) -> GraphBatch:
        parts: Any = (part.to(device) for part in self)
        return GraphBatch(*parts)


class NodeEmbedding(nn.Module):
    """What a node is: the sum of what each of its columns says, and how many edges it has; beside
    words, of which each has its say, that would be too loud."""

    def __init__(self, schema: Schema, width: int):
        super().__init__()
        sizes = [len(values) + 1 for values in schema.columns.values()]
        words = sum(map(len, schema.words.values()))
        self.columns = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.degree = None if words else nn.Embedding(DEGREES, width)
        self.hub = nn.Parameter(torch.zeros(width))
        self.numbers = nn.Linear(len(schema.numbers), width) if schema.numbers else None
        self.words = nn.Parameter(torch.empty(words, width)) if words else None
        for table in (*self.columns, *([] if self.degree is None else [self.degree])):
            nn.init.normal_(table.weight, std=(len(sizes) + 1) ** -0.5)
        if self.words is not None:
            nn.init.xavier_uniform_(self.words)

    def forward(self, batch: GraphBatch, dropout: float) -> Tensor:
        """(B, T, D)"""
        parts = [table(batch.nodes[..., i]) for i, table in enumerate(self.columns)]
        if self.degree is not None:
            parts.append(self.degree(batch.degrees.clamp(0, DEGREES - 1)))
        if self.numbers is not None:
            parts.append(self.numbers(batch.numbers))
        if self.words is not None:
            parts.append(self.add_words(batch, dropout))
        return torch.where((batch.degrees == HUB)[..., None], self.hub, sum_tensors(parts))

    def add_words(self, batch: GraphBatch, dropout: float) -> Tensor:
        """The mean of the vectors of a node's words; some words are left out while it learns."""
        assert self.words is not None
        (rows, width), (nodes, words) = batch.degrees.shape, batch.words.T.contiguous()
        one = torch.ones_like(nodes)
        counts = one.new_zeros(rows * width).index_add(0, nodes, one)
        shares = F.dropout(1 / counts[nodes], dropout, self.training).to(self.words.dtype)
        begins = counts.cumsum(0) - counts
        taken = F.embedding_bag(words, self.words, begins, mode="sum", per_sample_weights=shares)
        return taken.view(rows, width, -1)


class Rounds(nn.Module):
    """Attention without matrices: each node takes from those it sees, again and again, and ends
    with the mean over all rounds.

    How much, the relations say, and nothing else: few labels leave little to learn by heart.
    """

    def __init__(self, config: TransformerConfig, rounds: int, relative: Relative | None):
        super().__init__()
        self.rounds, self.heads, self.dropout = rounds, config.heads, config.attention_dropout
        self.pattern = read_patterns(config)[0]
        self.relative = relative or Relative()

    def forward(self, x: Tensor, at: Graph, seen: Pattern) -> Tensor:
        value = x.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, H, T, C)
        take = self.attend(value, Pairs(len(x), self.heads, at, at), self.pattern & seen)
        total = value
        for _ in range(self.rounds):
            value = take(value)
            total = total + value
        return F.relu(total.transpose(1, 2).flatten(2) / (self.rounds + 1))

    def attend(self, value: Tensor, pairs: Pairs, pattern: Pattern) -> Callable[[Tensor], Tensor]:
        """From values to what is taken of them, by weights that stay."""
        asked = torch.zeros_like(value)
        biases, kinds = self.relative.biases(asked), self.relative.kinds()
        work = Work(pattern, pairs, dtype=value.dtype, channels=value.shape[-1], kinds=kinds)
        kernel = Reference() if Sparse().refuses(work) else Sparse()
        made = plan(kernel, work)
        weights = kernel.weights(asked, asked, made, Dot(), biases)
        weights = F.dropout(weights, self.dropout, self.training)
        return lambda taken: kernel.mix(weights, taken, made)


class GraphNetwork(nn.Module):
    """Nodes look at nodes, and know how they are joined; then one answer each, or one for all."""

    def __init__(self, recipe: GraphRecipe, schema: Schema, of_nodes: bool):
        super().__init__()
        config = recipe.network
        self.embedding = NodeEmbedding(schema, config.width)
        relative = build_relations(recipe, schema)
        if recipe.rounds:
            self.stack: Rounds | Stack = Rounds(config, recipe.rounds, relative)
        else:
            self.stack = Stack.of(config, read_patterns(config), relative=relative)
        self.dropout, self.head = config.dropout, nn.Linear(config.width, schema.outputs)
        self.of_nodes, self.readout = of_nodes, recipe.readout
        self.drop_nodes = recipe.drop_nodes
        init_normal(self.head)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(B, K), or (B, T, K) where each node has an answer."""
        states = self.states(batch)
        if not self.of_nodes:
            states = self.read_out(states, batch.degrees)
        return self.head(F.dropout(states, self.dropout, self.training))

    def states(self, batch: GraphBatch) -> Tensor:
        """(B, T, D)"""
        x = self.embedding(batch, self.dropout)
        if self.training and self.drop_nodes:
            x = x * F.dropout(x.new_ones(*x.shape[:2], 1), self.drop_nodes)
        if not isinstance(self.stack, Rounds):
            return self.stack(x, batch.at, batch.seen)
        # What has many neighbours says less to each of them, and hears more: as in GCN.
        heard = (batch.degrees.clamp(min=0) + 1).sqrt()[..., None].to(x.dtype)
        return heard * self.stack(x / heard, batch.at, batch.seen)

    def read_out(self, states: Tensor, degrees: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)"""
        counted = degrees == HUB if self.readout == "node" else degrees >= 0
        summed = (states * counted[..., None]).sum(1)
        return summed / counted.sum(1, keepdim=True) if self.readout == "mean" else summed


class SideBySide(nn.Module):
    """Networks that learn the same from different beginnings, and what each of them says."""

    def __init__(self, members: Iterable[GraphNetwork]):
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(M, B, K), or (M, B, T, K)"""
        return torch.stack([member(batch) for member in self.members])


def build_relations(recipe: GraphRecipe, schema: Schema) -> Relative | None:
    """What attention knows of two nodes."""
    heads, channels = recipe.network.heads, recipe.network.width // recipe.network.heads
    parts: list[Relative] = []
    if recipe.relations in ("hops", "both"):
        parts.append(RelativeBias(heads, Clipped(recipe.hops)))
    if recipe.relations in ("edges", "both"):
        labels = Edges(len(schema.edges) + 1)
        if recipe.rounds:  # queries that say nothing meet no embedding of a label
            parts.append(RelativeBias(heads, labels))
        else:
            parts.append(RelativeContent(channels, labels, values=True))
    return Together(*parts) if len(parts) > 1 else next(iter(parts), None)
