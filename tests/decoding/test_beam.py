"""The best of several sequences."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from writers import SOURCES, STOP, Chain, Fixed, all_sequences, begin, translator

from manyheads import Bounds, CachedStep, DecodingConfig, Hypothesis, Tokens, beam, greedy, line
from manyheads.decoding.beam import Candidates

BOUNDS = {
    "plain": Bounds(STOP, longest=4),
    "no stop": Bounds(None, longest=3),
    "bounded": Bounds(STOP, longest=4, shortest=2, prefix=[[2]], never=(1,)),
}


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_a_beam_wide_enough_finds_the_best_of_all_sequences(
    bounds: Bounds, early: bool, penalty: float
) -> None:
    for source in range(3):
        chain = Chain([source], 3)
        there_are = all_sequences(chain, source, bounds)
        best, count = min(7, len(there_are)), len(there_are)
        how = DecodingConfig(beam=count, nbest=best, length_penalty=penalty, early_stopping=early)
        (found,) = beam(chain, begin(1), bounds, how)
        wanted = sorted(there_are, key=lambda one: one.normalised_score(penalty), reverse=True)[
            : how.nbest
        ]
        assert [one.ids for one in found] == [one.ids for one in wanted]
        assert [one.finished for one in found] == [one.finished for one in wanted]
        assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in wanted])


def test_a_patient_search_ends_only_when_nothing_open_can_be_better() -> None:
    # Stopping at once is worth -.7, but after that wait tokens that are as good as sure.
    class Late(Fixed):
        def scores(self, source: int, history: list[int]) -> torch.Tensor:
            first, stop = [0.5, 0.49, 0.01], [0.98, 0.01, 0.01]
            sure = stop if len(history) == 6 else [0.01, 0.98, 0.01]
            return torch.tensor(first if len(history) == 1 else sure).log()

    bounds, patient = Bounds(STOP, longest=9), DecodingConfig(beam=1, early_stopping=False)
    assert beam(Late([0.0] * 3), begin(1), bounds, DecodingConfig(beam=1))[0][0].ids == []
    assert beam(Late([0.0] * 3), begin(1), bounds, patient)[0][0].ids == [1] * 5
    # Without a penalty no longer sequence can be better than the one that stopped.
    step = Late([0.0] * 3)
    assert beam(step, begin(1), bounds, replace(patient, length_penalty=0))[0][0].ids == []
    assert len(step.batches) == 1


def test_a_beam_of_one_is_greedy() -> None:
    bounds = Bounds(STOP, longest=[*range(12)] * 3, never=(3,))
    wanted = greedy(Chain([*range(36)], 6), begin(36), bounds)
    for how in (
        DecodingConfig(beam=1),
        DecodingConfig(beam=1, length_penalty=0, early_stopping=False),
    ):
        assert beam(Chain([*range(36)], 6), begin(36), bounds, how) == [[one] for one in wanted]
    assert len({one.finished for one in wanted}) == 2
    assert any(one.ids == [] and one.finished for one in wanted)  # the top token was the stop


@torch.no_grad()
@pytest.mark.parametrize("seed", range(8))
def test_a_beam_of_one_is_greedy_in_transformers(seed: int) -> None:
    model = translator(seed)
    for stop in range(2, 6):
        bounds = Bounds(stop, longest=8)
        step = CachedStep(model.decoder, model.encode(SOURCES))
        wanted = greedy(step, begin(6), bounds)
        step = CachedStep(model.decoder, model.encode(SOURCES))
        found = beam(step, begin(6), bounds, DecodingConfig(beam=1))
        assert [one.ids for (one,) in found] == [one.ids for one in wanted]
        assert [one.finished for (one,) in found] == [one.finished for one in wanted]


def same(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    assert [one.ids for one in found] == [one.ids for one in wanted]
    assert [one.log_prob for one in found] == pytest.approx(
        [one.log_prob for one in wanted], abs=1e-5
    )


@pytest.mark.parametrize("early", [True, False])
def test_a_sentence_does_not_depend_on_its_batch(early: bool) -> None:
    longest, prefix = [0, 2, 5, 9, 9, 9, 4, 9], [[], [2], [3, 3], [], [], [2], [], []]
    how = DecodingConfig(beam=4, nbest=3, early_stopping=early)
    step = Chain([*range(8)], 6)
    together = beam(step, begin(8), Bounds(STOP, longest, prefix=prefix), how)
    for n in range(8):
        bounds = Bounds(STOP, longest[n], prefix=[prefix[n]])
        same(beam(Chain([n], 6), begin(1), bounds, how)[0], together[n])
    assert min(step.batches[1:]) < 32  # those that are done leave


@torch.no_grad()
def test_a_transformers_sentence_does_not_depend_on_its_batch() -> None:
    for seed in range(4):
        model, bounds, how = translator(seed), Bounds(2, longest=8), DecodingConfig(beam=3, nbest=3)
        together = beam(CachedStep(model.decoder, model.encode(SOURCES)), begin(6), bounds, how)
        for n in range(6):
            memory = model.encode(SOURCES).select(torch.tensor([n]))
            (alone,) = beam(CachedStep(model.decoder, memory), begin(1), bounds, how)
            same(alone, together[n])


@torch.no_grad()
def test_the_score_is_that_of_reading_the_whole_sequence() -> None:
    for seed in range(4):
        model = translator(seed)
        step = CachedStep(model.decoder, model.encode(SOURCES))
        for n, found in enumerate(
            beam(step, begin(6), Bounds(2, longest=6), DecodingConfig(beam=4, nbest=4))
        ):
            memory = model.encode(SOURCES).select(torch.tensor([n]))
            for one in found:
                wanted = [*one.ids, 2][: len(one.logs)]
                ids = torch.tensor([[1, *wanted[:-1]]])
                scores = model.decoder(Tokens(ids, line(ids.shape[1])), memory)
                logs = scores[0].log_softmax(-1).gather(1, torch.tensor(wanted)[:, None])
                assert one.logs == pytest.approx(logs[:, 0].tolist(), abs=1e-5)


@pytest.mark.parametrize("vocabulary", [1, 7, 64, 65, 128, 191, 1000])
def test_the_candidates_are_the_best_of_all_continuations(vocabulary: int) -> None:
    scores = torch.randn(6, 5)
    scores[0, 1:] = -torch.inf  # as at the start, where one sequence is alive
    logs = torch.randn(30, vocabulary).log_softmax(-1)
    logs[:, vocabulary // 2] = -torch.inf
    found = Candidates.of(scores, logs, 10)
    total = (scores.view(-1, 1) + logs).view(6, -1)
    wanted = total.topk(min(10, total.shape[1])).values
    torch.testing.assert_close(found.totals, wanted)
    assert found.rows.div(5, rounding_mode="floor").eq(torch.arange(6)[:, None]).all()
    torch.testing.assert_close(found.logs, logs[found.rows, found.tokens])
    again = scores.view(-1)[found.rows] + found.logs
    torch.testing.assert_close(again, found.totals)
    numbers = found.rows * vocabulary + found.tokens
    assert all(len(set(row)) == len(row) for row in numbers.tolist())


def test_sequences_come_best_first_and_all_different() -> None:
    for found in beam(
        Chain([*range(12)], 4), begin(12), Bounds(STOP, longest=6), DecodingConfig(beam=5, nbest=5)
    ):
        assert len({(*one.ids, one.finished) for one in found}) == 5
        ranked = [one.log_prob / len(one.logs) for one in found]
        assert ranked == sorted(ranked, reverse=True)


def test_a_wider_beam_finds_what_greedy_misses() -> None:
    bounds = Bounds(STOP, longest=6)
    how = DecodingConfig(beam=6, length_penalty=0.0)
    found = beam(Chain([*range(30)], 5), begin(30), bounds, how)
    wanted = greedy(Chain([*range(30)], 5), begin(30), bounds)
    gains = [best.log_prob - one.log_prob for (best,), one in zip(found, wanted, strict=True)]
    assert min(gains) > -1e-5
    assert max(gains) > 0.5


def test_several_stops_leave_as_many_open_sequences_as_the_beam_is_wide() -> None:
    # The best four continuations of two sequences are stops: each goes on with the token after.
    step = Fixed([0.45, 0.45, 0.06, 0.04])
    how = DecodingConfig(beam=2, nbest=2, length_penalty=9.0, early_stopping=False)
    (found,) = beam(step, begin(1), Bounds((0, 1), longest=4), how)
    assert [one.ids for one in found] == [[2, 2, 2], [2, 2, 2]]


def test_where_there_are_fewer_sequences_than_asked_no_dead_one_fills_up() -> None:
    (found,) = beam(
        Fixed([0.4, 0.6, 0.0]),
        begin(1),
        Bounds(STOP, longest=2),
        DecodingConfig(beam=5, nbest=5, length_penalty=0.0),
    )
    assert [one.ids for one in found] == [[], [1, 1], [1]]
    (only,) = beam(Fixed([1.0]), begin(1), Bounds(STOP, longest=2), DecodingConfig(beam=2, nbest=2))
    assert [(one.ids, one.finished) for one in only] == [([], True)]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"beam": 0}, "beam is 1 or more, got 0"),
        ({"beam": 3, "nbest": 4}, "4 best were asked for, a beam of 3 finds 3 at most"),
        ({"nbest": 0}, "nbest is 1 or more, got 0"),
        ({"length_penalty": -1.0}, "length_penalty is 0 or more, got -1.0"),
    ],
)
def test_a_beam_that_cannot_be_is_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DecodingConfig(**settings)


@pytest.mark.parametrize("write", [greedy, beam])
def test_no_sequences_are_none_and_no_tokens_are_refused(write: Any) -> None:
    model = translator(0)
    step = lambda: CachedStep(model.decoder, model.encode(SOURCES))  # noqa: E731
    how = [DecodingConfig(beam=2)] if write is beam else []
    assert write(step(), begin(0), Bounds(STOP, longest=4), *how) == []
    with pytest.raises(ValueError, match="from one token or more a sequence, 6 x 0 came; the sign"):
        write(step(), begin(6)[:, :0], Bounds(STOP, longest=4), *how)
