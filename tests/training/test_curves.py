"""The picture of a run."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from manyheads.training.run import METRICS, Run, draw_curves


def test_a_picture_is_written_with_and_without_validations(tmp_path: Path) -> None:
    run = Run(tmp_path)
    draw_curves(run)
    assert not (run / "loss.png").exists()
    run.log(METRICS, {"step": 5, "loss": 2.0})
    draw_curves(run)
    alone = (run / "loss.png").read_bytes()
    run.log(METRICS, {"step": 5, "valid": {"bleu": 3.0, "loss": 2.5}})
    run.log(METRICS, {"step": 9, "loss": 1.5})
    draw_curves(run)
    both = (run / "loss.png").read_bytes()
    assert alone.startswith(b"\x89PNG")
    assert both.startswith(b"\x89PNG")
    assert alone != both


def test_the_legend_lies_over_no_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *a, **b: (drawn.append(self), save(self, *a, **b))
    )
    run = Run(tmp_path)
    for step in range(1, 9):
        run.log(METRICS, {"step": step, "loss": 1.0 + step % 2})
        run.log(METRICS, {"step": step, "valid": {"bleu": 3.0 * step, "loss": 2.5 - step % 2}})
    draw_curves(run)
    (figure,) = drawn
    (legend,) = figure.legends
    assert not any(axes.get_legend() for axes in figure.axes)
    assert [text.get_text() for text in legend.get_texts()] == [
        "training loss",
        "validation loss",
        "bleu",
    ]
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)
