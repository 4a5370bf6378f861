"""Graphs stored as lists of edges: memory and time grow with the edges, not with all pairs.

B graphs, T nodes, E edges.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.places import Graph
from manyheads.attention.tables import PairTable

FAR = 2  # hops between two nodes that are not neighbours: 2 or more


def neighbours(edges: Tensor, nodes: int, graphs: int = 1) -> Graph:
    """Build graphs from rows (graph, node, node, label), (E, 4); each row is an edge in both ways.

    If an edge is given twice, the last label counts. A pair without an edge, also a node and
    itself, has label 0.
    """
    check_edges(edges, nodes, graphs)
    graph, one, other, label = edges.T
    own = torch.arange(graphs * nodes, device=edges.device)
    both = torch.stack([one, other]), torch.stack([other, one])
    there = (graph * nodes + both[0]) * nodes + both[1]  # (2, E)
    places = torch.cat([own * nodes + own % nodes, there.T.flatten()])
    told = torch.cat([torch.zeros_like(own), label.repeat_interleave(2)])
    labels = PairTable.of(places, told, (graphs, nodes, nodes), 0)
    _, q, k = labels.pairs
    return Graph(replace(labels, values=(q != k).long(), other=FAR), labels)


def check_edges(edges: Tensor, nodes: int, graphs: int) -> None:
    """Refuse what is no rows of edges between nodes that there are."""
    if edges.dim() != 2 or edges.shape[1] != 4 or edges.is_floating_point():
        raise ValueError(
            "neighbours takes whole numbers in rows of (graph, node, node, label), "
            f"{tuple(edges.shape)} of {edges.dtype} arrived"
        )
    if not edges.is_cpu:  # do not wait for a GPU
        return
    limits = torch.tensor([graphs, nodes, nodes])
    wrong = ((edges[:, :3] < 0) | (edges[:, :3] >= limits)).any(1)
    if bool(wrong.any()):
        graph, one, other = edges[wrong][0, :3].tolist()
        raise ValueError(
            f"edge {one}-{other} of graph {graph} is outside of {graphs} graphs with nodes "
            f"0..{nodes - 1}"
        )
