"""The picture of a run."""

from pathlib import Path

from manyheads.training.curves import curves
from manyheads.training.runs import METRICS, Run


def test_a_picture_is_written_with_and_without_validations(tmp_path: Path) -> None:
    run = Run(tmp_path)
    curves(run)
    assert not (run / "loss.png").exists()
    run.log(METRICS, {"step": 5, "loss": 2.0})
    curves(run)
    alone = (run / "loss.png").read_bytes()
    run.log(METRICS, {"step": 5, "valid": {"bleu": 3.0, "loss": 2.5}})
    run.log(METRICS, {"step": 9, "loss": 1.5})
    curves(run)
    both = (run / "loss.png").read_bytes()
    assert alone.startswith(b"\x89PNG")
    assert both.startswith(b"\x89PNG")
    assert alone != both
