"""What the nodes, edges and targets of graphs are made of, and graphs as numbers by it.

T nodes, E edges, F columns, K targets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.tasks.graph.settings import Goal
from manyheads.training.files import write_text

Array = NDArray[Any]
SEVERAL = 0.5  # the share of a column's cells with several words that makes it one of words


@dataclass(frozen=True)
class RawGraph:
    """A graph as it was read: cells of text."""

    columns: dict[str, list[str]]  # a cell for each node
    edges: list[tuple[int, int, str]]
    targets: list[str]  # of the graph, one for each; or of its nodes; empty: not known
    name: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), self.targets))


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """A graph as numbers."""

    nodes: Array  # (T, F) which value each column has, 0 for one never met
    numbers: Array  # (T, N)
    words: Array  # (W, 2) node and word, node by node
    edges: Array  # (E, 3) two nodes and a label, from 1 up
    wanted: Array  # (K) or (T): NaN where nothing is known

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Schema:
    """What was met while learning."""

    goal: Goal
    targets: list[str]
    columns: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, list[float]] = field(default_factory=dict)  # mean and deviation
    words: dict[str, list[str]] = field(default_factory=dict)
    edges: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    scales: list[list[float]] = field(default_factory=list)  # of targets: mean and deviation

    @classmethod
    def learn(cls, graphs: Sequence[RawGraph], targets: Sequence[str], goal: Goal | None) -> Schema:
        """From graphs to learn from; of nodes those that have labels say what classes there are."""
        columns: dict[str, list[str]] = {}
        numbers: dict[str, list[float]] = {}
        words: dict[str, list[str]] = {}
        for name in graphs[0].columns:
            cells = [cell for graph in graphs for cell in graph.columns[name]]
            if all(map(is_number, cells)) and len(set(cells)) > 20:
                found = np.array([float(cell) for cell in cells])
                numbers[name] = [float(found.mean()), float(found.std()) or 1.0]
            elif sum(len(cell.split()) > 1 for cell in cells) > SEVERAL * len(cells):
                words[name] = sorted({word for cell in cells for word in cell.split()})
            else:
                columns[name] = [value for value, _ in Counter(cells).most_common()]
        edges = sorted({label for graph in graphs for _, _, label in graph.edges})
        given = [[cell for cell in each if cell] for each in zip_targets(graphs, len(targets))]
        goal = goal or find_goal(given)
        classes = sorted({cell for each in given for cell in each}) if goal == "classes" else []
        scales = [scale_of(each) for each in given] if goal == "numbers" else []
        return cls(goal, [*targets], columns, numbers, words, edges, classes, scales)

    @property
    def outputs(self) -> int:
        return len(self.classes) or len(self.targets)

    def encode(self, graph: RawGraph) -> EncodedGraph:
        def column(name: str) -> list[int]:
            known = {value: i for i, value in enumerate(self.columns[name], start=1)}
            return [known.get(cell, 0) for cell in graph.columns[name]]

        size = len(graph)
        each = [column(name) for name in self.columns]
        nodes = np.array(each, np.int64).reshape(len(each), size).T
        scaled = [
            [(float(cell) - mean) / spread for cell in graph.columns[name]]
            for name, (mean, spread) in self.numbers.items()
        ]
        met, before = [], 0
        for name, vocabulary in self.words.items():
            known = {word: i for i, word in enumerate(vocabulary, start=before)}
            cells = enumerate(graph.columns[name])
            met += [(i, known[w]) for i, cell in cells for w in cell.split() if w in known]
            before += len(vocabulary)
        labels = {label: i for i, label in enumerate(self.edges, start=1)}
        edges = [(i, j, labels.get(label, 0)) for i, j, label in graph.edges]
        return EncodedGraph(
            nodes,
            np.array(scaled, np.float32).reshape(len(scaled), size).T,
            np.array(sorted(met), np.int64).reshape(-1, 2),
            np.array(edges, np.int64).reshape(-1, 3),
            self.encode_targets(graph.targets),
        )

    def encode_targets(self, cells: Sequence[str]) -> Array:
        if self.goal == "classes":
            known = {label: i for i, label in enumerate(self.classes)}
            if wrong := next((cell for cell in cells if cell and cell not in known), None):
                raise ValueError(
                    f"{wrong!r} is a label that was never seen; there are {', '.join(known)}"
                )
            return np.array([known[cell] if cell else np.nan for cell in cells], np.float32)
        values = np.array([float(cell) if cell else np.nan for cell in cells], np.float32)
        if self.goal == "numbers":
            mean, spread = np.array(self.scales, np.float32).T
            values = (values - mean) / spread
        return values.astype(np.float32)

    def save(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Schema:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def zip_targets(graphs: Iterable[RawGraph], count: int) -> list[list[str]]:
    """The cells of each target over all graphs; where nodes have one, of all nodes."""
    if count == 1:
        return [[cell for graph in graphs for cell in graph.targets]]
    return [list(each) for each in zip(*(graph.targets for graph in graphs), strict=True)]


def find_goal(given: Sequence[Sequence[str]]) -> Goal:
    """0 and 1 are no and yes; other numbers are numbers; all else is classes."""
    cells = {cell for each in given for cell in each}
    if not cells:
        raise ValueError("no target has a value: there is nothing to learn")
    if all(map(is_number, cells)):
        return "labels" if {float(cell) for cell in cells} <= {0.0, 1.0} else "numbers"
    if len(given) > 1:
        raise ValueError("several targets are numbers, or 0 and 1; one alone may be of classes")
    return "classes"


def scale_of(cells: Sequence[str]) -> list[float]:
    values = np.array([float(cell) for cell in cells])
    return [float(values.mean()), float(values.std()) or 1.0]


def is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False
