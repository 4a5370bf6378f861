"""Graphs as JSON, one per line, and graphs from other libraries.

{"nodes": {"atom": ["C", "C", "O"]}, "edges": [[0, 1, "single"], [1, 2]], "targets": {"y": 1.5}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from manyheads.data.sources import read_records
from manyheads.tasks.graph.schema import RawGraph
from manyheads.tasks.graph.sources import parse_smiles, read_cell, refuse_two_labels
from manyheads.training.files import write_text

FIELDS = ("nodes", "edges", "targets", "name")


def read_graph_file(path: Path, targets: Sequence[str]) -> list[RawGraph]:
    found: list[RawGraph] = []
    for number, record in read_records(path):
        try:
            one = graph_of(record, targets)
            if found:
                refuse_other_columns(one, found[0])
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        found.append(one)
    if not found:
        raise ValueError(f"{path} has no graphs")
    return found


def refuse_other_columns(one: RawGraph, first: RawGraph) -> None:
    """Raise if the nodes have other columns than those of the first graph."""
    if missing := next((name for name in first.columns if name not in one.columns), None):
        raise ValueError(f"nodes have no {missing!r}, and those of the first graph have")
    if more := next((name for name in one.columns if name not in first.columns), None):
        raise ValueError(f"nodes have a {more!r}, and those of the first graph have none")


def parse_graph(line: str | RawGraph) -> RawGraph:
    """Parse a molecule as SMILES, or a graph as JSON."""
    if isinstance(line, RawGraph):
        return line
    if not isinstance(line, str):
        raise ValueError(
            f"a graph is a SMILES, JSON, or what from_networkx or from_pyg make, got {type(line)}"
        )
    if is_smiles(line):
        return parse_smiles(line)
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    return graph_of(record)


def is_smiles(line: str) -> bool:
    return not line.lstrip().startswith("{")


def graph_of(record: Mapping[str, Any], targets: Sequence[str] = ()) -> RawGraph:
    """Make a graph from its JSON record; `targets` are required, and taken in this order."""
    given, known = record.get("nodes"), record.get("targets", {})
    if not isinstance(given, Mapping) or not given:
        raise ValueError('a graph has "nodes", such as {"atom": ["C", "O"]}')
    columns = {name: column_of(name, cells) for name, cells in given.items()}
    counts = {len(cells) for cells in columns.values()}
    if len(counts) > 1 or not max(counts):
        raise ValueError("each column of nodes has a cell for each, and there is one node or more")
    if missing := next((name for name in targets if name not in known), None):
        raise ValueError(f"there is no target {missing!r}; there are {', '.join(known) or 'none'}")
    (size,) = counts
    joined = record.get("edges") or []
    if not isinstance(joined, Sequence) or isinstance(joined, str):
        raise ValueError(f'"edges" is a list such as [[0, 1, "single"]], got {joined!r}')
    edges = [edge_of(edge, size) for edge in joined]
    refuse_two_labels(edges, range(size))
    cells = [read_cell(text_of(known[name])) for name in targets]
    return RawGraph(columns, edges, cells, str(record.get("name", "")))


def column_of(name: str, cells: Any) -> list[str]:
    if isinstance(cells, str | Mapping) or not isinstance(cells, Iterable):
        raise ValueError(f"{name} is a list with a cell for each node, got {cells!r}")
    if wrong := next((one for one in cells if isinstance(one, Mapping)), None):
        raise ValueError(f"a cell of {name} is a number or a text, got {wrong!r}")
    if vector := next(find_vectors(cells), None):
        raise ValueError(
            f"a cell of {name} is one number or a text, got {vector}; a column for each number "
            "would do"
        )
    return [read_cell(text_of(cell)) for cell in cells]


def find_vectors(cells: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield lists of amounts, or of 0 and 1: as words, [0, 1] and [1, 0] would be the same."""
    rows = [row for row in map(as_plain, cells) if isinstance(row, list | tuple) and len(row) > 1]
    numbers = {one for row in rows for one in map(as_plain, row) if isinstance(one, int | float)}
    if any(one % 1 for one in numbers) or (numbers and numbers <= {0, 1}):
        yield from map(list, rows)


def edge_of(edge: Any, size: int) -> tuple[int, int, str]:
    if not isinstance(edge, list | tuple) or len(edge) not in (2, 3):
        raise ValueError(f"an edge is two numbers of nodes and a label if it has one, got {edge!r}")
    for end in edge[:2]:
        if not isinstance(end, int) or not 0 <= end < size:
            raise ValueError(f"there is no node {end!r}: nodes are numbered 0 to {size - 1}")
    return edge[0], edge[1], text_of(edge[2]) if len(edge) == 3 else ""


def text_of(value: Any) -> str:
    """None -> "", 1.5 -> "1.5", ["a", "b"] -> "a b" """
    value = as_plain(value)
    if isinstance(value, list | tuple):
        return " ".join(map(text_of, value))
    if isinstance(value, float) and value != value:
        return ""
    return "" if value is None else str(value).strip()


def as_plain(value: Any) -> Any:
    """Convert a value of NumPy or torch to one of Python."""
    return value.tolist() if hasattr(value, "tolist") else value


def save_graphs(path: str | Path, graphs: Iterable[RawGraph], targets: Sequence[str]) -> None:
    """save_graphs("train.jsonl", [from_networkx(g, ["y"]) for g in graphs], ["y"])"""
    lines = []
    for one in graphs:
        known = dict(zip(targets, one.targets, strict=True))
        parts = one.columns, one.edges, known, one.name
        lines.append(json.dumps(dict(zip(FIELDS, parts, strict=True)), ensure_ascii=False))
    write_text(Path(path), "".join(f"{line}\n" for line in lines))


# ---- from other libraries: any object with these attributes -------------------------------------


def from_networkx(graph: Any, targets: Sequence[str] = (), label: str | None = "label") -> RawGraph:
    """Convert a NetworkX graph: node attributes, the edge attribute `label`, graph targets."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    named = {name for _, _, given in graph.edges(data=True) for name in given}
    if named and label is not None and label not in named:
        raise ValueError(
            f"no edge has a {label!r}; label= names one of {', '.join(sorted(map(str, named)))}, "
            "or None for edges without a label"
        )
    rows = [dict(given) for _, given in graph.nodes(data=True)]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {str(name): [row.get(name) for row in rows] for name in names}
    edges = [(number[a], number[b], given.get(label)) for a, b, given in graph.edges(data=True)]
    known = {name: graph.graph.get(name) for name in targets}
    nodes = columns or {"node": [""] * len(number)}
    return graph_of({"nodes": nodes, "edges": edges, "targets": known}, targets)


def from_pyg(data: Any) -> RawGraph:
    """Convert a PyTorch Geometric graph: `x`, `edge_index`, `edge_attr` and `y`."""
    size = int(data.num_nodes)
    features = getattr(data, "x", None)
    columns = {} if features is None else {f"x{i}": cells for i, cells in enumerate(features.T)}
    labels = getattr(data, "edge_attr", None)
    ends = data.edge_index.T.tolist()
    told = [None] * len(ends) if labels is None else labels.tolist()
    edges = [(i, j, text_of(label)) for (i, j), label in zip(ends, told, strict=True)]
    wanted = [] if getattr(data, "y", None) is None else data.y.flatten().tolist()
    known = {str(i): value for i, value in enumerate(wanted)}
    nodes = columns or {"node": [""] * size}
    return graph_of({"nodes": nodes, "edges": edges, "targets": known}, [*known])
