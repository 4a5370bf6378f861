"""One sequence as it is written, and steps around a step."""

from typing import Any

import pytest
import torch
from torch import Tensor
from writers import STOP, Chain, Fixed, Scripted, begin

from manyheads import (
    Bounds,
    CachedStep,
    Causal,
    Decoder,
    DecodingConfig,
    Embedding,
    Sampling,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    beam,
    greedy,
    line,
    sample,
)
from manyheads.decoding.drafters import NgramLookup
from manyheads.decoding.drafts import Drafter
from manyheads.decoding.strategies import decode, stream
from manyheads.decoding.wrappers import Moving, Repeats


def network() -> Decoder:
    words = Embedding(10, 16)
    shape = TransformerConfig(width=16, depth=2, heads=2, dropout=0.0)
    stack = Stack.of(shape, Causal(), position=Sinusoidal())
    return Decoder(words, stack, Tied(words)).double().eval()


# ---- streaming -------------------------------------------------------------------------------


@pytest.mark.parametrize("source", range(6))
@pytest.mark.parametrize("how", [DecodingConfig(), Sampling(seed=3)])
def test_a_stream_is_what_would_be_written_at_once(source: int, how: Sampling) -> None:
    bounds = Bounds(STOP, longest=7, shortest=2, never=(1,))
    found = [*stream(Chain([source], 6), begin(1), bounds, how, number=source)]
    step = Chain([source], 6)
    ((wanted,),) = decode(step, begin(1), bounds, how, numbers=[source])
    assert [log for _, log in found] == wanted.logs
    assert [token for token, _ in found] == wanted.ids + [STOP] * wanted.finished


@pytest.mark.parametrize("drafter", [None, NgramLookup()], ids=["plain", "drafted"])
def test_a_stream_ends_where_a_text_goes_round_in_a_loop(drafter: Drafter | None) -> None:
    step, bounds = Scripted([5, 6] * 20), Bounds(STOP, longest=30, loop=8)
    assert [token for token, _ in stream(step, begin(1), bounds, drafter=drafter)] == [5, 6] * 4


def test_nothing_is_computed_before_it_is_asked_for_nor_after_it_is_closed() -> None:
    step = Scripted([3, 4, 5, STOP])
    going = stream(step, begin(1), Bounds(STOP, longest=9))
    assert step.batches == []
    assert [next(going)[0], next(going)[0]] == [3, 4]
    going.close()  # type: ignore[attr-defined]
    assert len(step.batches) == 2


def test_gradients_are_off_only_while_a_token_is_computed() -> None:
    for _ in stream(Scripted([3, STOP]), begin(1), Bounds(STOP, longest=9)):
        assert torch.is_grad_enabled()


def test_several_sequences_are_not_streamed() -> None:
    with pytest.raises(ValueError, match="one sequence is streamed at a time, 2 came"):
        next(stream(Chain([0, 1], 6), begin(2), Bounds(STOP, longest=3)))


# ---- another end -----------------------------------------------------------------------------


@pytest.mark.parametrize("write", [greedy, lambda *a: sample(*a[:3], Sampling(), None, a[3])])
def test_a_sequence_may_be_over_for_a_reason_of_its_own(write: Any) -> None:
    asked = []

    def over(row: int, token: int) -> bool:
        asked.append((row, token))
        return token == 5

    step = Scripted([3, 5, 5, 5], [4, 4, 4, STOP])
    first, second = write(step, begin(2), Bounds(STOP, longest=3), over)
    assert (first.ids, second.ids) == ([3, 5], [4, 4, 4])
    assert not first.finished
    assert asked == [(0, 3), (1, 4), (0, 5), (1, 4)]
    assert step.batches == [2, 2, 1]


# ---- repetitions -----------------------------------------------------------------------------


class Scores(Chain):
    """The same scores at every step."""

    def __init__(self, scores: list[float], batch: int = 1):
        super().__init__([0] * batch, len(scores))
        self.fixed = torch.tensor(scores)

    def scores(self, source: int, history: list[int]) -> Tensor:
        return self.fixed


