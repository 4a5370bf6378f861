"""What a run takes is measured, and a budget is kept to."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counted import OFTEN, Weighing, trainer_of, weighing

from manyheads.training.config import Training
from manyheads.training.pace import Pace, fit_steps, measure_pace
from manyheads.training.run import CHECKPOINT, METRICS, Run


class Slow(Weighing):
    """Each step sleeps, and a validation never ends."""

    def loss(self, network: Any, batch: Any, smoothing: float) -> Any:
        time.sleep(0.02)
        return super().loss(network, batch, smoothing)

    def judge(self, network: Any) -> Any:
        while True:
            super().judge(network)


def test_real_steps_are_timed_and_a_validation_takes_no_longer_than_our_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.training.pace.PATIENCE_SECONDS", 0.1)
    pace = measure_pace(trainer_of(Slow(), OFTEN, Run(tmp_path)))
    assert pace.step_seconds >= 0.02
    assert pace.validation_seconds >= 0.1
    assert pace.memory_bytes > 2**20
    assert not (tmp_path / CHECKPOINT).exists()
    assert pace.seconds(OFTEN) == pytest.approx(
        pace.begin_seconds + 25 * pace.step_seconds + 7 * pace.validation_seconds
    )


def test_what_was_measured_leaves_no_trace_in_the_run(tmp_path: Path) -> None:
    one, other = Run(tmp_path / "one"), Run(tmp_path / "other")
    measure_pace(weighing(one))
    for run in (one, other):
        assert weighing(run).fit()
    assert (one / METRICS).read_bytes() == (other / METRICS).read_bytes()


MEANT = Training(steps=10_000, warmup_steps=500, validate_every=500)


@pytest.mark.parametrize("seconds", [10.0, 60.0, 300.0, 5000.0])
def test_a_budget_has_room_for_its_steps_and_validations(seconds: float) -> None:
    pace = Pace(0.1, 2.0, 0)
    fitted = fit_steps(seconds, MEANT, pace)
    assert pace.seconds(fitted) <= seconds
    assert fitted.steps <= MEANT.steps
    assert fitted.validate_every <= fitted.steps
    if seconds < 1000:
        assert pace.seconds(fitted) > 0.9 * seconds - 2
        assert fitted.warmup_steps == 500 * fitted.steps // 10_000
    else:
        assert fitted == MEANT


def test_no_budget_is_too_small_for_one_step() -> None:
    assert fit_steps(0.0, MEANT, Pace(1.0, 9.0, 0)).steps == 1
    assert fit_steps(-5.0, replace(MEANT, steps=1), Pace(1.0, 9.0, 0)).steps == 1
