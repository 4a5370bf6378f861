"""Patterns and attention as pictures: in a terminal, in a notebook, as PNG.

Q queries, K keys, H heads.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from manyheads.attention.evaluate import check, evaluate
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Graph, Grid, Pairs, Places
from manyheads.inspect.glyphs import glyphs_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAINT = 0.05  # smaller weights are left out of a head's text
SHADES = " ░▒▓█"
MOST = 4096  # the most tokens of a drawing: every pair is evaluated
WIDEST = 64  # the most cells of a picture in a terminal


class Picture:
    """The base class: a figure that can be saved as a file and shown in a notebook."""

    def figure(self) -> Figure:
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        self.figure().savefig(path, dpi=130)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


@dataclass(frozen=True, eq=False)
class Drawing(Picture):
    """A picture of a pattern at some places: as text, in a notebook, as PNG."""

    pattern: Pattern
    places: Places
    query: int  # the query whose keys are drawn if places have two axes or more

    @property
    def allowed(self) -> Tensor:
        """(Q, K)"""
        pairs = Pairs(1, 1, self.places, self.places)
        check(self.pattern, pairs)
        found = evaluate(self.pattern, pairs.everywhere())
        return found.expand(1, 1, len(self.places), len(self.places))[0, 0]

    @property
    def title(self) -> str:
        allowed = self.allowed
        share = allowed.float().mean().item()
        return (
            f"{self.pattern} on {name_places(self.places)}: {allowed.sum()} "
            f"of {allowed.numel()} pairs ({share:.0%})"
        )

    def __str__(self) -> str:
        shown = [self.title, "", "rows are queries, columns are keys"]
        shown.append(as_text(self.allowed.float()))
        if isinstance(self.places, Grid) and len(self.places.axes) > 1:
            view = view_of(self.allowed[self.query], self.places)
            shown += ["", f"what token {self.query} (◆) may see", as_map(view, self.spot)]
        return "\n".join(shown)

    @property
    def spot(self) -> tuple[int, int]:
        row, column = (int(axis[self.query]) for axis in self.places.axes[:2])
        return row, column

    def figure(self) -> Figure:
        mapped = isinstance(self.places, Grid) and len(self.places.axes) > 1
        figure, axes = figure_of(2 if mapped else 1)
        figure.suptitle(self.title, fontsize=10)
        draw_panel(axes[0], self.allowed.float(), "keys", "queries")
        if mapped:
            assert isinstance(self.places, Grid)
            draw_panel(axes[1], view_of(self.allowed[self.query], self.places), "columns", "rows")
            axes[1].plot(self.spot[1], self.spot[0], marker="D", color="tab:red", markersize=8)
            axes[1].set_title(f"what token {self.query} may see", fontsize=9)
        return figure


def draw(pattern: Pattern, places: Places, query: int | None = None) -> Drawing:
    """Draw a pattern: `print(draw(Causal() & Window(2), line(8)))`"""
    if not isinstance(pattern, Pattern) or not isinstance(places, Grid | Graph):
        raise ValueError(
            f"a pattern is drawn on places, as in draw(Causal(), line(8)), got {pattern!r}"
        )
    if not 0 < len(places) <= MOST:
        raise ValueError(f"a drawing holds {MOST} tokens at most, got {len(places)}")
    query = find_middle(places) if query is None else query
    if not 0 <= query < len(places):
        raise ValueError(f"tokens are numbered 0 to {len(places) - 1}, token {query} was asked for")
    return Drawing(pattern, places, query)


def find_middle(places: Places) -> int:
    """Return the token nearest to the centre."""
    if not places.axes:
        return 0
    off = zip(places.axes, places.sizes, strict=True)
    return int(torch.stack([(2 * axis - size).abs() for axis, size in off]).sum(0).argmin())


@dataclass(frozen=True, eq=False)
class AttentionMap(Picture):
    """The heads of one layer over labelled tokens: text for one head, PNG for all."""

    weights: Tensor  # (H, Q, K)
    queries: Sequence[str]
    keys: Sequence[str]
    title: str = ""

    def head(self, number: int) -> str:
        """Return one head as text: a row for each query, darker for larger weights."""
        queries, keys = ([label.strip() for label in side] for side in (self.queries, self.keys))
        margin = max(map(len, queries))
        lines = [" " * margin + " " + " ".join(key.center(3) for key in keys)]
        for label, row in zip(queries, self.weights[number].tolist(), strict=True):
            seen = [weight if weight >= FAINT else 0.0 for weight in row]
            cells = (shade(w) * max(3, len(key)) for w, key in zip(seen, keys, strict=True))
            lines.append(f"{label:>{margin}} " + " ".join(cells))
        return "\n".join(line.rstrip() for line in lines)

    def sharpest(self) -> int:
        """Return the head whose largest weights are largest on average."""
        return int(self.weights.amax(-1).mean(-1).argmax())

    def figure(self) -> Figure:
        figure, axes = figure_of(len(self.weights))
        glyphs = glyphs_for([self.title, *self.keys, *self.queries])
        # A dollar sign is not the beginning of a formula.
        plain: dict[str, Any] = {"fontfamily": glyphs.families, "parse_math": False}
        figure.suptitle(glyphs.shown(self.title), fontsize=10, **plain)
        if glyphs.note:
            figure.supxlabel(glyphs.note, fontsize=6)
        keys, queries = ([glyphs.shown(one) for one in side] for side in (self.keys, self.queries))
        for number, (axis, weights) in enumerate(zip(axes, self.weights, strict=True)):
            draw_panel(axis, weights, "", "")
            axis.set_xticks(
                range(len(keys)), keys, fontsize=7, rotation=choose_slant(keys), **plain
            )
            axis.set_yticks(range(len(queries)), queries, fontsize=7, **plain)
            axis.set_title(f"head {number}", fontsize=9)
        return figure


# ---- text ------------------------------------------------------------------------------------


def as_text(values: Tensor) -> str:
    """Draw a character per cell; with many cells two rows per line, or a shade for several."""
    rows, columns = values.shape
    if max(rows, columns) <= WIDEST // 2:
        return "\n".join(" ".join("■" if v > 0.5 else "·" for v in row) for row in values.tolist())
    if max(rows, columns) <= WIDEST:
        return half_blocks(values > 0.5)
    size = -(-max(rows, columns) // (WIDEST // 2))
    pad = (0, -columns % size, 0, -rows % size)
    small = torch.nn.functional.avg_pool2d(torch.nn.functional.pad(values, pad)[None], size)[0]
    lines = ("".join(shade(v) * 2 for v in row) for row in small.tolist())
    return "\n".join(lines) + f"\none cell is {size} x {size} pairs"


def half_blocks(cells: Tensor) -> str:
    """Draw two rows of cells per line of text, so that cells are square."""
    signs = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}
    rows = cells.int().tolist()
    rows += [[0] * cells.shape[1]] * (len(rows) % 2)
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return "\n".join(
        "".join(signs[top, low] for top, low in zip(a, b, strict=True)) for a, b in pairs
    )


def as_map(view: Tensor, spot: tuple[int, int]) -> str:
    def sign(row: int, column: int) -> str:
        if (row, column) == spot:
            return "◆"
        seen = view[row, column].item()
        return "■" if seen > 0.99 else "▪" if seen > 0 else "·"

    rows, columns = view.shape
    return "\n".join(" ".join(sign(r, c) for c in range(columns)) for r in range(rows))


def shade(share: float) -> str:
    """0 -> " ", 1 -> "█"; anything above 0 is visible."""
    return SHADES[min(len(SHADES) - 1, int(share * (len(SHADES) - 1) + 0.999))]


def choose_slant(labels: Sequence[str]) -> int:
    """Slant long labels, which would overlap otherwise."""
    return 45 if max(map(len, labels)) > 2 else 0


def name_places(places: Places) -> str:
    match places:
        case Grid(sizes=(_,)):
            return f"a line of {len(places)}"
        case Grid(sizes=sizes):
            return f"a grid of {'x'.join(map(str, sizes))}"
    return f"a graph of {len(places)} nodes"


def view_of(seen: Tensor, places: Grid) -> Tensor:
    """Lay out one query's keys as the image: the share of each pixel's channels that it sees."""
    rows, columns = places.sizes[:2]
    at = places.axes[0] * columns + places.axes[1]
    total = torch.zeros(rows * columns).index_add_(0, at, seen.float())
    return (total * rows * columns / len(places)).view(rows, columns)


# ---- matplotlib ------------------------------------------------------------------------------


def figure_of(panels: int) -> tuple[Figure, list[Any]]:
    # Figure instead of pyplot: no global state, no window, safe in any thread.
    from matplotlib.figure import Figure

    columns = 3 if panels % 3 == 0 and panels % 4 else min(panels, 4)
    rows = -(-panels // columns)
    figure = Figure(figsize=(max(3.6 * columns, 5.5), 3.6 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for empty in axes[panels:]:
        empty.set_axis_off()
    return figure, axes[:panels]


def draw_panel(axis: Any, values: Tensor, across: str, down: str) -> None:
    axis.imshow(values.tolist(), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axis.set_xlabel(across)
    axis.set_ylabel(down)
