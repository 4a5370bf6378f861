"""What a beam kept at every step, and what it cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from manyheads.decoding.beam import Candidates, Search
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.step import Step


class Considered(NamedTuple):
    """One continuation that a beam looked at."""

    parent: int  # its number in the step before, -1 in the first
    token: int
    total: float  # the log-probability of all up to it
    state: str  # kept, ended or cut


class TracedSearch(Search):
    """A search for one sequence that remembers what it looked at, best first at every step."""

    def __init__(self, start: Tensor, bounds: Bounds, how: DecodingConfig):
        if len(start) != 1:
            raise ValueError(f"one sequence is traced at a time, {len(start)} came")
        super().__init__(start, bounds, how)
        self.steps: list[list[Considered]] = []
        self.alive = [-1] * how.beam  # where each row stands in the last step

    def advance(self, best: Candidates) -> Tensor:
        width, alive, step = self.how.beam, list[int](), list[Considered]()
        columns = (each[0].tolist() for each in best[:3])
        for number, (total, row, token) in enumerate(zip(*columns, strict=True)):
            if total == -float("inf"):
                break
            state = "cut"
            if token in self.bounds.stops:
                state = "ended" if number < width else "cut"
            elif len(alive) < width:
                state = "kept"
                alive.append(len(step))
            step.append(Considered(self.alive[row], token, total, state))
        self.steps.append(step)
        self.alive = alive + [-1] * (width - len(alive))
        return super().advance(best)

    def path(self, ids: Sequence[int]) -> list[int]:
        """Where these tokens stand in each step, as far as they were looked at."""
        found, parent = list[int](), -1
        for step, token in zip(self.steps, ids, strict=False):
            at = [i for i, one in enumerate(step) if (one.parent, one.token) == (parent, token)]
            if not at:
                break
            found.append(parent := at[0])
        return found


def trace_beam(
    step: Step, start: Tensor, bounds: Bounds, how: DecodingConfig
) -> tuple[Hypothesis, TracedSearch]:
    """The best that a beam writes on from `start` (1, T), and the way there."""
    search = TracedSearch(start, bounds, how)
    search.run(step, start)
    return search.rank(search.found[0])[0], search
