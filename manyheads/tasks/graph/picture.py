"""Draw a graph with the attention of its nodes.

H heads, T nodes, E edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from manyheads.inspect.drawing import Picture
from manyheads.tasks.graph.records import is_smiles
from manyheads.tasks.graph.schema import Array, RawGraph
from manyheads.tasks.graph.sources import import_rdkit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOND = 1.5  # length of a bond as RDKit draws it
SHOWN = 8  # pairs to print, and pairs without an edge to draw
COLOURS = {
    "O": "#d62828",
    "N": "#1d4ed8",
    "S": "#b58900",
    "P": "#d97706",
    "F": "#2a9d3a",
    "Cl": "#2a9d3a",
    "Br": "#8c2d04",
    "I": "#6a1b9a",
}
PER_INCH = 9  # characters of a title of 10 points, if most are wide
INK, PAPER = "#1f2933", "#ffffff"


@dataclass(frozen=True, eq=False)
class GraphPicture(Picture):
    """A picture of a graph: the more two nodes attend to each other, the darker and wider is their
    edge; the strongest pairs without an edge are dashed curves."""

    labels: Sequence[str]
    spots: Array  # (T, 2)
    edges: Sequence[tuple[int, int]]
    weights: Tensor  # (T, T) attention from each node to each
    title: str = ""

    @property
    def pairs(self) -> list[tuple[float, int, int]]:
        """The mean attention of both directions for each pair of nodes, the strongest first."""
        both = ((self.weights + self.weights.T) / 2).tolist()
        size = len(self.labels)
        found = [(both[i][j], i, j) for i in range(size) for j in range(i + 1, size)]
        return sorted(found, key=lambda pair: -pair[0])

    def __str__(self) -> str:
        joined = {tuple(sorted(edge)) for edge in self.edges}
        lines = [self.title, "", "who attends to whom most, both ways:"]
        for weight, i, j in self.pairs[:SHOWN]:
            sign = "–" if (i, j) in joined else "·"
            lines.append(f"  {self.labels[i]}{i} {sign} {self.labels[j]}{j}  {weight:.3f}")
        return "\n".join(lines)

    def figure(self) -> Figure:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap, Normalize
        from matplotlib.figure import Figure

        wide, high = np.ptp(self.spots, axis=0) + 1.6
        scale = min(1.0, 9.0 / max(wide, high))
        across = max(4.4, wide * scale + 1.1)  # inches
        title = wrap_title(self.title, int(across * PER_INCH))
        above = 0.25 + 0.175 * len(title)
        up = max(2.0, high * scale + 0.1) + above
        figure = Figure(figsize=(across, up))
        below = 1 - above / up
        axis = figure.add_axes((0, 0, 1 - 1.1 / across, below))
        shades = LinearSegmentedColormap.from_list(
            "heat", ["#e8eef7", "#7aa6e8", "#5b2bd9", "#c2185b"]
        )
        most = self.pairs[0][0] if self.pairs else 1.0
        tone = ScalarMappable(Normalize(0, most), shades)
        size = 13 * scale**0.5
        self.draw_pairs(axis, tone, most, scale)
        for label, (x, y) in zip(self.labels, self.spots, strict=True):
            axis.text(
                x,
                y,
                label,
                ha="center",
                va="center",
                fontsize=size,
                fontweight="bold",
                color=COLOURS.get(label, INK),
                zorder=4,
                bbox={"boxstyle": "circle,pad=0.22", "fc": PAPER, "ec": "#9aa5b1", "lw": 0.8},
            )
        low, top = self.spots.min(0) - 0.8, self.spots.max(0) + 0.8
        axis.set(xlim=(low[0], top[0]), ylim=(low[1], top[1]), aspect="equal")
        axis.set_axis_off()
        figure.suptitle("\n".join(title), y=1 - 0.06 / up, fontsize=10, color=INK, parse_math=False)
        bar = figure.colorbar(
            tone, cax=figure.add_axes((1 - 0.95 / across, 0.12, 0.16 / across, 0.8 * below))
        )
        bar.set_label("attention between two nodes", fontsize=8, color=INK)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_visible(False)
        return figure

    def draw_pairs(self, axis: Any, tone: Any, most: float, scale: float) -> None:
        from matplotlib.patches import FancyArrowPatch

        joined = {tuple(sorted(edge)) for edge in self.edges}
        far = [pair for pair in self.pairs if pair[1:] not in joined and pair[0] > most / 4]
        for weight, i, j in reversed(far[:SHOWN]):
            bow = FancyArrowPatch(
                self.spots[i],
                self.spots[j],
                connectionstyle="arc3,rad=0.28",
                arrowstyle="-",
                linestyle=(0, (4, 3)),
                linewidth=(0.6 + 1.4 * weight / most) * scale,
                alpha=0.6,
                color=tone.to_rgba(weight),
                zorder=2,
            )
            axis.add_patch(bow)
        for weight, i, j in reversed([pair for pair in self.pairs if pair[1:] in joined]):
            ends = [self.spots[i], self.spots[j]]
            x, y = zip(*ends, strict=True)
            round_ends: dict[str, Any] = {"solid_capstyle": "round"}
            axis.plot(
                x,
                y,
                color=tone.to_rgba(weight),
                lw=(2 + 9 * weight / most) * scale,
                zorder=1,
                **round_ends,
            )
            axis.plot(x, y, color=INK, lw=1.1 * scale, zorder=3, **round_ends)


def wrap_title(title: str, width: int) -> list[str]:
    """Break the lines of a title that are wider than a picture."""
    return [part for line in title.splitlines() for part in wrap(line, width)]


def place_nodes(given: str | RawGraph, hops: Array) -> Array:
    """Place molecules as chemists draw them, other graphs by the hops between nodes; (T, 2)"""
    if not isinstance(given, str) or not is_smiles(given):
        return spread_out(hops)
    molecule = import_rdkit().MolFromSmiles(given)
    import_module("rdkit.Chem.rdDepictor").Compute2DCoords(molecule)
    spots: Array = molecule.GetConformer().GetPositions()[:, :2] / BOND
    if len(hops) > len(spots):  # the node that stands for the graph
        beside = [[spots[:, 0].min() - 1.5, spots[:, 1].mean()]]
        spots = np.concatenate([spots, beside])
    return spots


def spread_out(hops: Array, rounds: int = 300) -> Array:
    """Place nodes so that distances match the hops as well as possible (SMACOF): (T, 2)"""
    size = len(hops)
    turn = 2 * np.pi * np.arange(size) / max(1, size)
    spots = np.stack([np.cos(turn), np.sin(turn)], 1) * max(1.0, size / 6)
    wanted = np.maximum(hops, 1e-9).astype(float)
    share = wanted**-2 * (1 - np.eye(size))
    inverse = np.linalg.pinv(np.diag(share.sum(1)) - share)
    for _ in range(rounds):
        apart = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
        pull = -share * wanted / np.maximum(apart, 1e-9) * (1 - np.eye(size))
        spots = inverse @ ((pull - np.diag(pull.sum(1))) @ spots)
    return spots
