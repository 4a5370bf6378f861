"""Encoded graphs in a file, and batches of them.

B graphs, T nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.graphs import neighbours
from manyheads.attention.patterns import Lengths, Window
from manyheads.attention.places import Graph, graph
from manyheads.attention.tables import PairTable
from manyheads.data.batches import Padding, PlannedBatches, Row
from manyheads.modules.build import read_patterns
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.graph.network import HUB, PADDING, GraphBatch
from manyheads.tasks.graph.schema import Array, EncodedGraph
from manyheads.tasks.graph.settings import GraphRecipe

NEAR = (Window(0), Window(1))
PARTS = [one.name for one in fields(EncodedGraph)]


def write_graphs(path: Path, graphs: Sequence[EncodedGraph]) -> None:
    """Write each part of all graphs end to end, and its length in each graph."""
    held: dict[str, Any] = {}
    for name in PARTS:
        parts = [getattr(one, name) for one in graphs]
        held[name] = np.concatenate(parts)
        held[f"{name}_counts"] = np.array([len(part) for part in parts])
    with path.open("wb") as file:
        np.savez_compressed(file, **held)


def read_graphs(path: Path) -> list[EncodedGraph]:
    with np.load(path, allow_pickle=False) as held:
        parts = [np.split(held[name], np.cumsum(held[f"{name}_counts"])[:-1]) for name in PARTS]
    return [EncodedGraph(*one) for one in zip(*parts, strict=True)]


class GraphBatches(PlannedBatches):
    """Batches of graphs of similar sizes; a graph counts by the number of its known targets."""

    unit = "targets"

    def __init__(
        self, graphs: Sequence[EncodedGraph], recipe: GraphRecipe, tokens: int, seed: int = 0
    ):
        self.graphs, self.recipe = graphs, recipe
        self.near = sees_neighbours(recipe.network)
        self.hub = int(recipe.readout == "node" and recipe.data.nodes is None)
        lengths = np.array([len(one) + self.hub for one in graphs])
        weights = np.array([np.isfinite(one.wanted).sum() for one in graphs])
        self.joined, self.kept = cache(self.join), lru_cache(1)(self.lay_out)
        room = max(tokens, int(lengths.max()))  # one graph is not cut
        super().__init__(lengths[:, None], weights, Padding(room), seed)

    def of(self, graphs: Sequence[EncodedGraph]) -> GraphBatches:
        """Return batches of other graphs, with the same layout."""
        return GraphBatches(graphs, self.recipe, 1)

    def batch(self, rows: Sequence[Row]) -> GraphBatch:
        """Make a batch; without rows, it is one graph without a target."""
        made = self.kept(tuple(row[0] for row in rows) or (0,))
        return made if rows else made._replace(wanted=torch.full_like(made.wanted, torch.nan))

    def lay_out(self, numbers: Sequence[int]) -> GraphBatch:
        some = [self.graphs[i] for i in numbers]
        sizes = torch.tensor([len(one) for one in some])
        width = int(sizes.max()) + self.hub
        words = [one.words + np.array([i * width, 0]) for i, one in enumerate(some)]
        at, degrees = self.place_edges(some, width) if self.near else self.place(numbers, width)
        beyond = torch.arange(width) - sizes[:, None]  # 0 or more: no node of the graph
        degrees = degrees.masked_fill(beyond >= 0, PADDING)
        return GraphBatch(
            pad_parts([one.nodes for one in some], width),
            pad_parts([one.numbers for one in some], width),
            torch.from_numpy(np.concatenate(words)),
            degrees.masked_fill(beyond == 0, HUB) if self.hub else degrees,
            at,
            Lengths(sizes + self.hub),
            torch.from_numpy(np.stack([one.wanted for one in some])),
        )

    def place(self, numbers: Sequence[int], width: int) -> tuple[Graph, Tensor]:
        """Return the distances of all pairs of nodes, and the degree of each node, (B, T)."""
        hops = torch.full((len(numbers), width, width), self.recipe.hops + 1)
        labels, degrees = torch.zeros_like(hops), torch.zeros_like(hops[:, 0])
        for row, number in enumerate(numbers):
            size = len(self.graphs[number])
            apart, own, degrees[row, :size] = self.joined(number)
            hops[row, :size, :size], labels[row, :size, :size] = apart, own
            if self.hub:
                hops[row, size, :size] = hops[row, :size, size] = 1
                hops[row, size, size] = 0
        return Graph(hops, labels), degrees

    def join(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the distances and edge labels of a graph, (T, T) each, and its degrees."""
        one, steps = self.graphs[number], self.recipe.hops
        labels = torch.zeros(len(one), len(one), dtype=torch.long)
        for i, j, label in one.edges.tolist():
            labels[i, j] = labels[j, i] = label
        pairs = [(int(i), int(j)) for i, j, _ in one.edges]
        hops = graph(pairs, len(one), far=steps + 1).hops
        assert isinstance(hops, Tensor)
        joined = hops[0] == 1
        walks = self.recipe.distance == "walks"
        return walk_distances(joined.float(), steps) if walks else hops[0], labels, joined.sum(1)

    def place_edges(self, some: Sequence[EncodedGraph], width: int) -> tuple[Graph, Tensor]:
        """Return the same as `place` from the edges only, without tables of all pairs."""
        parts = [np.insert(one.edges, 0, row, axis=1) for row, one in enumerate(some)]
        edges = np.concatenate(parts)
        degrees = count_neighbours(neighbours(torch.from_numpy(edges), width, len(some)))
        if self.hub:
            each = [(row, i, len(one), 0) for row, one in enumerate(some) for i in range(len(one))]
            edges = np.concatenate([edges, each])
        return neighbours(torch.from_numpy(edges), width, len(some)), degrees


def count_neighbours(at: Graph) -> Tensor:
    """Return the number of neighbours of each node, (B, T)."""
    assert isinstance(at.hops, PairTable)
    b, q, _ = at.hops.pairs
    rows, width, _ = at.hops.shape
    counts = torch.zeros(rows * width, dtype=torch.long)
    return counts.index_add(0, b * width + q, at.hops.values).view(rows, width)


def walk_distances(joined: Tensor, steps: int) -> Tensor:
    """Return how rarely a random walk of `steps` steps is at another node: 0 for the node itself, 1
    for more than half of the time, and one more each time this share halves; (T, T)
    """
    onward = joined / joined.sum(1, keepdim=True).clamp(min=1)
    at, met = onward, onward.clone()
    for _ in range(steps - 1):
        at = at @ onward
        met += at
    apart = 1 + (-(met / steps).log2()).floor().clamp(0, steps).long()
    return apart.fill_diagonal_(0)


def sees_neighbours(network: TransformerConfig) -> bool:
    """Whether no layer attends beyond neighbours: then the edges are enough."""
    patterns = read_patterns(network)
    return all(any(part in NEAR for part in pattern.parts()) for pattern in patterns)


def pad_parts(parts: Sequence[Array], width: int) -> Tensor:
    """Pad parts (T, F) to a batch (B, T, F)."""
    filled = np.zeros((len(parts), width, parts[0].shape[1]), parts[0].dtype)
    for row, part in enumerate(parts):
        filled[row, : len(part)] = part
    return torch.from_numpy(filled)
