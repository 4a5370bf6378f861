"""Steps around a step: what comes only at a beat, and windows that move by beats."""

import pytest
from torch import Tensor
from writers import STOP, Chain, Fixed, begin

from manyheads import Bounds, Sampling, greedy, sample
from manyheads.decoding.wrappers import Moving, WholeBeats


class Noted(Chain):
    """Keeps what it has read."""

    def __init__(self, all_read: list[list[int]], batch: int = 1):
        super().__init__([0] * batch, 9)
        self.all_read = all_read

    def __call__(self, ids: Tensor) -> Tensor:
        self.all_read.append(ids[0].tolist())
        return super().__call__(ids)


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
