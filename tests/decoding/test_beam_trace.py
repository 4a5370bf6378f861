"""A beam with its trace finds the same, and the trace says what it kept and what it cut."""

from dataclasses import replace

import pytest
from writers import STOP, Chain, begin

from manyheads import Bounds, DecodingConfig, beam
from manyheads.decoding.beam_trace import trace_beam


@pytest.mark.parametrize("source", [0, 1, 2])
def test_a_trace_leads_to_what_the_beam_finds(source: int) -> None:
    bounds, how = Bounds(STOP, longest=6), DecodingConfig(beam=2)
    ((found,),) = beam(Chain([source], 3), begin(1), bounds, how)
    best, search = trace_beam(Chain([source], 3), begin(1), bounds, how)
    assert (best.ids, best.log_prob) == (found.ids, found.log_prob)
    written = [*best.ids, STOP] if best.finished else best.ids
    path = search.path(written)
    steps = [step[at] for step, at in zip(search.steps, path, strict=False)]
    assert [one.token for one in steps] == written
    assert steps[-1].total == pytest.approx(best.log_prob)
    for step in search.steps:
        totals = [one.total for one in step]
        assert totals == sorted(totals, reverse=True)
        assert sum(one.state == "kept" for one in step) <= 2
        assert all(one.token == STOP for one in step if one.state == "ended")
    for before, step in zip(search.steps, search.steps[1:], strict=False):
        assert all(before[one.parent].state == "kept" for one in step), (
            "what was cut is not gone on"
        )


def test_tokens_are_forced_and_forbidden_at_their_place() -> None:
    how, longest = DecodingConfig(beam=2), 4
    free = Bounds(STOP, longest, shortest=3)
    ((found,),) = beam(Chain([0], 4), begin(1), free, how)
    other = next(token for token in (1, 2, 3) if token != found.ids[1])
    ((forced,),) = beam(Chain([0], 4), begin(1), replace(free, forced={1: other}), how)
    assert forced.ids[1] == other
    ((others,),) = beam(Chain([0], 4), begin(1), replace(free, forbidden={0: found.ids[:1]}), how)
    assert others.ids[0] != found.ids[0]
    with pytest.raises(ValueError, match="place 1 names token 99; they are numbered 0 to"):
        beam(Chain([0], 4), begin(1), replace(free, forced={1: 99}), how)


def test_one_sequence_is_traced() -> None:
    with pytest.raises(ValueError, match="one sequence is traced at a time, 2 came"):
        trace_beam(Chain([0, 1], 3), begin(2), Bounds(STOP, longest=3), DecodingConfig(beam=2))
