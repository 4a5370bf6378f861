"""Geometries x patterns x positions: what every kernel must agree on.

B 2 sequences, H 4 heads, T 36 tokens, C 8 channels.
"""

import torch

from manyheads import (
    Blocks,
    Bucketed,
    Causal,
    Clipped,
    Edges,
    Every,
    Everything,
    Graph,
    Lengths,
    Pairs,
    Prefix,
    RelativeBias,
    RelativeContent,
    Rotary,
    Segments,
    Together,
    Window,
    grid,
    line,
)
from manyheads.attention.graphs import neighbours
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Grid, Places
from manyheads.attention.positions import Relative

B, H, T, C = 2, 4, 36, 8


def random_graph(batch: int = B, nodes: int = T) -> Graph:
    """Symmetric distances and labels; a node is at distance 0 from itself."""
    hops, edges = torch.randint(1, 6, (2, batch, nodes, nodes))
    hops = torch.minimum(hops, hops.mT)
    hops.diagonal(dim1=1, dim2=2).zero_()
    return Graph(hops, edges)


def random_edges(batch: int = B, nodes: int = T) -> Graph:
    """Labelled edges, some of them loops and some told twice."""
    count = 3 * batch * nodes
    ends = [torch.randint(most, (count,)) for most in (batch, nodes, nodes, 6)]
    return neighbours(torch.stack(ends, 1), nodes, batch)


GEOMETRIES: dict[str, Places] = {
    "line": line(T),
    "late line": line(T, start=7),
    "line out of order": Grid(torch.randperm(T), (torch.randperm(T),), (T,)),
    "each its own time": Grid(torch.arange(T), (torch.randint(T, (B, T)),), (T,), 0),
    "image": grid(6, 6),
    "image with channels": grid(3, 4, channels=3),
    "image by blocks": grid(6, 6, blocks=(3, 2)),
    "graph": random_graph(),
    "graph by its edges": random_edges(),
}

PATTERNS: dict[str, Pattern] = {
    "everything": Everything(),
    "causal": Causal(),
    "window": Window(2),
    "window of rows": Window((2,)),
    "causal window": Causal() & Window(2),
    "blocks": Blocks(8, 4),
    "causal blocks": Causal() & Blocks(8, 4),
    "square blocks": Causal() & Blocks((3, 3), (1, 2)),
    "prefix": Prefix(5),
    "prefixes": Prefix(torch.tensor([5, 0])),
    "union": Window(1) | Prefix(3),
    "complement": ~Window(2),
    "neighbours": Window(1),
    "neighbours in lengths": Window(1) & Lengths(torch.tensor([T, 17])),
    "neighbours but oneself": Window(1) & ~Window(0),
    "lengths": Lengths(torch.tensor([T, 17])),
    "an empty sequence": Lengths(torch.tensor([T, 0])),
    "causal lengths": Causal() & Lengths(torch.tensor([20, T])),
    "packed": Segments.of([[10, 5, 18], [36]], T),
    "causal packed": Causal() & Segments.of([[10, 5, 18], [1, 34]], T),
    "causal packed window": Causal() & Window(3) & Segments.of([[10, 5, 18], [1, 34]], T),
}


def relatives(axes: int) -> dict[str, Relative]:
    return {
        "none": Relative(),
        "rotary": Rotary(),
        "bias": RelativeBias(H, Clipped(3), axes=axes),
        "bucketed bias": RelativeBias(H, Bucketed(8, 16), axes=axes),
        "bias by edge": RelativeBias(H, Edges(6)),
        "shaw": RelativeContent(C, Clipped(3), values=True, axes=axes),
        "music": RelativeContent(C, Every(64), heads=H, axes=axes),
        "content by edge": RelativeContent(C, Edges(6)),
        "rotary and bias": Together(Rotary(), RelativeBias(H, Clipped(3), axes=axes)),
    }


RELATIVES = tuple(relatives(1))


def relative_for(name: str, places: Places) -> Relative:
    return relatives(len(places.axes) or 1)[name]


def fits(places: Places, relative: str) -> bool:
    """A node has no coordinates to turn by; a line has no edges."""
    on_graph = isinstance(places, Graph)
    return not ("rotary" in relative and on_graph) and not ("edge" in relative and not on_graph)


# Geometry and pattern by name, where the pattern means something there.
MEANINGFUL = [
    (geometry, name)
    for geometry, places in GEOMETRIES.items()
    for name, pattern in PATTERNS.items()
    if not pattern.refuses(Pairs(B, H, places, places))
]
