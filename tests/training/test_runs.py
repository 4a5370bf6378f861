"""A run's folder is what its checkpoint says it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from counted import weighing

from manyheads.training.files import write_text
from manyheads.training.run import LOCK, METRICS, RECIPE, Run, TrainerState, cut_to


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
    assert TrainerState().best_step is None
    assert TrainerState(best=[(3.0, 40), (2.0, 10)]).best_step == 40


def test_what_is_put_first_into_a_folder_goes_with_it_where_it_fails(tmp_path: Path) -> None:
    run = Run(tmp_path / "deep" / "run")

    def interrupted() -> None:
        with run.make_folder():
            write_text(run / "half.txt", "half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not run.folder.exists()
    with run.make_folder():
        write_text(run / "whole.txt", "whole")
    assert (run / "whole.txt").read_text() == "whole"


# ---- one process at a time ----


def test_two_at_work_in_one_folder_are_kept_apart(tmp_path: Path) -> None:
    one, other = Run(tmp_path), Run(tmp_path)
    write_text(one / RECIPE, "task: none")
    with one.hold_lock(), one.hold_lock():
        with pytest.raises(ValueError) as error, other.hold_lock():
            pass
        assert str(error.value) == (
            f"{tmp_path} is at work in another process ({os.getpid()}); when that has ended or "
            f"was stopped, `manyheads resume {tmp_path}` goes on"
        )
    with other.hold_lock():
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_folder_is_removed_only_by_who_made_it(tmp_path: Path) -> None:
    one, other = Run(tmp_path / "run"), Run(tmp_path / "run")

    def refused() -> None:
        with other.make_folder():
            raise AssertionError("it is being made by another")

    with one.make_folder():
        write_text(one / "ours.txt", "ours")
        with pytest.raises(ValueError, match="is at work in another process"):
            refused()
        assert (one / "ours.txt").exists()
        write_text(one / RECIPE, "task: none")
    with pytest.raises(ValueError, match="already holds a run"):
        refused()
    assert {path.name for path in one.folder.iterdir()} == {"ours.txt", RECIPE}


def test_an_empty_folder_that_was_there_is_left_empty_where_it_fails(tmp_path: Path) -> None:
    run = Run(tmp_path)

    def failing() -> None:
        with run.make_folder():
            (run / "data").mkdir()
            write_text(run / "data/half.txt", "half")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert not list(tmp_path.iterdir())


KILLED = """
import os, sys
from pathlib import Path
from manyheads.training.run import Run
run = Run(Path(sys.argv[1]))
with run.make_folder():
    (run / "data").mkdir()
    (run / "data/half.txt").write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_what_a_kill_left_of_a_preparation_gives_way_and_other_files_do_not(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    subprocess.run([sys.executable, "-c", KILLED, str(run.folder)], check=False)
    assert (run / "data" / "half.txt").exists()
    with run.make_folder():
        assert [path.name for path in run.folder.iterdir()] == [LOCK]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and holds no run"):
        Run(tmp_path / "mine").create()
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_what_was_half_written_when_a_process_was_killed_is_swept_away(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (run / "kept").mkdir()
    for name in (".tmpAbC123", ".checkpoint.safetensors.part", "kept/.tmpX", "kept/.a.part"):
        (run / name).write_bytes(b"half")
    weighing(run)
    assert [path.name for path in run.folder.rglob(".*")] == []
