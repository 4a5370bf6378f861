"""import, export, verify, as they are typed."""

import json
from pathlib import Path

import pytest
from toys import codec
from typed import Command, Refuses

ALIKE = "8 of 8 texts alike"


def test_a_run_goes_out_and_comes_back_and_writes_the_same(
    manyheads: Command, run: Path, tmp_path: Path
) -> None:
    out, back = tmp_path / "out", tmp_path / "back"
    done = manyheads("export", out, "--model", run, "--to", "huggingface")
    assert done.code == 0
    assert done.out.startswith(f"exported to {out}; largest difference ")
    assert ALIKE in done.out
    assert json.loads((out / "config.json").read_text())["model_type"] == "pegasus"
    told = manyheads("import", out, "--out", back)
    said = f"imported: a model for translation; `manyheads translate --model {back}` uses it\n"
    assert said in told.out
    assert told.out.endswith(
        f"if it writes summaries, task: summarization in {back}/recipe.yaml lets it read texts "
        "whole\n"
    )
    assert "compared with its own library: largest difference" in told.out
    ours, theirs = (manyheads("translate", "--model", m, "ba du ki") for m in (run, back))
    assert ours.out == theirs.out != ""
    recipe, two = back / "recipe.yaml", "ba du. KI LO."
    apart = json.loads(manyheads("translate", "--model", back, "--json", two).out)
    said = recipe.read_text(encoding="utf-8")
    recipe.write_text(said.replace("task: translation", "task: summarization"), encoding="utf-8")
    whole = json.loads(manyheads("translate", "--model", back, "--json", two).out)
    assert whole["best"][0]["log_prob"] != apart["best"][0]["log_prob"]


def test_texts_to_compare_on_are_read_from_a_file(
    manyheads: Command, run: Path, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("ba du\n\nki lo\n", encoding="utf-8")
    out = tmp_path / "out"
    done = manyheads("export", out, "--model", run, "--to", "huggingface", "--check", texts)
    assert "2 of 2 texts alike" in done.out


def test_an_export_that_says_something_else_is_told(
    manyheads: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyheads.interop.export import EXPORTERS
    from manyheads.interop.parity import Parity

    wrong = Parity(0.5, 3, 8)
    monkeypatch.setattr(EXPORTERS["huggingface"], "compare", lambda *_: wrong)
    out = tmp_path / "out"
    done = manyheads("export", out, "--model", run, "--to", "huggingface")
    assert done.code == 2
    found = "largest difference 0.5, 5 of 8 texts alike"
    assert done.err == (
        f"manyheads: the export in {out} says something else than {run}: {found}; "
        "do not use it, and report it with the recipe\n"
    )


def test_a_folder_that_holds_something_is_left_as_it_is(
    refuses: Refuses, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    refuses(
        f"{tmp_path / 'out'} is not empty; an export goes into a folder that is new or empty",
        *("export", tmp_path / "out", "--model", run, "--to", "huggingface"),
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_called_as_it_was_typed(
    refuses: Refuses, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "out"
    given = ("export", out, "--model", run, "--to", "huggingface")
    refuses(f"Not a directory: '{out}'", *given)


def test_pickled_weights_are_not_opened(refuses: Refuses, tmp_path: Path) -> None:
    folder, touched = tmp_path / "in", tmp_path / "touched"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    codec().save(folder / "tokenizer.json")
    would = f"cos\nsystem\n(S'touch {touched}'\ntR."
    (folder / "pytorch_model.bin").write_bytes(would.encode())
    refuses(
        f"{folder} holds pickled weights (pytorch_model.bin), which can run code; save it as "
        "safetensors: model.save_pretrained(..., safe_serialization=True)",
        *("import", folder, "--out", tmp_path / "run"),
    )
    assert not touched.exists()
    assert not (tmp_path / "run").exists()


def test_what_is_no_folder_is_refused(refuses: Refuses, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    refuses(f"there is no folder {missing}", "import", missing, "--out", tmp_path / "run")


def test_a_sound_run_is_verified(
    manyheads: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.interop.export.EXPORTERS", {})
    done = manyheads("verify", "--model", run)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["holds"] * 7


def test_what_does_not_hold_is_told_and_ends_with_1(
    manyheads: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.interop.export.EXPORTERS", {})
    monkeypatch.setattr("manyheads.verifying.compare_cached", lambda *_: 0.3)
    done = manyheads("verify", "--model", run)
    assert done.code == 1
    assert "FAILS     cached = uncached                0.3" in done.out
    assert done.out.endswith("1 of these do not hold\n")
