"""Batches: all examples, once, in rows that hold them, the same for the same seed and epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.batches import Packing, Padding

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
    used = lengths[[i for batch in batches for row in batch for i in row]].sum()
    assert used / (sum(map(len, batches)) * sum(packing.widths)) > 0.96


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


# ---- padding ---------------------------------------------------------------------------------


@given(
    lengths=LENGTHS,
    tokens=st.integers(24, 200),
    chunk=st.integers(1, 70),
    seed=st.integers(0, 9),
)
def test_every_example_is_padded_once_and_fits(
    lengths: list[tuple[int, int]], tokens: int, chunk: int, seed: int
) -> None:
    table = np.array(lengths, dtype=np.int64).reshape(-1, 2)
    batches = Padding(tokens, chunk).batches(table, seed=seed, epoch=1)
    assert sorted(i for batch in batches for row in batch for i in row) == list(range(len(table)))
    for batch in batches:
        assert batch
        assert all(len(row) == 1 for row in batch)
        assert len(batch) * table[[i for row in batch for i in row]].max() <= tokens


def test_the_padded_plan_is_a_pure_function_of_seed_and_epoch() -> None:
    lengths, padding = sentences(500), Padding(512)
    one = padding.batches(lengths, seed=1, epoch=2)
    assert padding.batches(lengths, seed=1, epoch=2) == one
    assert padding.batches(lengths, seed=1, epoch=3) != one
    assert padding.batches(lengths, seed=2, epoch=2) != one


@pytest.mark.parametrize(("tokens", "least"), [(1024, 0.97), (4096, 0.93)])
def test_padded_batches_are_almost_wholly_filled(tokens: int, least: float) -> None:
    lengths = sentences(20_000)
    batches = Padding(tokens).batches(lengths, seed=0, epoch=0)
    each = [lengths[[i for row in batch for i in row]] for batch in batches]
    room = sum(len(batch) * batch.max(0).sum() for batch in each)  # with padding, on both sides
    assert sum(batch.sum() for batch in each) / room > least


def test_a_batch_takes_as_many_rows_as_fit() -> None:
    lengths = [[4, 2]] * 12
    assert {len(batch) for batch in Padding(20).batches(lengths, seed=0, epoch=0)} == {5, 2}


def test_equal_lengths_meet_others_in_another_epoch() -> None:
    lengths, padding = [[4, 4]] * 40, Padding(16)
    one, other = (
        {frozenset(i for row in batch for i in row) for batch in padding.batches(lengths, **at)}
        for at in ({"seed": 0, "epoch": 0}, {"seed": 0, "epoch": 1})
    )
    assert len(one & other) < 3


def test_batches_do_not_come_in_the_order_of_their_lengths() -> None:
    lengths = sentences(2000)
    batches = Padding(512).batches(lengths, seed=0, epoch=0)
    longest = [lengths[batch[0]].max() for batch in batches]
    assert longest != sorted(longest)
    assert abs(np.corrcoef(np.arange(len(longest)), longest)[0, 1]) < 0.5


def test_what_does_not_fit_a_padded_batch_is_refused_in_words() -> None:
    with pytest.raises(
        ValueError,
        match=r"example 1 has \[21, 3\] tokens, a batch has room for 20; leave it out, or allow",
    ):
        Padding(20).batches([[3, 3], [21, 3]], seed=0, epoch=0)
    with pytest.raises(ValueError, match=r"each example has a length a side, got an array of \(2,"):
        Padding(20).batches([3, 4], seed=0, epoch=0)
