"""How much of the package a training crosses, and how often its recipe is written and read."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from crossed import cross
from typed import SETTINGS, texts

import manyheads.learn
import manyheads.tasks.table

FILES, FUNCTIONS = 65, 544  # at the most: less is better


def test_training_crosses_no_more_and_its_recipe_is_written_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        inner = getattr(module, name)

        def counting(*args: Any, **named: Any) -> Any:
            times[name] += 1
            return inner(*args, **named)

        monkeypatch.setattr(module, name, counting)

    count(manyheads.learn, "write")
    count(manyheads.tasks.table, "load")
    source, target = texts(tmp_path)
    out = ["--out", str(tmp_path / "run"), "--device", "cpu"]
    given = ["--source", str(source), "--target", str(target)]
    met = cross(["train", "translation", *given, *out, *map(str, SETTINGS)])
    assert (tmp_path / "run" / "weights.safetensors").exists()
    assert times == {"write": 1, "load": 1}
    assert len({file for file, _ in met}) <= FILES
    assert len(met) <= FUNCTIONS
