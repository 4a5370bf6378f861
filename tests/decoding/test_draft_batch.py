"""Drafts for several sequences at once: each is the one that is written without."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from writers import SOURCES, STOP, TRANSFORMERS, begin, model_of, translator

from manyheads import Bounds, CachedStep, DecodingConfig, Sampling
from manyheads.decoding.bounds import Hypothesis
from manyheads.decoding.draft_batch import DraftedBatch
from manyheads.decoding.draft_heads import DraftHead, HeadDraft, HeadDrafter
from manyheads.decoding.drafters import LastPass, NgramLookup, Smaller
from manyheads.decoding.drafts import MARGINS, Draft, DraftCounts, Drafter
from manyheads.decoding.packed import PackedStep
from manyheads.decoding.strategies import decode

GREEDY, DRAWN = DecodingConfig(), Sampling(temperature=1.0, top_p=0.9, seed=3)
ROWS = len(SOURCES.ids)
NUMBERS = [4, 0, 9, 1, 2, 3]
READ = [[3, 4, 5], [6, 7, 8, 9, 10], [11], [2, 2, 3, 2], [9, 4], [5]]


class Knowing(LastPass):
    """Guesses what will be written, but for every third time."""

    def __init__(self, wanted: Sequence[Hypothesis], every: int = 3):
        super().__init__()
        self.wanted, self.every = iter(wanted), every

    def start(self, source: Sequence[int]) -> Draft:
        return KnownText(next(self.wanted).ids, self.every)


class KnownText:
    def __init__(self, ids: Sequence[int], every: int):
        self.ids, self.every = ids, every

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        right = [*self.ids[len(ids) : len(ids) + 1 + len(ids) % self.every]]
        return right if len(ids) % self.every != 2 else [5, 5]

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        pass


def make_drafter(name: str, network: Any, wanted: Sequence[Hypothesis]) -> Drafter:
    if name == "heads":
        torch.manual_seed(2)
        return HeadDrafter(DraftHead(16, torch.arange(12)), network)
    if name == "model":
        other = translator(1)
        return Smaller(
            lambda source: (CachedStep(other.decoder, other.encode(torch.tensor([source]))), [1])
        )
    return {"again": LastPass, "lookup": NgramLookup, "right": lambda: Knowing(wanted)}[name]()


def write(
    network: Any,
    drafter: Drafter,
    bounds: Bounds,
    how: Any,
    start: Any = None,
    over: Any = None,
    counts: DraftCounts | None = None,
) -> list[Hypothesis]:
    start = begin(ROWS) if start is None else start
    step = PackedStep(network.decoder, network.encode(SOURCES))
    return DraftedBatch(step, start, bounds, how, drafter, READ, NUMBERS, over, counts).write()


def write_plainly(
    network: Any, bounds: Bounds, how: Any, start: Any = None, over: Any = None
) -> list[Hypothesis]:
    step = CachedStep(network.decoder, network.encode(SOURCES))
    start = begin(ROWS) if start is None else start
    return [one for one, *_ in decode(step, start, bounds, how, NUMBERS, over)]


def assert_same(found: Sequence[Hypothesis], wanted: Sequence[Hypothesis]) -> None:
    assert [one.ids for one in found] == [one.ids for one in wanted]
    assert [one.finished for one in found] == [one.finished for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.logs == pytest.approx(other.logs, abs=1e-9)


@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize("name", ["again", "lookup", "heads", "model", "right"])
def test_every_drafter_leaves_every_row_as_it_is(name: str, kind: str) -> None:
    network, bounds = TRANSFORMERS[kind](), Bounds(STOP, longest=[11, 5, 9, 1, 0, 10])
    for how in (GREEDY, DRAWN):
        wanted = write_plainly(network, bounds, how)
        assert len({len(one.logs) for one in wanted}) > 3  # rows end at different times
        assert_same(write(network, make_drafter(name, network, wanted), bounds, how), wanted)


@pytest.mark.parametrize("how", [GREEDY, DRAWN])
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds((STOP, 7), longest=9, never=(3, 1)),
        Bounds(STOP, longest=9, shortest=4),
        Bounds(STOP, longest=9, prefix=[[5, 6], [], [7], [8, 8, 8], [], [9]]),
        Bounds(STOP, longest=9, forced={1: 4}, forbidden={0: (4, 5, 6), 3: (4, 7)}),
        Bounds(None, longest=20, loop=8),
    ],
)
def test_stops_prefixes_and_forbidden_tokens_hold_in_each_row(bounds: Bounds, how: Any) -> None:
    network = model_of("rotary")
    wanted = write_plainly(network, bounds, how)
    for name in ("again", "right"):
        assert_same(write(network, make_drafter(name, network, wanted), bounds, how), wanted)


def test_rows_may_end_otherwise_and_begin_with_several_tokens() -> None:
    network, bounds = model_of("sinusoidal"), Bounds(None, longest=8)
    start = torch.randint(3, 12, (ROWS, 4), generator=torch.Generator().manual_seed(0))

    def over(row: int, token: int) -> bool:
        return token % 3 == row % 3

    for how in (GREEDY, DRAWN):
        wanted = write_plainly(network, bounds, how, start, over)
        assert len({len(one.logs) for one in wanted}) > 1
        found = write(network, Knowing(wanted), bounds, how, start, over)
        assert_same(found, wanted)


def test_what_is_guessed_right_takes_fewer_passes() -> None:
    network, bounds, counts = model_of("rotary"), Bounds(None, longest=12), DraftCounts()
    wanted = write_plainly(network, bounds, GREEDY)
    write(network, Knowing(wanted), bounds, GREEDY, counts=counts)
    assert counts.tokens == 12 * ROWS
    assert counts.passes < 12  # one pass is for all rows
    assert counts.unsure == 0


@pytest.mark.parametrize("how", [GREEDY, DRAWN])
def test_where_two_are_near_a_row_is_read_alone(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MARGINS, torch.float64, math.inf)
    network, bounds, counts = model_of("rotary"), Bounds(STOP, longest=7), DraftCounts()
    wanted = write_plainly(network, bounds, how)
    assert_same(write(network, Knowing(wanted), bounds, how, counts=counts), wanted)
    assert counts.unsure == counts.tokens == sum(len(one.logs) for one in wanted)


def test_heads_see_the_state_and_the_memory_of_their_own_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[tuple[float, tuple[int, ...]], torch.Tensor] = {}
    tell = HeadDraft.tell

    def tell_and_note(self: HeadDraft, ids: Sequence[int], *rest: Any) -> None:
        tell(self, ids, *rest)
        assert self.state is not None
        assert self.looked is not None
        seen[round(float(self.looked[0].sum()), 4), (*ids,)] = self.state

    monkeypatch.setattr(HeadDraft, "tell", tell_and_note)
    network, bounds = translator(0).float(), Bounds(STOP, longest=9)

    def make() -> HeadDrafter:
        torch.manual_seed(2)
        return HeadDrafter(DraftHead(16, torch.arange(12)), network)

    write(network, make(), bounds, GREEDY)
    together = dict(seen)
    seen.clear()
    drafter = make()
    for row in range(ROWS):
        source = torch.tensor([READ[row]])
        step = CachedStep(network.decoder, network.encode(source))
        decode(step, begin(1), bounds, GREEDY, drafter=drafter, sources=[READ[row]])
    both = together.keys() & seen.keys()
    assert len(both) > 2 * ROWS
    for key in both:
        assert torch.allclose(together[key], seen[key], atol=1e-4)


def test_a_row_that_goes_back_reads_on_as_if_it_had_not_come_so_far() -> None:
    network = model_of("rotary")
    memory = network.encode(SOURCES)
    step = PackedStep(network.decoder, memory)
    step.read({0: [1, 5, 6], 1: [1], 2: [1, 7]})
    step.crop(0, 1)
    found = step.read({2: [8], 0: [9, 4]})
    for row, ids, at in ((2, [1, 7, 8], 0), (0, [1, 9, 4], 2)):
        alone = CachedStep(network.decoder, memory.select(torch.tensor([row])))
        assert torch.allclose(found[at], alone(torch.tensor([ids]))[0], atol=1e-12)
    with pytest.raises(ValueError, match="3 tokens were read: a step goes back to 0 to 3 of them"):
        step.crop(0, 4)
