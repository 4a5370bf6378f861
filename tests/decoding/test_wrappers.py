"""Steps around a step: what comes only at a beat, and windows that move by beats."""

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor
from writers import STOP, Chain, Fixed, begin

from manyheads import (
    Bounds,
    CachedStep,
    Causal,
    Decoder,
    Embedding,
    Rotary,
    Sampling,
    Stack,
    Tied,
    TransformerConfig,
    greedy,
    sample,
)
from manyheads.decoding.step import RewindableStep
from manyheads.decoding.wrappers import Moving, Repeats, WholeBeats
from manyheads.tasks.music.leading import VoiceLeading


class Noted(Chain):
    """Keeps what it has read."""

    def __init__(self, all_read: list[list[int]], batch: int = 1):
        super().__init__([0] * batch, 9)
        self.all_read = all_read

    def read(self, ids: Tensor) -> Tensor:
        self.all_read.append(ids[0].tolist())
        return super().read(ids)


# ---- whole beats -----------------------------------------------------------------------------


def test_the_stop_comes_only_after_whole_beats() -> None:
    lengths = set()
    for seed in range(40):
        step = WholeBeats(Fixed([0.5, 0.0, 0.3, 0.2]), STOP, 4)
        (one,) = sample(step, begin(1), Bounds(STOP, longest=40), Sampling(seed=seed))
        lengths.add(len(one.ids))
    assert {length % 4 for length in lengths} == {0}
    assert len(lengths) > 2


# ---- windows that move by beats --------------------------------------------------------------


@pytest.mark.parametrize("context", [8, 12, 20, 24])
def test_what_is_read_anew_begins_with_a_beat(context: int) -> None:
    read: list[list[int]] = []
    step = Moving(lambda: Noted(read), context, beat=4)
    (one,) = greedy(step, begin(1), Bounds(None, longest=70))
    document = [1, *one.ids]
    moved = [some for some in read[1:] if len(some) > 1]
    assert moved
    for i, some in ((i, some) for i, some in enumerate(read) if len(some) > 1):
        assert (i + 1 - len(some)) % 4 == 0
        assert document[i + 1 - len(some) : i + 1] == some
        assert context // 2 <= len(some) <= context


def test_a_context_that_beats_do_not_divide_is_refused() -> None:
    for context in (4, 10):
        with pytest.raises(
            ValueError,
            match="moves by 4 tokens has 8, 12 or another multiple of them, got " + str(context),
        ):
            Moving(lambda: Chain([0], 6), context, beat=4)


# ---- drafts: several tokens at once, and back ------------------------------------------------


@cache
def language() -> Decoder:
    torch.manual_seed(0)
    words, shape = Embedding(140, 16), TransformerConfig(width=16, depth=2, heads=2, dropout=0.0)
    return Decoder(words, Stack.of(shape, Causal(), relative=Rotary()), Tied(words)).double().eval()


def bare() -> CachedStep:
    return CachedStep(language())


WRAPPED: dict[str, Callable[[], RewindableStep]] = {
    "moving": lambda: Moving(bare, 6),
    "moving by beats": lambda: Moving(bare, 8, beat=4),
    "within": lambda: Moving(bare, 40),
    "repeats": lambda: Repeats(bare(), 1.5, spared=[2]),
    "beats": lambda: WholeBeats(bare(), STOP, 4),
    "voices": lambda: VoiceLeading(bare(), 5.0),
    "all": lambda: WholeBeats(VoiceLeading(Repeats(Moving(bare, 8, 4), 1.3), 5.0), STOP, 4),
}


@torch.no_grad()
@pytest.mark.parametrize("kind", WRAPPED)
def test_all_positions_are_as_one_by_one(kind: str) -> None:
    ids = torch.randint(140, (3, 20), generator=torch.Generator().manual_seed(1))
    together, single = WRAPPED[kind](), WRAPPED[kind]()
    one_by_one = torch.stack([single(ids[:, i : i + 1]) for i in range(20)], 1)
    found = torch.cat([together.read(part) for part in ids.split([1, 4, 5, 6, 4], 1)], 1)
    torch.testing.assert_close(found, one_by_one, atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("length", [0, 3, 6, 8, 9, 13, 14])
def test_what_was_rolled_back_was_never_read(kind: str, length: int) -> None:
    ids = torch.randint(140, (3, 20), generator=torch.Generator().manual_seed(1))
    drafted, fresh = WRAPPED[kind](), WRAPPED[kind]()
    for part in ids[:, :14].split(5, 1):
        drafted.read(part)
    drafted.crop(length)
    for i in range(length):
        fresh(ids[:, i : i + 1])
    rows = torch.tensor([2, 0])
    for step in (drafted, fresh):
        step.select(rows)
    after = ids[rows, length : length + 6]
    torch.testing.assert_close(drafted.read(after), fresh.read(after), atol=1e-10, rtol=0)


def test_no_step_goes_back_to_what_it_has_not_read() -> None:
    for make in WRAPPED.values():
        step = make()
        step.read(torch.ones(1, 4, dtype=torch.long))
        for length in (-1, 5):
            with pytest.raises(ValueError, match=f"4 tokens were read: .* of them, not {length}"):
                step.crop(length)
