"""What an experiment is: numbers for each seed; of all seeds a table, a figure and a paragraph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from manyheads.lab.figures import Panels, add_legend_below, make_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = dict[str, Any]  # of one seed, as JSON has them: numbers, lists and tables by name


class Seeds(tuple[Numbers, ...]):
    """What was measured, seed by seed; each method reads the value below some keys in all of them.

    In a list a key is a number: seeds.mean("rotary", "accuracy", -1)
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
    """A sentence with its numbers, and whether they bear it out."""

    sentence: str
    shown: bool


@dataclass(frozen=True)
class Experiment:
    """Fields are settings; a subclass measures one seed, and reports on all seeds."""

    quick: ClassVar[dict[str, Any]] = {}  # settings of a run that only shows that it works
    limits: ClassVar[str] = ""  # what it does not show, whatever comes out
    panels: ClassVar[Panels]  # of its figure

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):  # as JSON has what is a tuple here
                object.__setattr__(self, name, tuple(value))

    def measure(self, seed: int) -> Numbers:
        raise NotImplementedError

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        """The table: the cells of each row by the title of their column."""
        raise NotImplementedError

    def claims(self, seeds: Seeds) -> list[Claim]:
        raise NotImplementedError

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        """Fill the panels of the figure, which come by their letters."""
        raise NotImplementedError

    def figure(self, seeds: Seeds) -> Figure:
        panels = self.panels
        figure, axes = make_figure(panels.letters, panels.size, panels.widths)
        self.draw(axes, seeds)
        add_legend_below(figure, axes[panels.legend], panels.columns)
        return figure

    def paragraph(self, seeds: Seeds) -> str:
        """What was shown, what was not, and what the experiment cannot say."""
        claims = self.claims(seeds)
        parts = []
        for word, shown in (("Shown", True), ("Not shown", False)):
            found = [claim.sentence for claim in claims if claim.shown is shown]
            parts += [f"{word}: {'; '.join(found)}."] if found else []
        return " ".join([*parts, self.limits]).strip()


def format_spread(values: Sequence[float], digits: int = 2) -> str:
    """[0.5, 0.6, 0.7] -> "0.60 ± 0.10": mean and deviation; of one seed the value alone"""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"
