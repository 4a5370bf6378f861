"""Decoding strategies, by their names in a config.

B batch, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from torch import Tensor

from manyheads.decoding.beam import beam
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.config import DecodingConfig, Sampling
from manyheads.decoding.draft_batch import DraftedBatch
from manyheads.decoding.drafts import DraftedWriting, Drafter, choose_as, write_drafted
from manyheads.decoding.greedy import Over, choose_likeliest, greedy, number_rows, write_rounds
from manyheads.decoding.packed import PackedStep
from manyheads.decoding.sample import choose_by_chance, sample
from manyheads.decoding.step import RewindableStep, Step

Found: TypeAlias = list[list[Hypothesis]]  # one or more for each sequence, best first
# Takes a step, the start (B, T), bounds, the config, the numbers of the sequences in the whole
# input, which seed their sampling, and a function that may end a sequence early.
Strategy: TypeAlias = Callable[[Step, Tensor, Bounds, Any, Sequence[int], Over | None], Found]


def search(
    step: Step, start: Tensor, bounds: Bounds, how: Any, numbers: Sequence[int], over: Over | None
) -> Found:
    if over is not None or not isinstance(how, DecodingConfig):
        raise ValueError(
            "a beam is as wide as a DecodingConfig says and ends with its bounds alone; greedy and "
            "sample write what ends otherwise"
        )
    return beam(step, start, bounds, how)


STRATEGIES: dict[str, Strategy] = {
    "greedy": lambda step, start, bounds, how, numbers, over: [
        [one] for one in greedy(step, start, bounds, over)
    ],
    "sample": lambda *given: [[one] for one in sample(*given)],
    "beam": search,
}


def decode(
    step: Step | PackedStep,
    start: Tensor,
    bounds: Bounds,
    how: Sampling,
    numbers: Sequence[int] | None = None,
    over: Over | None = None,
    drafter: Drafter | None = None,
    sources: Sequence[Sequence[int]] = ((),),
) -> Found:
    """Continue `start` (B, T) by the strategy that the config names or implies.

    A `drafter` makes this speculative decoding: it guesses tokens from the `sources`, one source,
    or several if the step is packed.
    """
    if how.chosen not in STRATEGIES:
        there = ", ".join(STRATEGIES)
        raise ValueError(f"there is no strategy {how.chosen!r}; there are {there} and auto")
    if drafter is not None and how.chosen not in ("greedy", "sample"):
        raise ValueError(
            f"a draft is checked token by token, a {how.chosen} is not; greedy or sample goes with "
            "a drafter"
        )
    numbers = number_rows(numbers, len(start))
    if drafter is not None and getattr(step, "takes_guesses", True):
        if isinstance(step, PackedStep):
            batch = DraftedBatch(step, start, bounds, how, drafter, sources, numbers, over)
            return [[one] for one in batch.write()]
        rewinds, (source,) = cast(RewindableStep, step), sources
        return [[write_drafted(rewinds, start, bounds, how, drafter, source, numbers[0], over)]]
    return STRATEGIES[how.chosen](cast(Step, step), start, bounds, how, numbers, over)


def stream(
    step: Step,
    start: Tensor,
    bounds: Bounds,
    how: Sampling = DecodingConfig(),
    number: int = 0,
    over: Over | None = None,
    drafter: Drafter | None = None,
    source: Sequence[int] = (),
) -> Iterator[tuple[int, float]]:
    """Yield the tokens that `decode` returns for `start` (1, T), each with its log-probability.

    If the stop token was reached, it comes last. Each token is computed only when it is asked for.
    """
    if how.chosen not in ("greedy", "sample"):
        raise ValueError(
            f"a {how.chosen} knows its text only at the end; stream without it, or generate"
        )
    if len(start) != 1:
        raise ValueError(f"one sequence is streamed at a time, {len(start)} came")
    if drafter is not None:
        chooser = choose_as(how, number)
        rewinds = cast(RewindableStep, step)
        writing = DraftedWriting(rewinds, bounds, chooser, drafter, source, over=over)
        return (one for new in writing.rounds(start) for one in new)
    choose = choose_likeliest if how.chosen == "greedy" else choose_by_chance(how, [number])
    rounds = write_rounds(step, start, bounds, choose, over)
    return ((one.token, one.log) for (one,) in rounds)
