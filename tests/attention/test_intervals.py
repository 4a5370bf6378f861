"""Bounds may be loose, never wrong."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.attention.intervals import Interval, Truth, pool_runs

RUNS = st.lists(st.integers(-9, 9), min_size=1, max_size=5)
ARITHMETIC = [operator.add, operator.sub]
COMPARISONS = [operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne]


def interval(values: list[int]) -> Interval:
    return Interval(torch.tensor(min(values)), torch.tensor(max(values)))


def holds(found: Interval, values: list[int]) -> bool:
    return all(int(found.low) <= value <= int(found.high) for value in values)


@pytest.mark.parametrize("operation", ARITHMETIC)
@given(a=RUNS, b=RUNS)
def test_arithmetic_bounds_every_result(
    operation: Callable[..., Any], a: list[int], b: list[int]
) -> None:
    assert holds(operation(interval(a), interval(b)), [operation(x, y) for x in a for y in b])


@given(a=RUNS, factor=st.integers(-3, 3), divisor=st.integers(1, 4))
def test_scaling_bounds_every_result(a: list[int], factor: int, divisor: int) -> None:
    assert holds(interval(a) * factor, [x * factor for x in a])
    assert holds(interval(a) // divisor, [x // divisor for x in a])
    assert holds(abs(interval(a)), [abs(x) for x in a])


@pytest.mark.parametrize("operation", COMPARISONS)
@given(a=RUNS, b=RUNS)
def test_a_comparison_never_denies_what_is_nor_claims_what_is_not(
    operation: Callable[..., Any], a: list[int], b: list[int]
) -> None:
    truth = operation(interval(a), interval(b))
    results = [operation(x, y) for x in a for y in b]
    assert bool(truth.some) or not any(results)
    assert not bool(truth.all) or all(results)


@given(a=st.tuples(RUNS, RUNS), b=st.tuples(RUNS, RUNS))
def test_and_or_not_of_truths_stay_sound(
    a: tuple[list[int], list[int]], b: tuple[list[int], list[int]]
) -> None:
    first, second = (interval(x) <= interval(y) for x, y in (a, b))
    one, two = ([x <= y for x in xs for y in ys] for xs, ys in (a, b))
    for truth, results in (
        (first & second, [x and y for x in one for y in two]),
        (first | second, [x or y for x in one for y in two]),
        (~first, [not x for x in one]),
    ):
        assert isinstance(truth, Truth)
        assert bool(truth.some) or not any(results)
        assert not bool(truth.all) or all(results)


def test_runs_are_pooled_and_the_last_may_be_short() -> None:
    found = pool_runs(torch.tensor([3, 1, 4, 1, 5]), 2)
    assert found.low.tolist() == [1, 1, 5]
    assert found.high.tolist() == [3, 4, 5]


def test_dividing_by_what_is_not_positive_is_refused() -> None:
    with pytest.raises(TypeError, match="divided by a positive number, got 0"):
        interval([1, 2]) // 0
    with pytest.raises(TypeError, match="multiplied by a plain number"):
        interval([1, 2]) * interval([1, 2])


def test_what_is_known_of_a_block_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="not and, or, not, or a < x < b"):
        assert 0 <= interval([1, 2]) <= 3
