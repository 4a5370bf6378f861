"""Batches: all examples, once, in rows that hold them, the same for the same seed and epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.batches import Packing

PACKING = Packing(rows=4, widths=(20, 24))
LENGTHS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 24)), max_size=60)


@given(lengths=LENGTHS, seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_every_example_is_packed_once_and_fits(
    lengths: list[tuple[int, int]], seed: int, epoch: int
) -> None:
    table = np.array(lengths, dtype=np.int64).reshape(-1, 2)
    batches = PACKING.batches(table, seed=seed, epoch=epoch)
    assert sorted(i for batch in batches for row in batch for i in row) == list(range(len(table)))
    assert all(len(batch) == 4 for batch in batches[:-1])
    for batch in batches:
        assert 1 <= len(batch) <= 4
        for row in batch:
            assert (table[row].sum(0) <= PACKING.widths).all()


def sentences(count: int) -> np.ndarray:
    """Lengths like those of captions: a target about as long as its source."""
    random = np.random.default_rng(0)
    source = random.gamma(6, 2.5, count).astype(np.int64).clip(3, 60)
    target = (source * random.normal(1, 0.15, count)).astype(np.int64).clip(3, 60)
    return np.stack([source, target], 1)


def test_the_plan_is_a_pure_function_of_seed_and_epoch() -> None:
    lengths = sentences(500)
    one = PACKING_WIDE.batches(lengths, seed=1, epoch=2)
    assert PACKING_WIDE.batches(lengths, seed=1, epoch=2) == one
    assert PACKING_WIDE.batches(lengths, seed=1, epoch=3) != one
    assert PACKING_WIDE.batches(lengths, seed=2, epoch=2) != one


PACKING_WIDE = Packing(rows=4, widths=(256, 256))


def test_rows_are_almost_wholly_filled() -> None:
    lengths = sentences(20_000)
    packing = Packing(rows=8, widths=(512, 512))
    batches = packing.batches(lengths, seed=0, epoch=0)
    assert packing.filled(batches, lengths) > 0.96


def test_batches_mix_long_and_short() -> None:
    lengths = sentences(20_000)
    batches = Packing(rows=8, widths=(512, 512)).batches(lengths, seed=0, epoch=0)
    means = [lengths[[i for row in batch for i in row]].mean() for batch in batches[:-1]]
    assert np.std(means) < 0.35 * np.mean(means)


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(
        ValueError, match=r"example 1 has \[21, 3\] tokens, a row has room for \[20, 24\]"
    ):
        PACKING.batches([[3, 3], [21, 3]], seed=0, epoch=0)
    with pytest.raises(ValueError, match="each example has 2 lengths here"):
        PACKING.batches([3, 4], seed=0, epoch=0)
