"""Ways to write, trained and measured by one command."""

import json
from pathlib import Path

import pytest
from typed import SETTINGS, Command, Files, Refuses

from manyheads.decoders import count_repeats, make_rivals

FEW = [*SETTINGS, "training.steps=2", "training.warmup_steps=1"]


def test_one_command_makes_the_table_and_the_picture(
    manyheads: Command, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = files
    some = [make_rivals(1)[i] for i in (0, 4)]
    monkeypatch.setattr("manyheads.decoders.make_rivals", lambda depth: some)
    monkeypatch.setattr("manyheads.decoders.TIMED", 2)
    out = tmp_path / "decoders"
    compare = ("compare", "decoders", "--source", source, "--target", target, "--out", out)
    done = manyheads(*compare, "--device", "cpu", *FEW)
    assert done.code == 0, done.err
    rows = json.loads((out / "decoders.json").read_text(encoding="utf-8"))
    ways = {(row["model"], row["way"]) for row in rows}
    assert ways == {(one.name, way) for one in some for way in one.ways}
    assert len(rows) == 2 * len(ways)  # raw and distilled
    passes = {row["way"]: row["passes"] for row in rows if row["model"] == "mask-predict"}
    assert passes == {"T = 1": 1, "T = 4": 4, "T = 10": 10}
    assert all(0 < row["ms_batch_1_p50"] <= row["ms_batch_1_p90"] for row in rows)
    assert (out / "decoders.png").read_bytes().startswith(b"\x89PNG")
    assert done.out.count("| raw ") == len(ways)
    again = manyheads(*compare, "--device", "cpu", *FEW)
    assert again.code == 0
    assert again.err.count("nothing is left to do: it ended at step 2") == 4
    other = manyheads(*compare, "--device", "cpu", *FEW, "training.learning_rate=0.5")
    assert (other.code, other.out) == (2, "")
    assert f"{out / 'ar-1-1-raw'} holds a run with other settings; those would go on" in other.err


def test_what_is_compared_is_not_given(refuses: Refuses, files: Files, tmp_path: Path) -> None:
    source, target = files
    compare = ("compare", "decoders", "--source", source, "--target", target)
    refuses("the runs need a folder: --out runs/decoders", *compare)
    out = ("--out", tmp_path / "x")
    sentence = "kinds of networks and a teacher are compared; leave both out"
    refuses(sentence, *compare, *out, "network.kind=ctc")


def test_repeated_words_are_counted() -> None:
    assert count_repeats(["a a b", "b c", ""]) == 1 / 5
