"""A transformer over graphs: attention between nodes, with relations by hops and edge labels.

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

DEGREES = 32  # number of degrees with a vector of their own
PADDING, HUB = -1, -2  # instead of a degree: padding, and the node that stands for its graph


class GraphBatch(NamedTuple):
    """A padded batch of graphs."""

    nodes: Tensor  # (B, T, F)
    numbers: Tensor  # (B, T, N)
    words: Tensor  # (W, 2): the node, counted over all rows of the batch, and the word
    degrees: Tensor  # (B, T), PADDING or HUB for what is no node of a graph
    at: Graph
    seen: Pattern
    wanted: Tensor  # (B, K) or (B, T)

    def to(self, device: torch.device | str) -> GraphBatch:
        parts: Any = (part.to(device) for part in self)
        return GraphBatch(*parts)


class NodeEmbedding(nn.Module):
    """Embeds a node as the sum of its columns and its degree; with columns of words, without the
    degree, which would be too strong beside the words."""

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
        """Return the embeddings (B, T, D)."""
        parts = [table(batch.nodes[..., i]) for i, table in enumerate(self.columns)]
        if self.degree is not None:
            parts.append(self.degree(batch.degrees.clamp(0, DEGREES - 1)))
        if self.numbers is not None:
            parts.append(self.numbers(batch.numbers))
        if self.words is not None:
            parts.append(self.add_words(batch, dropout))
        return torch.where((batch.degrees == HUB)[..., None], self.hub, sum_tensors(parts))

    def add_words(self, batch: GraphBatch, dropout: float) -> Tensor:
        """Return the mean vector of the words of each node; in training, some words are dropped."""
        assert self.words is not None
        (rows, width), (nodes, words) = batch.degrees.shape, batch.words.T.contiguous()
        one = torch.ones_like(nodes)
        counts = one.new_zeros(rows * width).index_add(0, nodes, one)
        shares = F.dropout(1 / counts[nodes], dropout, self.training).to(self.words.dtype)
        begins = counts.cumsum(0) - counts
        taken = F.embedding_bag(words, self.words, begins, mode="sum", per_sample_weights=shares)
        return taken.view(rows, width, -1)


class Rounds(nn.Module):
    """Attention without weight matrices: in each round, a node takes a weighted mean of the nodes
    it sees; the result is the mean over all rounds.

    Only the relations give the weights: with few labels, few parameters do not overfit.
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
        """Return a function that mixes values by attention weights, which stay the same."""
        asked = torch.zeros_like(value)
        biases, kinds = self.relative.biases(asked), self.relative.kinds()
        work = Work(pattern, pairs, dtype=value.dtype, channels=value.shape[-1], kinds=kinds)
        kernel = Reference() if Sparse().refuses(work) else Sparse()
        made = plan(kernel, work)
        weights = kernel.weights(asked, asked, made, Dot(), biases)
        weights = F.dropout(weights, self.dropout, self.training)
        return lambda taken: kernel.mix(weights, taken, made)


class GraphNetwork(nn.Module):
    """Nodes attend to nodes and know their relations; one output for each node or for a graph."""

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
        """Return outputs (B, K), or (B, T, K) for a node task."""
        states = self.states(batch)
        if not self.of_nodes:
            states = self.read_out(states, batch.degrees)
        return self.head(F.dropout(states, self.dropout, self.training))

    def states(self, batch: GraphBatch) -> Tensor:
        """Return the states of all nodes (B, T, D)."""
        x = self.embedding(batch, self.dropout)
        if self.training and self.drop_nodes:
            x = x * F.dropout(x.new_ones(*x.shape[:2], 1), self.drop_nodes)
        if not isinstance(self.stack, Rounds):
            return self.stack(x, batch.at, batch.seen)
        # As in GCN: a node with many neighbours gives less to each, and what it gets is scaled up.
        heard = (batch.degrees.clamp(min=0) + 1).sqrt()[..., None].to(x.dtype)
        return heard * self.stack(x / heard, batch.at, batch.seen)

    def read_out(self, states: Tensor, degrees: Tensor) -> Tensor:
        """Pool the states of nodes: (B, T, D) -> (B, D)"""
        counted = degrees == HUB if self.readout == "node" else degrees >= 0
        summed = (states * counted[..., None]).sum(1)
        return summed / counted.sum(1, keepdim=True) if self.readout == "mean" else summed


class SideBySide(nn.Module):
    """An ensemble: networks with different initial weights, trained side by side."""

    def __init__(self, members: Iterable[GraphNetwork]):
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return the outputs of all networks (M, B, K), or (M, B, T, K)."""
        return torch.stack([member(batch) for member in self.members])


def build_relations(recipe: GraphRecipe, schema: Schema) -> Relative | None:
    """Build what attention knows about two nodes: hops, edge labels or both."""
    heads, channels = recipe.network.heads, recipe.network.width // recipe.network.heads
    parts: list[Relative] = []
    if recipe.relations in ("hops", "both"):
        parts.append(RelativeBias(heads, Clipped(recipe.hops)))
    if recipe.relations in ("edges", "both"):
        labels = Edges(len(schema.edges) + 1)
        if recipe.rounds:  # without queries, the embedding of a label would have no effect
            parts.append(RelativeBias(heads, labels))
        else:
            parts.append(RelativeContent(channels, labels, values=True))
    return Together(*parts) if len(parts) > 1 else next(iter(parts), None)
