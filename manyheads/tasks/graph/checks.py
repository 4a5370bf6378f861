"""Check that node numbers and the other graphs of a batch do not change the result.

B graphs, T nodes, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.patterns import Segments
from manyheads.tasks.graph.batches import GraphBatches
from manyheads.tasks.graph.network import GraphBatch, GraphNetwork
from manyheads.tasks.graph.schema import Array, EncodedGraph

Difference = tuple[str, float]


@torch.no_grad()
def compare_ways(network: GraphNetwork, batches: GraphBatches) -> Iterator[Difference]:
    """Yield the largest difference between ways to compute the same states of these graphs."""
    network.eval()
    some, device = [*range(len(batches.graphs))], next(network.parameters()).device
    together = network.states(batches.lay_out(some).to(device))
    alone = [network.states(batches.lay_out([i]).to(device))[0] for i in some]
    yield "batch of 1 = batch of N", largest_difference(together, alone)
    order = [np.random.default_rng(i).permutation(len(batches.graphs[i])) for i in some]
    turned = [renumber(g, to) for g, to in zip(batches.graphs, order, strict=True)]
    said = network.states(batches.of(turned).lay_out(some).to(device))
    back = [said[i, torch.from_numpy(to)] for i, to in enumerate(order)]
    yield "renumbered = as it was", largest_difference(together, back)
    if not batches.hub:  # packing has no hub for each graph
        packed = network.states(pack(batches).to(device))[0]
        yield (
            "packed = padded",
            largest_difference(together, packed.split([len(g) for g in batches.graphs])),
        )


def largest_difference(together: Tensor, each: Sequence[Tensor]) -> float:
    pairs = zip(together, each, strict=True)
    return max(float((row[: len(one)] - one).abs().max()) for row, one in pairs)


def renumber(graph: EncodedGraph, to: Array) -> EncodedGraph:
    """Renumber the nodes: node i becomes to[i]."""
    back, words, edges = np.argsort(to), graph.words.copy(), graph.edges.copy()
    words[:, 0], edges[:, :2] = to[words[:, 0]], to[edges[:, :2]]
    nodes = {"nodes": graph.nodes[back], "numbers": graph.numbers[back]}
    return replace(graph, **nodes, words=words[np.argsort(words[:, 0])], edges=edges)


def pack(batches: GraphBatches) -> GraphBatch:
    """Pack all graphs into one row; a mask keeps them apart."""
    sizes = [len(one) for one in batches.graphs]
    begins = np.cumsum([0, *sizes[:-1]])
    shifted = [
        (one.words + np.array([begin, 0]), one.edges + np.array([begin, begin, 0]))
        for one, begin in zip(batches.graphs, begins, strict=True)
    ]
    words, edges = (np.concatenate(parts) for parts in zip(*shifted, strict=True))
    nodes, numbers = (
        np.concatenate([getattr(one, name) for one in batches.graphs])
        for name in ("nodes", "numbers")
    )
    joined = EncodedGraph(nodes, numbers, words, edges, batches.graphs[0].wanted)
    laid = batches.of([joined]).lay_out([0])
    return laid._replace(seen=Segments.of([sizes], sum(sizes)))
