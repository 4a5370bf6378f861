"""What may be written."""

from typing import Any

import pytest
import torch
from writers import STOP, Chain, Fixed, Scripted, begin

from manyheads import Bounds, DecodingConfig, Hypothesis, Sampling, beam, greedy, sample

WRITERS = {
    "greedy": greedy,
    "sample": lambda *a: sample(*a, Sampling()),
    "beam": lambda *a: [found[0] for found in beam(*a, DecodingConfig(beam=3))],
}
every_way = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@every_way
def test_a_sequence_begins_with_its_prefix_at_the_models_own_price(write: Any) -> None:
    prefix = [[3, 1, 2], [], [4]]
    bounds = Bounds(STOP, longest=6, prefix=prefix, never=(1, 3))
    chain = Chain([0, 1, 2], 6)
    for n, found in enumerate(write(chain, begin(3), bounds)):
        assert found.ids[: len(prefix[n])] == prefix[n]
        assert not {1, 3} & {*found.ids[len(prefix[n]) :]}
        history = [1]
        for token, log in zip([*found.ids, STOP], found.logs, strict=False):
            assert log == pytest.approx(chain.scores(n, history).log_softmax(-1)[token].item())
            history.append(token)
        assert found.log_prob == pytest.approx(sum(found.logs))


@every_way
def test_no_sequence_is_shorter_than_asked_nor_longer(write: Any) -> None:
    bounds = Bounds(STOP, longest=[4, 5, 6, 7], shortest=4)
    written = write(Chain([*range(4)], 3), begin(4), bounds)
    for longest, found in zip([4, 5, 6, 7], written, strict=True):
        assert 4 <= len(found.ids) <= longest
        assert found.finished == (len(found.logs) > len(found.ids))


@every_way
def test_a_prefix_is_written_even_where_the_model_rules_it_out(write: Any) -> None:
    (found,) = write(Fixed([0.5, 0.5, 0.0]), begin(1), Bounds(STOP, longest=2, prefix=[[2]]))
    assert found.ids[0] == 2
    assert found.log_prob < -1e3


@every_way
def test_nothing_left_to_write_is_said(write: Any) -> None:
    with pytest.raises(ValueError, match="sequence 0 can write nothing after 0 tokens: each token"):
        write(Fixed([0.5, 0.5]), begin(1), Bounds(STOP, longest=3, shortest=1, never=(1,)))

    class Breaks(Chain):
        def scores(self, source: int, history: list[int]) -> torch.Tensor:
            broken = source == 1 and len(history) == 3
            return torch.full((5,), torch.nan) if broken else super().scores(source, history)

    with pytest.raises(ValueError, match="sequence 1 can write nothing after 2 tokens"):
        write(Breaks([0, 1], 5), begin(2), Bounds(STOP, longest=9, shortest=3))


def test_the_stop_is_left_out_of_the_ids() -> None:
    assert Hypothesis.of([5, 6, 2], [-1.0, -1.0, -0.5], (2,)) == (
        [5, 6],
        -2.5,
        [-1, -1, -0.5],
        True,
    )
    assert Hypothesis.of([5, 6], [-1.0, -1.0], (2,)).finished is False
    assert Hypothesis.of([], [], ()).finished is False


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"longest": -1}, "longest and shortest count tokens, got -1 and 0"),
        ({"longest": [3, 1], "shortest": 2}, "at least 2 tokens and at most 1; shortest may not"),
        ({"never": (4, STOP)}, "0 is the stop and among what is never written"),
        ({"prefix": [[3], [STOP]]}, "the prefix of sequence 1 holds the stop 0; leave it out"),
        ({"prefix": [3, 4]}, r"a prefix is a list for each sequence, \[\[3, 4\]\], got \[3, 4\]"),
        ({"forced": {-1: 3}}, "places of forced and forbidden tokens are 0 or more, got -1"),
        ({"forbidden": {2: (3,), -2: (4,)}}, "places of forced and forbidden tokens .* got -2"),
    ],
)
def test_bounds_that_contradict_themselves_are_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Bounds(**{"stop": STOP, "longest": 5, **settings})


