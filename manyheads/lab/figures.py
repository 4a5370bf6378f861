"""One style for the figures of all experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A scheme for colour-blind readers (Paul Tol's bright scheme).
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
MARKERS = "osD^vPX"


class Panels(NamedTuple):
    """The panels of a figure."""

    letters: str  # as `make_figure` reads them
    size: tuple[float, float]  # inches
    legend: str  # the panel whose legend is below the figure
    columns: int  # of the legend
    widths: Sequence[float] | None = None  # relative widths of the columns; None: equal


def make_figure(
    panels: str, size: tuple[float, float], widths: Sequence[float] | None = None
) -> tuple[Figure, dict[str, Any]]:
    """Make a figure; return its panels by letter: "abcd;ppqq" has four above two wide ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplot_mosaic(panels, width_ratios=widths)
    for axis in axes.values():
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_curve(
    axis: Any, across: Sequence[float], runs: Sequence[Sequence[float]], label: str, number: int
) -> None:
    """Draw the mean of the seeds as a line, and their range as a band."""
    columns = [*zip(*runs, strict=True)]
    colour = COLOURS[number % len(COLOURS)]
    marker = MARKERS[number % len(MARKERS)] if len(across) <= 12 else None
    means = [sum(column) / len(column) for column in columns]
    axis.plot(across, means, color=colour, marker=marker, markersize=4, label=label)
    lows, highs = [min(column) for column in columns], [max(column) for column in columns]
    axis.fill_between(across, lows, highs, color=colour, alpha=0.15, linewidth=0)


def draw_map(axis: Any, values: Any, title: str, across: str, down: str, most: float = 1) -> None:
    """Draw a matrix of weights, darker for larger values."""
    axis.imshow(values, cmap="Blues", vmin=0, vmax=most, interpolation="nearest")
    label_axes(axis, title, across, down)
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.grid(False)


def label_axes(axis: Any, title: str, across: str, up: str) -> None:
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_xlabel(across, fontsize=9)
    axis.set_ylabel(up, fontsize=9)
    axis.tick_params(labelsize=8, which="both")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.25, linewidth=0.6)


def add_legend_below(figure: Figure, axis: Any, columns: int) -> None:
    """Add one legend for all panels, below the figure."""
    figure.legend(
        *axis.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )
