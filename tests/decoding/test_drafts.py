"""Drafts: whoever guesses, the text is the one that is written without."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from writers import SOURCES, STOP, TRANSFORMERS, Chain, Fixed, Scripted, begin, model_of, translator

from manyheads import Bounds, CachedStep, DecodingConfig, Learned, Sampling, greedy
from manyheads.decoding.drafters import LastPass, NgramLookup, Smaller, make_drafter
from manyheads.decoding.drafts import (
    Draft,
    DraftCounts,
    DraftedWriting,
    Drafter,
    Drawn,
    choose_greedily,
    write_drafted,
)
from manyheads.decoding.sample import sample
from manyheads.decoding.step import RewindableStep
from manyheads.modules.stack import Memory


class Told(LastPass):
    """Guesses what it was told to, right or wrong."""

    def __init__(self, guesses: Sequence[int]):
        super().__init__()
        self.guesses = guesses

    def start(self, source: Sequence[int]) -> Draft:
        return self

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        pass

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        return [*self.guesses[len(ids) : len(ids) + most]]


def memories() -> list[Memory]:
    return [translator(0).encode(SOURCES).select(torch.tensor([i])) for i in range(3)]


def drafters(memory: Memory) -> dict[str, Drafter]:
    decoder = translator(1).decoder
    other = Smaller(lambda source: (CachedStep(decoder, memory), [1]))
    return {"again": LastPass(), "lookup": NgramLookup(), "model": other, "wrong": Told([7] * 30)}


@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize("name", ["again", "lookup", "model", "wrong"])
def test_every_drafter_leaves_the_text_as_it_is(name: str, kind: str) -> None:
    network, bounds = model_of(kind), Bounds(STOP, longest=11)
    how = Sampling(temperature=1.0, top_p=0.9, seed=3)
    for i in range(3):
        memory = network.encode(SOURCES).select(torch.tensor([i]))
        drafter = drafters(memory)[name]
        for config in (DecodingConfig(), how):
            step = CachedStep(network.decoder, memory)
            found = write_drafted(step, begin(1), bounds, config, drafter, [5, 6, 7], number=i)
            plain = CachedStep(network.decoder, memory)
            if config is how:
                (wanted,) = sample(plain, begin(1), bounds, how, [i])
            else:
                (wanted,) = greedy(plain, begin(1), bounds)
            assert found.ids == wanted.ids
            assert found.logs == pytest.approx(wanted.logs, abs=1e-9)
            assert found.finished == wanted.finished


def test_who_has_fewer_places_guesses_as_far_as_they_go() -> None:
    """And reads what it is to go on from where it lies itself."""
    seen: list[tuple[str, int]] = []

    class Elsewhere(CachedStep):
        def read(self, ids: torch.Tensor) -> torch.Tensor:
            seen.append((ids.device.type, self.length + ids.shape[1]))
            logits = super().read(torch.ones(ids.shape, dtype=torch.long))
            return 0 * logits + 100 * torch.eye(12)[7]  # always sure

    memory, other = memories()[0], translator(1, position=Learned(16, 6)).decoder
    drafter = Smaller(lambda source: (Elsewhere(other, memory), [1]), lambda: "meta")
    bounds, step = Bounds(None, 20), CachedStep(translator(0).decoder, memory)
    found = write_drafted(step, begin(1), bounds, DecodingConfig(), drafter)
    assert found.ids == greedy(CachedStep(translator(0).decoder, memory), begin(1), bounds)[0].ids
    assert {device for device, _ in seen} == {"meta"}
    assert max(length for _, length in seen) == 6


def test_what_is_guessed_right_takes_fewer_passes() -> None:
    script, counts = [3, 4, 5, 6, 7, 8, 9, STOP], DraftCounts()
    step: Any = Scripted(script)
    told = Told([3, 4, 5, 6, 9, 9, 9])
    writing = DraftedWriting(step, Bounds(STOP, 20), choose_greedily, told, counts=counts)
    assert [[token for token, _ in new] for new in writing.rounds(begin(1))] == [
        [3, 4, 5, 6, 7],  # four guesses are right, the fifth is not
        [8],  # nor is this
        [9, STOP],
    ]
    assert (counts.tokens, counts.passes, counts.drafted) == (8, 3, 3)
    assert counts.margin > 1


def test_a_stop_is_not_read_nor_what_is_guessed_after_it() -> None:
    class Watched(Scripted):
        def read(self, ids: torch.Tensor) -> torch.Tensor:
            seen.append(ids[0].tolist())
            return super().read(ids)

    seen: list[list[int]] = []
    told = Told([3, 4, STOP, 5, 6, 7])
    step: Any = Watched([3, 4, STOP])
    found = write_drafted(step, begin(1), Bounds(STOP, 20), DecodingConfig(), told)
    assert found.ids == [3, 4]
    assert seen == [[*begin(1)[0].tolist(), 3, 4]]


def test_where_two_are_near_all_is_read_as_without_a_draft() -> None:
    """One token at a time and several are rounded differently: what was read so decides."""

    class Rounded(Chain):
        def __init__(self) -> None:
            super().__init__([0], 6)
            self.widths: list[int] = []

        def read(self, ids: torch.Tensor) -> torch.Tensor:
            self.widths.append(ids.shape[1])
            logits = super().read(ids)
            # A network's cache, too, remembers how it was read.
            if self.history.shape[1] == 5 and self.widths[-5:] == [1] * 5:
                logits[:, -1, 4] += 6e-5
            return logits

        def scores(self, source: int, history: list[int]) -> torch.Tensor:
            logits = torch.zeros(6)
            logits[3], logits[4] = 5, 5 - 3e-5 if len(history) == 5 else 0
            return logits if len(history) < 6 else 9 * torch.eye(6)[STOP]

    wanted = greedy(Rounded(), begin(1), Bounds(STOP, 9))
    assert wanted[0].ids == [3, 3, 3, 3, 4]
    counts, step = DraftCounts(), Rounded()
    told: Any = Told([3] * 9)
    found = write_drafted(step, begin(1), Bounds(STOP, 9), DecodingConfig(), told, counts=counts)
    assert found == wanted[0]
    assert counts.unsure == 1
    assert step.widths[:6] == [8, 1, 1, 1, 1, 1]


def test_who_guesses_wrong_is_asked_less_and_less() -> None:
    counts, bounds = DraftCounts(), Bounds(None, 200)
    step: Any = Fixed([0.1, 0.2, 0.3, 0.4])
    write_drafted(step, begin(1), bounds, DecodingConfig(), Told([1] * 300), counts=counts)
    assert counts.tokens == counts.passes == 200
    assert counts.drafted < 12


def test_limits_stops_and_forbidden_tokens_hold() -> None:
    for bounds in (Bounds(STOP, 4), Bounds(None, 5), Bounds(STOP, 6, never=(3,), prefix=[[5, 5]])):
        wanted = greedy(Chain([1], 8), begin(1), bounds)
        step: Any = Chain([1], 8)
        assert write_drafted(step, begin(1), bounds, DecodingConfig(), Told([5] * 9)) == wanted[0]


def test_a_text_may_end_otherwise() -> None:
    ends = lambda row, token: token == 5  # noqa: E731
    step: Any = Scripted([3, 4, 5, 6, STOP])
    found = write_drafted(
        step, begin(1), Bounds(STOP, 9), DecodingConfig(), Told([3, 4, 5, 6]), over=ends
    )
    assert found.ids == [3, 4, 5]


@pytest.mark.parametrize(
    "how",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.4),
        Sampling(temperature=1.0, top_k=3),
        Sampling(temperature=1.0, top_p=0.8),
        Sampling(temperature=2.0, top_k=4, top_p=0.6),
        Sampling(temperature=0.7, min_p=0.2),
    ],
    ids=str,
)
def test_scores_that_move_by_less_than_the_margin_change_no_draw(how: Sampling) -> None:
    torch.manual_seed(0)
    logs = torch.randn(3000, 6).log_softmax(-1)
    keys = Drawn(how, 0).draw(0, len(logs))
    chosen = Drawn(how, 0).choose(logs, keys)
    near = 0
    for bound in (0.3, 0.03):
        moved = (logs + bound * (torch.rand_like(logs) - 0.5)).log_softmax(-1)
        found = Drawn(how, 0).choose(moved, keys).tokens
        for one, other, margin in zip(chosen.tokens, found, chosen.margins, strict=True):
            assert one == other or margin < bound
            near += one != other
    assert near > 50  # it is put to the test
    # And few are unsure: about one in 1 / bound.
    assert sum(margin < 1e-3 for margin in chosen.margins) < 25


def test_what_cannot_be_drafted_is_refused() -> None:
    with pytest.raises(ValueError, match="checked token by token, a beam is not; beam=1"):
        DecodingConfig(beam=4, draft="lookup")
    with pytest.raises(
        ValueError, match="there is no drafter 'nope'; there are again, lookup, heads"
    ):
        make_drafter("nope")
    step: RewindableStep = Chain([1, 2], 8)
    with pytest.raises(ValueError, match="one sequence is drafted at a time, 2 came"):
        write_drafted(step, begin(2), Bounds(STOP, 4), DecodingConfig(), LastPass())
