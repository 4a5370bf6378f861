"""Graphs as numbers in a file, and batches of them.

B graphs, T nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.patterns import Lengths
from manyheads.attention.places import Graph, graph
from manyheads.data.batches import Padding, PlannedBatches, Row
from manyheads.tasks.graph.network import GraphBatch
from manyheads.tasks.graph.schema import Array, EncodedGraph

PARTS = [one.name for one in fields(EncodedGraph)]


def write_graphs(path: Path, graphs: Sequence[EncodedGraph]) -> None:
    """Each part of all graphs end to end, and how long it is of each."""
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
    """Batches of graphs of like sizes; what counts is what has a target."""

    unit = "targets"

    def __init__(self, graphs: Sequence[EncodedGraph], hops: int, tokens: int, seed: int = 0):
        self.graphs, self.hops = graphs, hops
        lengths = np.array([len(one) for one in graphs])
        weights = np.array([np.isfinite(one.wanted).sum() for one in graphs])
        self.joined = cache(self.join)
        room = max(tokens, int(lengths.max()))  # one graph is not cut
        super().__init__(lengths[:, None], weights, Padding(room), seed)

    def batch(self, rows: Sequence[Row]) -> GraphBatch:
        return self.lay_out([row[0] for row in rows])

    def join(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of a graph its hops and its edges' labels, (T, T), and its nodes' degrees."""
        one = self.graphs[number]
        pairs = [(int(i), int(j)) for i, j, _ in one.edges]
        hops = graph(pairs, len(one), far=self.hops + 1).hops[0]
        labels = torch.zeros(len(one), len(one), dtype=torch.long)
        for i, j, label in one.edges.tolist():
            labels[i, j] = labels[j, i] = label
        return hops, labels, (hops == 1).sum(1)

    def lay_out(self, numbers: Sequence[int]) -> GraphBatch:
        some = [self.graphs[i] for i in numbers]
        width = max(map(len, some))
        rows = len(some)
        hops = torch.full((rows, width, width), self.hops + 1)
        labels = torch.zeros(rows, width, width, dtype=torch.long)
        degrees = torch.full((rows, width), -1)
        for row, number in enumerate(numbers):
            size = len(self.graphs[number])
            near, own, degree = self.joined(number)
            hops[row, :size, :size], labels[row, :size, :size] = near, own
            degrees[row, :size] = degree
        words = [one.words + np.array([i * width, 0]) for i, one in enumerate(some)]
        return GraphBatch(
            fill([one.nodes for one in some], width),
            fill([one.numbers for one in some], width),
            torch.from_numpy(np.concatenate(words)),
            degrees,
            Graph(hops, labels),
            Lengths(torch.tensor([len(one) for one in some])),
            torch.from_numpy(np.stack([one.wanted for one in some])),
        )


def fill(parts: Sequence[Array], width: int) -> Tensor:
    """(T, F) each -> (B, T, F)"""
    filled = np.zeros((len(parts), width, parts[0].shape[1]), parts[0].dtype)
    for row, part in enumerate(parts):
        filled[row, : len(part)] = part
    return torch.from_numpy(filled)
