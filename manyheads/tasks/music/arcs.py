"""The attention of a note, drawn as arcs on a piano roll.

H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from manyheads.inspect.drawing import FAINT, Picture
from manyheads.tasks.music.notes import Piece, pitch_name
from manyheads.tasks.music.roll import Roll, add_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spot = tuple[float, int]  # seconds and pitch
WIDEST_POINTS = 7.0  # of an arc with weight 1
SHORTEST_SECONDS = 4.0  # of a picture
MOST = 32  # arcs of a head and lines of the text; those with the largest weights are kept
# No voice has one of these colours.
COLOURS = ("#111111", "#c2185b", "#00838f", "#6a1b9a", "#827717", "#5d4037", "#0d47a1", "#e65100")


@dataclass(frozen=True, eq=False)
class Arcs(Picture):
    """Arcs from the last note to the notes it attends to; the larger the weight, the wider the arc.

    Tokens that are no notes, such as time and rests, have no arc; the legend gives their weight.
    """

    piece: Piece
    spots: Sequence[Spot | None]  # place of each token, None if it is no note; the last is a note
    weights: Tensor  # (H, T) attention of the last token to all tokens, for each head shown
    heads: Sequence[int]  # numbers of the heads shown
    title: str = ""

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.heads), len(self.spots)):
            raise ValueError(
                f"{len(self.heads)} heads and {len(self.spots)} tokens have weights of shape "
                f"{(len(self.heads), len(self.spots))}, got {tuple(self.weights.shape)}"
            )
        if not self.spots or self.spots[-1] is None:
            raise ValueError("arcs begin at a note, and the last token is none")

    @property
    def arcs(self) -> list[tuple[int, Spot, float]]:
        """List (head, spot it attends to, weight), the largest weight last, without faint arcs."""
        found = []
        for head, row in zip(self.heads, self.weights.tolist(), strict=True):
            met: dict[Spot, float] = {}
            for spot, weight in zip(self.spots, row, strict=True):
                if spot is not None:
                    met[spot] = met.get(spot, 0.0) + weight
            best = sorted(met.items(), key=lambda each: -each[1])[:MOST]
            found += [(head, spot, weight) for spot, weight in best if weight >= self.least]
        return sorted(found, key=lambda each: each[2])

    @property
    def least(self) -> float:
        """The smallest weight that is drawn: with many tokens, each has little weight."""
        return min(FAINT, 2 / len(self.spots))

    def weigh_elsewhere(self, head: int) -> float:
        """Return the attention weight of this head on tokens that are no notes."""
        row = self.weights[list(self.heads).index(head)].tolist()
        return sum(w for spot, w in zip(self.spots, row, strict=True) if spot is None)

    def figure(self) -> Figure:
        # The object interface: no global state, no window, safe in any thread.
        from matplotlib.figure import Figure

        roll = Roll(self.piece)
        low, high = roll.span
        figure = Figure(figsize=(11, 1.9 + 0.06 * (high - low)), layout="constrained")
        figure.suptitle(self.title, fontsize=10)
        axis = figure.subplots()
        start, end = self.window()
        roll.draw(axis, start, end)
        axis.set_xlabel("minutes : seconds", fontsize=9)
        query = self.spots[-1]
        assert query is not None
        above = high + (high - low) / 2  # room over the notes
        for head, spot, weight in self.arcs:
            draw_arc(axis, query, spot, above, WIDEST_POINTS * weight, self.colour(head))
        axis.plot(*query, marker="D", color="black", markersize=6, zorder=5)
        axis.set_ylim(low - 0.5, (high + above) / 2)
        self.name_heads(axis)
        return figure

    def window(self) -> tuple[float, float]:
        """Return the seconds to show: from the first note to the last, with a margin."""
        at = [spot[0] for spot in self.spots if spot is not None]
        air = max(0.03 * (at[-1] - at[0]), 0.5)
        start, end = max(0.0, at[0] - air), at[-1] + air
        return start, max(end, start + SHORTEST_SECONDS)

    def colour(self, head: int) -> str:
        return COLOURS[list(self.heads).index(head) % len(COLOURS)]

    def name_heads(self, axis: Any) -> None:
        from matplotlib.lines import Line2D

        lines = [
            Line2D([], [], color=self.colour(head), linewidth=3, label=self.describe_head(head))
            for head in self.heads
        ]
        add_legend(axis, lines, min(4, len(lines)))

    def describe_head(self, head: int) -> str:
        return f"head {head}, {self.weigh_elsewhere(head):.0%} on no note"

    def __str__(self) -> str:
        """One line for each arc, the largest weight first: head, time, pitch, weight."""
        arcs = self.arcs[::-1]
        shown = [
            f"head {head}  {spot[0]:7.2f} s  {pitch_name(spot[1]):<4} {weight:6.1%}"
            for head, spot, weight in arcs[:MOST]
        ]
        shown += [f"and {len(arcs) - MOST} that are fainter"] * (len(arcs) > MOST)
        return "\n".join([self.title, *map(self.describe_head, self.heads), *shown])


def draw_arc(axis: Any, query: Spot, key: Spot, above: float, points: float, colour: str) -> None:
    """Draw a curve above the notes between two spots, the higher the further they are apart."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    left, right = axis.get_xlim()
    top = max(query[1], key[1])
    height = top + (above - top) * min(1.0, 0.25 + 2 * abs(query[0] - key[0]) / (right - left))
    middle = ((query[0] + key[0]) / 2, height)
    curve = Curve([query, middle, key], [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3])
    axis.add_patch(
        PathPatch(curve, fill=False, edgecolor=colour, linewidth=max(0.5, points), alpha=0.6)
    ).set_zorder(4)
