"""The schema of graphs: columns, edge labels and targets; it encodes graphs as numbers.

T nodes, E edges, F columns, K targets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.tasks.graph.settings import Goal
from manyheads.training.files import write_text

Array = NDArray[Any]
SEVERAL = 0.5  # a column with a larger share of cells of several words is one of words
FEW_VALUES = 20  # whole numbers with at most this many values are categories
MOSTLY = 0.5  # if more than this share of a target's different values are numbers, all should be
SHOWN = 10  # labels that an error lists


@dataclass(frozen=True)
class RawGraph:
    """A graph as it was read, with cells of text."""

    columns: dict[str, list[str]]  # a cell for each node
    edges: list[tuple[int, int, str]]
    targets: list[str]  # of the graph or of each node; "": not known
    name: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), self.targets))


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """A graph encoded as numbers."""

    nodes: Array  # (T, F) id of the value in each column, 0 for an unknown one
    numbers: Array  # (T, N)
    words: Array  # (W, 2) node and word id, sorted by node
    edges: Array  # (E, 3) two nodes and a label from 1 up, 0 for an unknown one
    wanted: Array  # (K) or (T): NaN if not known

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Schema:
    """All columns, words, edge labels and classes of the training graphs."""

    goal: Goal
    targets: list[str]
    columns: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, list[float]] = field(default_factory=dict)  # mean and deviation
    words: dict[str, list[str]] = field(default_factory=dict)
    edges: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    scales: list[list[float]] = field(default_factory=list)  # of targets: mean and deviation

    @classmethod
    def learn(
        cls,
        graphs: Sequence[RawGraph],
        targets: Sequence[str],
        goal: Goal | None,
        held_out: Sequence[RawGraph] = (),
    ) -> Schema:
        """Collect a schema from the training graphs, and classes from the validation graphs too."""
        columns: dict[str, list[str]] = {}
        numbers: dict[str, list[float]] = {}
        words: dict[str, list[str]] = {}
        for name in graphs[0].columns:
            cells = [cell for graph in graphs for cell in graph.columns[name]]
            if are_numbers(cells):
                numbers[name] = scale_of([cell for cell in cells if cell])
            elif sum(len(cell.split()) > 1 for cell in cells) > SEVERAL * len(cells):
                words[name] = sorted({word for cell in cells for word in cell.split()})
                refuse_amounts(name, words[name])
            else:
                columns[name] = [value for value, _ in Counter(map(as_whole, cells)).most_common()]
        edges = sorted({label for graph in graphs for _, _, label in graph.edges})
        refuse_weights(edges)
        given = [[cell for cell in each if cell] for each in zip_targets(graphs, len(targets))]
        goal = goal or find_goal(given, targets)
        if empty := [name for name, cells in zip(targets, given, strict=True) if not cells]:
            raise ValueError(f"{empty[0]!r} has no value to learn from")
        if goal != "classes":
            refuse_words(given, targets)
        elif len(targets) > 1:
            raise ValueError(
                "several targets are numbers, or 0 and 1; one alone may be of classes, got "
                f"{', '.join(targets)}"
            )
        others = zip_targets(held_out, 1)[0] if len(targets) == 1 else []
        labels = {cell for each in (*given, others) for cell in each if cell}
        classes = sorted(labels) if goal == "classes" else []
        scales = [scale_of(each) for each in given] if goal == "numbers" else []
        return cls(goal, [*targets], columns, numbers, words, edges, classes, scales)

    @property
    def outputs(self) -> int:
        return len(self.classes) or len(self.targets)

    def encode(self, graph: RawGraph) -> EncodedGraph:
        if missing := [name for name in self.cell_names if name not in graph.columns]:
            raise ValueError(
                f"nodes have no {missing[0]!r}; the model learned from {', '.join(self.cell_names)}"
            )
        size, each = len(graph), [self.encode_column(graph, name) for name in self.columns]
        scaled = [
            np.nan_to_num((read_numbers(graph.columns[name], name) - mean) / spread)
            for name, (mean, spread) in self.numbers.items()
        ]
        labels = {label: i for i, label in enumerate(self.edges, start=1)}
        edges = [(i, j, labels.get(label, 0)) for i, j, label in graph.edges]
        return EncodedGraph(
            np.array(each, np.int64).reshape(len(each), size).T,
            np.array(scaled, np.float32).reshape(len(scaled), size).T,
            np.array(sorted(self.find_words(graph)), np.int64).reshape(-1, 2),
            np.array(edges, np.int64).reshape(-1, 3),
            self.encode_targets(graph.targets),
        )

    @property
    def cell_names(self) -> list[str]:
        return [*self.columns, *self.numbers, *self.words]

    def encode_column(self, graph: RawGraph, name: str) -> list[int]:
        known = {as_whole(value): i for i, value in enumerate(self.columns[name], start=1)}
        return [known.get(as_whole(cell), 0) for cell in graph.columns[name]]

    def find_unknown(self, graph: RawGraph) -> Iterator[str]:
        """Yield warnings about values and edge labels that training never met."""
        for name, values in self.columns.items():
            known = {*map(as_whole, values)}
            for cell in dict.fromkeys(graph.columns.get(name, ())):
                if as_whole(cell) not in known:
                    yield f"{name} {cell!r} was never met in training: nothing is known of it"
        for label in dict.fromkeys(label for _, _, label in graph.edges):
            if label not in self.edges:
                told = f"edges of the kind {label!r}" if label else "edges without a label"
                yield f"{told} were never met in training: nothing is known of them"

    def find_words(self, graph: RawGraph) -> Iterator[tuple[int, int]]:
        """Yield (node, word id) for each known word of each node."""
        before = 0
        for name, vocabulary in self.words.items():
            known = {word: i for i, word in enumerate(vocabulary, start=before)}
            for i, cell in enumerate(graph.columns[name]):
                yield from ((i, known[word]) for word in cell.split() if word in known)
            before += len(vocabulary)

    def encode_targets(self, cells: Sequence[str]) -> Array:
        if self.goal == "classes":
            known = {label: i for i, label in enumerate(self.classes)}
            if wrong := next((cell for cell in cells if cell and cell not in known), None):
                there = ", ".join([*known][:SHOWN]) + (", ..." if len(known) > SHOWN else "")
                raise ValueError(f"{wrong!r} is a label that was never seen; there are {there}")
            return np.array([known[cell] if cell else np.nan for cell in cells], np.float32)
        values = read_numbers(cells, ", ".join(self.targets))
        if self.goal == "labels" and not np.isin(values, (0, 1))[np.isfinite(values)].all():
            raise ValueError(f"{', '.join(self.targets)} was 0 and 1 in training, got another")
        if self.goal == "numbers":
            mean, spread = np.array(self.scales).T
            values = (values - mean) / spread
        return values.astype(np.float32)

    def save(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Schema:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def zip_targets(graphs: Iterable[RawGraph], count: int) -> list[list[str]]:
    """Return the cells of each target over all graphs, or over all nodes for a node task."""
    if count == 1:
        return [[cell for graph in graphs for cell in graph.targets]]
    return [list(each) for each in zip(*(graph.targets for graph in graphs), strict=True)]


def find_goal(given: Sequence[Sequence[str]], targets: Sequence[str]) -> Goal:
    """Return the goal: labels if all targets are 0 or 1, numbers for others, else classes."""
    cells = {cell for each in given for cell in each}
    if not cells:
        raise ValueError("no target has a value: there is nothing to learn")
    if sum(map(is_number, cells)) > MOSTLY * len(cells):
        refuse_words(given, targets)
        return "labels" if {float(cell) for cell in cells} <= {0.0, 1.0} else "numbers"
    return "classes"


def refuse_words(given: Sequence[Sequence[str]], targets: Sequence[str]) -> None:
    """Raise if a target has a word among its numbers."""
    for name, cells in zip(targets, given, strict=True):
        if wrong := next((cell for cell in cells if not is_number(cell)), None):
            raise ValueError(
                f"{name} is a number elsewhere, got {wrong!r}; an empty cell is a gap, and "
                "goal=classes learns words"
            )


def refuse_amounts(name: str, words: Sequence[str]) -> None:
    """Raise if the words of a column are numbers, as of vectors: each would be a word."""
    parts = [word for word in words if is_number(word) and float(word) % 1]
    if parts and all(map(is_number, words)):
        raise ValueError(
            f"a cell of {name} has several numbers, such as {parts[0]}; a column for each number "
            "would do"
        )


def refuse_weights(labels: Sequence[str]) -> None:
    """Raise if edges have weights: each would be a label of its own."""
    parts = [label for label in labels if is_number(label) and float(label) % 1]
    if parts and len(labels) > FEW_VALUES and are_numbers(labels):
        raise ValueError(
            f"edges have {len(labels)} labels, which are numbers such as {parts[0]}; a label is "
            "one of a few kinds: leave the labels out, or round them to a few"
        )


def are_numbers(cells: Sequence[str]) -> bool:
    """Whether a column holds amounts; few different whole numbers are categories, as charges."""
    given = {cell for cell in cells if cell}
    if not given or not all(map(is_number, given)):
        return False
    return len(given) > FEW_VALUES or any(float(cell) % 1 for cell in given)


def as_whole(cell: str) -> str:
    """ "1.0" -> "1"; other cells stay as they are."""
    return str(int(float(cell))) if is_number(cell) and not float(cell) % 1 else cell


def scale_of(cells: Sequence[str]) -> list[float]:
    """Return their mean and deviation; 1 for the deviation of equal numbers.

    Rounded, that of [0.1, 0.1, 0.1] is 1e-17: any other number would be scaled to 1e16.
    """
    values = np.array([float(cell) for cell in cells])
    return [float(values.mean()), float(values.std()) if np.ptp(values) else 1.0]


def read_numbers(cells: Sequence[str], name: str) -> Array:
    """Convert cells to numbers; an empty cell becomes NaN."""
    if wrong := next((cell for cell in cells if cell and not is_number(cell)), None):
        raise ValueError(f"{name} was of numbers in training, got {wrong!r}")
    return np.array([float(cell or "nan") for cell in cells])


def is_number(cell: str) -> bool:
    try:
        # Python reads "18_24", an age or a name, as 1824.
        return "_" not in cell and bool(np.isfinite(float(cell)))
    except ValueError:
        return False
