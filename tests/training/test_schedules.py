"""Rates rise over the warm-up and fall as the schedule says."""

import math
from itertools import pairwise
from typing import Any

import pytest

from manyheads.training.config import SCHEDULES, Training


def rate_of(schedule: Any, step: int, warmup: int, steps: int) -> float:
    return Training(schedule=schedule, warmup_steps=warmup, steps=steps).rate(step)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_rises_to_one_at_the_end_of_the_warm_up(schedule: str) -> None:
    assert [rate_of(schedule, step, 4, 100) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert rate_of(schedule, 4, 4, 100) == 1.0


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("warmup", "steps"), [(0, 50), (10, 50), (50, 50), (80, 50), (0, 1)])
def test_no_schedule_rises_after_it_or_leaves_0_to_1(
    schedule: str, warmup: int, steps: int
) -> None:
    factors = [rate_of(schedule, step, warmup, steps) for step in range(steps + 1)]
    after = factors[min(warmup, steps // 2) :]
    assert all(0 <= one <= 1 for one in factors)
    assert all(a >= b for a, b in pairwise(after))
    assert factors[0] > 0


def test_values_by_hand() -> None:
    assert rate_of("linear", 55, 10, 100) == 0.5
    assert rate_of("cosine", 55, 10, 100) == pytest.approx(0.5)
    assert rate_of("cosine", 40, 10, 100) == pytest.approx(0.75)
    assert rate_of("inverse-square-root", 40, 10, 100) == 0.5
    assert rate_of("inverse-square-root", 9, 0, 100) == pytest.approx(1 / 3)
    assert [rate_of("stable", step, 10, 100) for step in (50, 80, 90, 99)] == [
        *(1.0, 1.0, 0.5),
        pytest.approx(0.05),
    ]


def test_all_but_one_come_to_nothing_at_the_end() -> None:
    ends = {name: rate_of(name, 100, 10, 100) for name in SCHEDULES}
    assert ends.pop("inverse-square-root") == math.sqrt(0.1)
    assert all(end == pytest.approx(0, abs=1e-12) for end in ends.values())