@every_way
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"longest": [3, 1, 1]}, "longest is given for 3 sequences, 2 came"),
        ({"prefix": [[3]]}, "prefix is given for 1 sequences, 2 came"),
        ({"prefix": [[], [3] * 6]}, "sequence 1 must begin with 6 tokens and may have 5"),
        ({"prefix": [[], [9]]}, "the prefix of sequence 1 names token 9; they are numbered 0 to 5"),
        ({"never": (6,)}, "never names token 6; they are numbered 0 to 5"),
        ({"stop": -1}, "stop names token -1; they are numbered 0 to 5"),
    ],
)
def test_bounds_that_do_not_fit_the_batch_are_refused(
    write: Any, settings: Any, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        write(Chain([0, 1], 6), begin(2), Bounds(**{"stop": STOP, "longest": 5, **settings}))


def test_what_is_allowed_keeps_its_log_probability() -> None:
    logs = torch.randn(2, 6).log_softmax(-1)
    bounds = Bounds(STOP, longest=9, shortest=2, prefix=[[4], []], never=(1,))
    found = bounds.rule_out(logs.clone(), 0, [1, 0])
    assert found[0].isfinite().tolist() == [False, False, True, True, True, True]
    assert found[1].isfinite().tolist() == [False, False, False, False, True, False]
    assert torch.equal(found[found.isfinite()], logs[found.isfinite()])
    assert bounds.rule_out(logs.clone(), 2, [0, 1]).isfinite().sum() == 10


def test_a_loop_is_a_few_tokens_over_and_over() -> None:
    bounds = Bounds(STOP, longest=99, loop=8)
    assert bounds.loops([7, 5, 6, 5, 6, 5, 6, 5, 6])
    assert bounds.loops([3] * 8)
    assert not bounds.loops([3] * 7), "not yet"
    assert not bounds.loops([1, 2, 3, 1, 2, 3, 1, 2, 3]), "three are more than a quarter"
    assert not bounds.loops([5, 6, 5, 6, 5, 6, 5, 7])
    assert not Bounds(STOP, longest=99).loops([3] * 99)


PATIENT = {
    **WRITERS,
    "beam": lambda *a: [
        found[0] for found in beam(*a, DecodingConfig(beam=3, early_stopping=False))
    ],
}


@pytest.mark.parametrize("write", PATIENT.values(), ids=PATIENT)
def test_a_sequence_that_goes_round_in_a_loop_ends_and_its_neighbours_do_not(write: Any) -> None:
    round_ = [[4, 5][i % 2] for i in range(99)]
    onward = [1 + (i * i) % 7 for i in range(20)]
    step = Scripted(round_, onward + 80 * [STOP], round_)
    first, second, last = write(step, begin(3), Bounds(STOP, longest=90, loop=16))
    assert first == last
    assert len(first.ids) == 16
    assert not first.finished
    assert second.ids == onward
    assert second.finished
    assert len(write(Scripted(round_), begin(1), Bounds(STOP, longest=90))[0].ids) == 90


@pytest.mark.parametrize("write", [greedy, lambda *all_of: [one for one, *_ in beam(*all_of)]])
def test_each_of_several_stops_ends_a_sequence(write: Any) -> None:
    rows = [5, 6, STOP, 4], [5, 7, 6, 4]
    bounds = Bounds((STOP, 7), longest=4)
    found = write(Scripted(*rows), begin(2), bounds)
    assert [(one.ids, one.finished) for one in found] == [([5, 6], True), ([5], True)]
    late = write(Scripted(*rows), begin(2), Bounds((STOP, 7), longest=4, shortest=4))
    assert not any({STOP, 7} & {*one.ids} for one in late)
