"""`lab` as it is typed."""

from pathlib import Path

from typed import Command, Refuses

from manyheads.lab.report import QUICK
from manyheads.lab.table import EXPERIMENTS


def test_without_a_name_the_experiments_are_listed(manyheads: Command) -> None:
    lines = manyheads("lab").out.splitlines()
    assert [line.split()[0] for line in lines] == [*EXPERIMENTS]
    assert lines[0].endswith(EXPERIMENTS["residuals"][1])


def test_a_quick_run_says_that_it_is_one(manyheads: Command, tmp_path: Path) -> None:
    done = manyheads("lab", "residuals", "--quick", "--seeds", 1, "--out", tmp_path)
    assert done.code == 0
    assert "| with residuals " in done.out
    assert QUICK in done.out
    assert (tmp_path / "residuals" / "figure.png").exists()


def test_what_cannot_be_run_is_answered_with_one_sentence(refuses: Refuses, tmp_path: Path) -> None:
    there = ", ".join(EXPERIMENTS)
    refuses(f"there is no experiment 'residual'; there are {there}, and all", "lab", "residual")
    file = tmp_path / "file"
    file.touch()
    refuses(
        f"--out is a folder, and a file lies in the way of {file / 'residuals'}",
        *("lab", "residuals", "--quick", "--out", file),
    )
