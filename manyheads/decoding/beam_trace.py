"""Record what a beam search kept and what it cut at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from manyheads.decoding.beam import Candidates, Search
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.step import Step


class Considered(NamedTuple):
    """One continuation that a beam search considered."""

    parent: int  # index of its parent in the step before, -1 in the first
    token: int
    total: float  # the log-probability of the sequence up to here
    state: str  # kept, ended or cut


class TracedSearch(Search):
    """A beam search for one sequence that records all candidates of every step, best first."""

    def __init__(self, start: Tensor, bounds: Bounds, how: DecodingConfig):
        if len(start) != 1:
            raise ValueError(f"one sequence is traced at a time, {len(start)} came")
        super().__init__(start, bounds, how)
        self.steps: list[list[Considered]] = []
        self.alive = [-1] * how.beam  # index of each row's candidate in the last step

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
        """Return the index of each of these tokens in its step, as far as they were considered."""
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
    """Return the best hypothesis after `start` (1, T), and the search with all its steps."""
    search = TracedSearch(start, bounds, how)
    search.run(step, start)
    return search.rank(search.found[0])[0], search