def test_what_was_read_or_written_is_divided_where_positive_and_multiplied_where_not() -> None:
    step = Repeats(Scores([2.0, -2.0, 1.0, -1.0, 0.0]), 4.0)
    assert step(torch.tensor([[0, 1]])).tolist() == [[0.5, -8.0, 1.0, -1.0, 0.0]]
    assert step(torch.tensor([[3]])).tolist() == [[0.5, -8.0, 1.0, -4.0, 0.0]]
    assert step(torch.tensor([[2]])).tolist() == [[0.5, -8.0, 0.25, -4.0, 0.0]]


def test_greedy_with_a_penalty_takes_another_token_each_time() -> None:
    bounds = Bounds(None, longest=4)
    plain, dear = (
        greedy(step, begin(1), bounds)[0]
        for step in (
            Scores([4.0, 9.0, 3.0, 2.0, 1.0]),
            Repeats(Scores([4.0, 9.0, 3.0, 2.0, 1.0]), 9.0),
        )
    )
    assert plain.ids == [1, 1, 1, 1]
    assert dear.ids == [0, 2, 3, 1]  # the prompt holds 1, whose score of 9 has become 1
    first = torch.tensor([4.0, 1.0, 3.0, 2.0, 1.0]).log_softmax(-1)[0].item()
    assert dear.logs[0] == pytest.approx(first)


def test_what_is_spared_is_as_likely_as_before() -> None:
    step = Repeats(Scores([2.0, 2.0]), 2.0, spared=[1])
    assert step(torch.tensor([[0, 1]])).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("way", ["greedy", "sample", "beam"])
def test_a_penalised_sequence_does_not_depend_on_its_batch(way: str) -> None:
    bounds = Bounds(STOP, longest=6)

    def write(sources: list[int]) -> Any:
        step, start = Repeats(Chain(sources, 6), 1.7), begin(len(sources))
        if way == "sample":
            return sample(step, start, bounds, Sampling(), numbers=sources)
        return (
            greedy(step, start, bounds)
            if way == "greedy"
            else beam(step, start, bounds, DecodingConfig(beam=3))
        )

    together = write([*range(7)])
    assert [write([n])[0] for n in range(7)] == together


def test_a_penalty_of_one_changes_nothing_and_of_none_is_refused() -> None:
    bounds = Bounds(STOP, longest=6)
    assert greedy(Repeats(Chain([3], 6), 1.0), begin(1), bounds) == greedy(
        Chain([3], 6), begin(1), bounds
    )
    with pytest.raises(
        ValueError, match="repetition penalty is over 0, and 1 changes nothing, got 0"
    ):
        Repeats(Fixed([0.5, 0.5]), 0)


# ---- past the context ------------------------------------------------------------------------


@torch.no_grad()
def by_hand(model: Decoder, prompt: list[int], context: int, count: int) -> list[int]:
    """Everything read anew at every step."""
    seen, out = prompt, []
    for _ in range(count):
        if len(seen) > context:
            seen = seen[-max(context // 2, 1) :]
        out.append(int(model(Tokens(torch.tensor([seen]), line(len(seen))))[0, -1].argmax()))
        seen = [*seen, out[-1]]
    return out


@pytest.mark.parametrize("context", [1, 2, 5, 8, 40])
def test_past_the_context_the_last_half_is_read_anew(context: int) -> None:
    model = network()
    prompts = torch.tensor([[1, 2, 3, 7, 9], [4, 5, 6, 8, 8]])[:, : min(5, context)]
    step = Moving(lambda: CachedStep(model), context)
    found = greedy(step, prompts, Bounds(None, longest=30))
    assert [one.ids for one in found] == [
        by_hand(model, row, context, 30) for row in prompts.tolist()
    ]


@pytest.mark.parametrize("early", [True, False])
def test_sequences_past_the_context_do_not_depend_on_their_batch(early: bool) -> None:
    model, bounds = network(), Bounds(2, longest=14)
    prompts = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9], [3, 3, 3]])

    def write(some: Tensor) -> list[list[int]]:
        step = Moving(lambda: CachedStep(model), 6)
        return [
            one.ids
            for (one,) in beam(step, some, bounds, DecodingConfig(beam=3, early_stopping=early))
        ]

    assert write(prompts) == [write(prompts[n : n + 1])[0] for n in range(4)]


def test_a_context_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="a context has 1 token or more, got 0"):
        Moving(lambda: Chain([0], 6), 0)
    with pytest.raises(ValueError, match="a context of 2 tokens does not hold the 3 that came"):
        Moving(lambda: Chain([0], 6), 2)(torch.tensor([[1, 2, 3]]))
