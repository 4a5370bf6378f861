"""The base class: an experiment measures each seed, and reports a table, a figure and a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from manyheads.lab.figures import Panels, add_legend_below, make_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = dict[str, Any]  # of one seed, as in JSON: numbers, lists and objects by name


class Seeds(tuple[Numbers, ...]):
    """The measured numbers of each seed; each method reads the value at some keys in all of them.

    A list is indexed by a number: seeds.mean("rotary", "accuracy", -1)
    """

    def values(self, *keys: str | int) -> list[Any]:
        found: list[Any] = [*self]
        for key in keys:
            found = [one[key] for one in found]
        return found

    def mean(self, *keys: str | int) -> float:
        return fmean(self.values(*keys))

    def spread(self, *keys: str | int, digits: int = 2) -> str:
        return format_spread(self.values(*keys), digits)


def choose_settings(**settings: Any) -> dict[str, Any]:
    """choose_settings(width=16) -> {"width": 16}"""
    return settings


class Claim(NamedTuple):
    """A sentence with its numbers, and whether the numbers support it."""

    sentence: str
    shown: bool


@dataclass(frozen=True)
class Experiment:
    """Fields are settings; a subclass measures one seed and reports on all seeds."""

    quick: ClassVar[dict[str, Any]] = {}  # settings of a short test run
    limits: ClassVar[str] = ""  # what it cannot show with any result
    panels: ClassVar[Panels]  # of its figure

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):  # JSON has lists for tuples
                object.__setattr__(self, name, tuple(value))

    def measure(self, seed: int) -> Numbers:
        raise NotImplementedError

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        """Return the rows of the table: {column title: cell}."""
        raise NotImplementedError

    def claims(self, seeds: Seeds) -> list[Claim]:
        raise NotImplementedError

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        """Draw into the panels of the figure, given by letter."""
        raise NotImplementedError

    def figure(self, seeds: Seeds) -> Figure:
        panels = self.panels
        figure, axes = make_figure(panels.letters, panels.size, panels.widths)
        self.draw(axes, seeds)
        add_legend_below(figure, axes[panels.legend], panels.columns)
        return figure

    def paragraph(self, seeds: Seeds) -> str:
        """Return what was shown, what was not shown, and the limits of the experiment."""
        claims = self.claims(seeds)
        parts = []
        for word, shown in (("Shown", True), ("Not shown", False)):
            found = [claim.sentence for claim in claims if claim.shown is shown]
            parts += [f"{word}: {'; '.join(found)}."] if found else []
        return " ".join([*parts, self.limits]).strip()


def format_spread(values: Sequence[float], digits: int = 2) -> str:
    """[0.5, 0.6, 0.7] -> "0.60 ± 0.10": mean and standard deviation; just the value for one seed"""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"
