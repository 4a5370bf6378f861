"""Writing until the end."""

import math

import pytest
import torch
from writers import SOURCES, STOP, Chain, Fixed, Scripted, begin, translator

from manyheads import (
    Bounds,
    CachedStep,
    Causal,
    Decoder,
    Embedding,
    Sinusoidal,
    Stack,
    Static,
    Tied,
    Tokens,
    TransformerConfig,
    greedy,
    line,
)
from manyheads.decoding.config import Sampling
from manyheads.decoding.greedy import ChooseToken, choose_likeliest, write_ahead, write_each
from manyheads.decoding.sample import choose_by_chance


def test_each_sequence_ends_at_its_own_stop() -> None:
    step = Scripted([3, STOP, 5, 5], [4, 4, 4, STOP])
    first, second = greedy(step, begin(2), Bounds(STOP, longest=10))
    assert (first.ids, second.ids) == ([3], [4, 4, 4])
    assert first.finished
    assert second.finished
    assert (len(first.logs), len(second.logs)) == (2, 4)


def test_writing_ends_unfinished_at_the_longest_of_each() -> None:
    step = Scripted([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, STOP])
    found = greedy(step, begin(3), Bounds(STOP, longest=[2, 0, 3]))
    assert [one.ids for one in found] == [[1, 2], [], [1, 2, 3]]
    assert not any(one.finished for one in found)
    assert len(step.batches) == 3


def test_where_there_is_no_stop_only_the_length_ends() -> None:
    (found,) = greedy(Scripted([0, 1, 0, 2]), begin(1), Bounds(None, longest=4))
    assert found.ids == [0, 1, 0, 2]
    assert not found.finished


def test_the_logs_are_those_of_the_model_and_the_score_their_sum() -> None:
    (found,) = greedy(Fixed([0.1, 0.6, 0.3]), begin(1), Bounds(STOP, longest=2, never=(1,)))
    assert found.ids == [2, 2]
    assert found.logs == pytest.approx([math.log(0.3)] * 2)
    assert found.log_prob == pytest.approx(2 * math.log(0.3))


def test_cost_follows_what_is_still_open() -> None:
    rows = [[5] * n + [STOP] * (9 - n) for n in range(8)]
    step = Scripted(*rows)
    assert [one.ids for one in greedy(step, begin(8), Bounds(STOP, longest=9))] == [
        [5] * n for n in range(8)
    ]
    assert step.batches == [8, 8, 6, 6, 4, 3, 2, 1]


def test_a_sequence_does_not_depend_on_its_batch() -> None:
    longest, prefix = [3, 7, 9, 9, 5], [[], [2, 3], [4], [], [2, 2, 2]]
    together = greedy(
        Chain([*range(5)], 6), begin(5), Bounds(STOP, longest, shortest=2, prefix=prefix)
    )
    for n in range(5):
        bounds = Bounds(STOP, longest[n], shortest=2, prefix=[prefix[n]])
        assert greedy(Chain([n], 6), begin(1), bounds) == [together[n]]
    assert len({one.finished for one in together}) == 2


@torch.no_grad()
def test_cached_greedy_writing_equals_reading_everything_anew() -> None:
    embedding = Embedding(10, 24)
    stack = Stack.of(
        TransformerConfig(width=24, depth=2, heads=4, dropout=0.0), Causal(), position=Sinusoidal()
    )
    model = Decoder(embedding, stack, Tied(embedding)).double().eval()
    prompt = torch.tensor([[1, 2, 3], [4, 5, 6]])
    anew = prompt
    for _ in range(6):
        scores = model(Tokens(anew, line(anew.shape[1])))
        anew = torch.cat([anew, scores[:, -1:].argmax(-1)], 1)
    for cache in (None, Static(line(12))):
        written = greedy(CachedStep(model, cache=cache), prompt, Bounds(None, longest=6))
        assert [one.ids for one in written] == anew[:, 3:].tolist()


@torch.no_grad()
def test_a_transformer_translates_alike_alone_and_in_a_batch() -> None:
    model, bounds = translator(3), Bounds(2, longest=8)
    together = greedy(CachedStep(model.decoder, model.encode(SOURCES)), begin(6), bounds)
    for n in range(6):
        memory = model.encode(SOURCES).select(torch.tensor([n]))
        (alone,) = greedy(CachedStep(model.decoder, memory), begin(1), bounds)
        assert alone.ids == together[n].ids
        assert alone.log_prob == pytest.approx(together[n].log_prob, abs=1e-5)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_host_that_looks_now_and_then_reads_the_same(drawn: bool) -> None:
    bounds = Bounds(STOP, longest=[3, 0, 30, 12, 30, 9, 30], never=(4,))

    def chosen() -> ChooseToken:
        return choose_by_chance(Sampling(temperature=1.0), range(7)) if drawn else choose_likeliest

    wanted = write_each(Chain([*range(7)], 8), begin(7), bounds, chosen())
    assert write_ahead(Chain([*range(7)], 8), begin(7), bounds, chosen()) == wanted
    assert len({len(one.ids) for one in wanted}) > 3


def test_a_loop_ends_where_a_host_that_looks_always_ends_it() -> None:
    bounds = Bounds(STOP, longest=50, loop=8)
    rows = [1, 2, 3] + [5, 6] * 20, [7] * 43
    wanted = write_each(Scripted(*rows), begin(2), bounds, choose_likeliest)
    assert write_ahead(Scripted(*rows), begin(2), bounds, choose_likeliest) == wanted
    assert [len(one.ids) for one in wanted] == [11, 8]
