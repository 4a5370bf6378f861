"""A run's folder is what its checkpoint says it is."""

from pathlib import Path

import pytest
from counted import weighing

from manyheads.training.runs import METRICS, Run, Standing, cut_to


def test_what_was_logged_before_the_first_checkpoint_does_not_count(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.log(METRICS, {"step": 1, "loss": 2.0})
    assert weighing(run).learner.taken == 0
    assert (run / METRICS).read_bytes() == b""


def test_a_log_that_lost_its_end_is_not_filled_up(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"12345")
    cut_to(path, 9)
    assert path.read_bytes() == b"12345"
    cut_to(path, 3)
    assert path.read_bytes() == b"123"
    cut_to(tmp_path / "none", 3)
    assert not (tmp_path / "none").exists()


def test_lines_come_back_as_they_were_logged(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert list(run.lines(METRICS)) == []
    for i in range(3):
        run.log(METRICS, {"step": i, "loss": 0.1 * i, "text": "a\u2028b\nc"})
    assert list(run.lines(METRICS)) == [
        {"step": i, "loss": 0.1 * i, "text": "a\u2028b\nc"} for i in range(3)
    ]


def test_a_standing_names_its_best_step() -> None:
    assert Standing().best_step is None
    assert Standing(best=[(3.0, 40), (2.0, 10)]).best_step == 40


def test_what_is_put_first_into_a_folder_goes_with_it_where_it_fails(tmp_path: Path) -> None:
    run = Run(tmp_path / "deep" / "run")

    def interrupted() -> None:
        with run.created():
            run.text("half.txt", "half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not run.folder.exists()
    with run.created():
        run.text("whole.txt", "whole")
    assert (run / "whole.txt").read_text() == "whole"
