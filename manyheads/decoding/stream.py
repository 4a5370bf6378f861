"""One sequence, a token at a time, for whoever does not want to wait for its end."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from manyheads.decoding.bounds import Bounds
from manyheads.decoding.greedy import choose_likeliest, write_rounds
from manyheads.decoding.sample import Sampling, choose_by_chance
from manyheads.decoding.step import Step


def stream(
    step: Step,
    start: Tensor,
    bounds: Bounds,
    how: Sampling | None = None,
    number: int = 0,
) -> Iterator[tuple[int, float]]:
    """What `greedy` writes from `start` (1, T), or `sample` where `how` is given, with its logs.

    The stop is the last where it was reached. Nothing is computed before it is asked for.
    """
    if len(start) != 1:
        raise ValueError(f"one sequence is streamed at a time, {len(start)} came")
    choose = choose_likeliest if how is None else choose_by_chance(how, [number])
    for (one,) in write_rounds(step, start, bounds, choose):
        yield one.token, one.log
