"""evaluate, models, env and every help, as a person types them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import books
import pytest
from installed import install
from typed import Command, Files, Refuses
from typer.main import get_command

from manyheads.cli.app import app
from manyheads.tasks.seq2seq.evaluation import evaluate_texts

CPU = ("--device", "cpu")


def test_a_test_set_is_measured_as_a_table(
    manyheads: Command, run: Path, files: Files, tmp_path: Path
) -> None:
    given = ("--source", files[0], "--reference", files[1], "--write", tmp_path / "out", *CPU)
    done = manyheads("evaluate", "--model", run, *given)
    assert (done.code, done.err) == (0, "")
    first, bleu, chrf, _, header, *buckets = done.out.splitlines()
    assert first.startswith(f"{run}: 60 examples in ")
    assert "BLEU|" in bleu
    assert "chrF2|" in chrf
    assert header.split() == ["words", "read", "bleu", "examples"]
    assert [len(line) for line in buckets] == [len(header)], "columns stand under their names"
    assert len((tmp_path / "out").read_text(encoding="utf-8").splitlines()) == 60


def test_a_model_is_no_better_than_itself(manyheads: Command, run: Path, files: Files) -> None:
    given = ("--source", files[0], "--reference", files[1], "--against", run, "--json", *CPU)
    told = json.loads(manyheads("evaluate", "--model", run, *given).out)
    difference = told["against"]["difference"]["bleu"]
    assert (difference["difference"], difference["p"]) == (0, 1)
    assert told["against"]["scores"]["bleu"] == told["scores"]["bleu"]["value"]


BREVITY = """
from manyheads.metrics.measured import best_of_references


def fits(one, other):
    return float(len(one) <= len(other))


def measure(outputs, references):
    return best_of_references(fits, outputs, references, "brevity")
"""


def test_a_metric_from_outside_is_one_file(
    manyheads: Command,
    refuses: Refuses,
    run: Path,
    files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = ("evaluate", "--model", run, "--source", files[0], "--reference", files[1], *CPU)
    there = "bleu, chrf, rouge_l, rouge_1, rouge_2, f1, exact"
    refuses(f"there is no metric 'brevity'; there are {there}", *given, "--metric", "brevity")
    install(tmp_path, monkeypatch, BREVITY, "manyheads.metrics", "brevity = my_brevity:measure")
    told = json.loads(manyheads(*given, "--metric", "brevity", "--metric", "exact", "--json").out)
    assert list(told["scores"]) == ["bleu", "chrf", "brevity", "exact"]
    assert told["scores"]["brevity"]["signature"] == "brevity"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "--source {0}",
            "a test set is --source with --reference, or --pairs alone; got --source",
        ),
        ("", "a test set is --source with --reference, or --pairs alone; got none of them"),
        (
            "--source {0} --reference {1} --pairs x",
            "a test set is --source with --reference, or --pairs alone; "
            "got --source and --reference and --pairs",
        ),
        (
            "--source {0} --reference {2}/short",
            "{0} has 60 lines and {2}/short 1, but line i of one is the translation of line i of "
            "the other; line 2 has no partner",
        ),
        (
            "--source {2}/empty --reference {2}/empty",
            "there is nothing to evaluate: the files are empty",
        ),
        ("--source nope --reference {1}", "there is no file nope"),
        (
            "--source {0} --reference {1} --against nope",
            "there is no model 'nope': it is no folder; built in: none",
        ),
        (
            "--source {0} --reference {1} --write nowhere/out",
            "--write names a file in a folder that is there, got nowhere/out",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    given: str, sentence: str, refuses: Refuses, run: Path, files: Files, tmp_path: Path
) -> None:
    (tmp_path / "short").write_text("one\n", encoding="utf-8")
    (tmp_path / "empty").write_text("", encoding="utf-8")
    arguments = given.format(*files, tmp_path).split()
    expected = sentence.format(*files, tmp_path)
    refuses(expected, "evaluate", "--model", run, *CPU, *arguments)


def test_a_folder_that_is_no_run_is_not_evaluated(
    refuses: Refuses, files: Files, tmp_path: Path
) -> None:
    given = ("--source", files[0], "--reference", files[1])
    sentence = f"{tmp_path} holds no recipe.yaml: it is not the folder of a run"
    refuses(sentence, "evaluate", "--model", tmp_path, *given)


# ---- about -----------------------------------------------------------------------------------


def test_env_names_what_is_installed(manyheads: Command) -> None:
    done = manyheads("env")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()][:3] == [
        "manyheads",
        "python",
        "torch",
    ]


def test_without_built_in_models_it_is_said_how_to_come_by_one(
    manyheads: Command,
) -> None:
    assert manyheads("models") == (0, "", "no model is built in; `manyheads train` makes one\n")


def test_the_help_of_every_command_ends_with_an_example_and_loads_no_torch() -> None:
    code = (
        "import sys; from manyheads.cli.app import app; from typer.testing import CliRunner\n"
        "for name in sys.argv[1:]:\n"
        "    result = CliRunner().invoke(app, [name, '--help'])\n"
        "    assert result.exit_code == 0 and f' {name} ' in result.output, result.output\n"
        "    assert f'Example: manyheads {name}' in result.output.split('╯')[-1], result.output\n"
        "    assert 'torch' not in sys.modules, f'{name} loaded torch'\n"
    )
    names = list(get_command(app).commands)
    assert {"train", "translate", "evaluate"} <= set(names)
    command = [sys.executable, "-c", code, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.classification(tmp_path_factory.getbasetemp())


def test_how_many_texts_are_read_is_told(
    manyheads: Command, judge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.cli.screen.EVERY_SECONDS", 0.0)
    one_by_one = lambda rows, tokens: [[i] for i in range(len(rows))]  # noqa: E731
    monkeypatch.setattr("manyheads.data.batches.batch_by_length", one_by_one)
    data = tmp_path / "test.tsv"
    data.write_text("text\tlabel\nthe fine dog\tgood\na cat\tpoor\n")
    done = manyheads("evaluate", "--model", judge, "--data", data, "--device", "cpu", "--json")
    assert done.err == "1 of 2 texts read\n2 of 2 texts read\n"
    assert json.loads(done.out)["examples"] == 2


def test_labels_that_the_model_never_saw_are_told(
    manyheads: Command, judge: Path, tmp_path: Path
) -> None:
    model, data = judge, tmp_path / "test.tsv"
    data.write_text("text\tlabel\nthe fine dog\tgood\na cat\tneutral\na dog\tneutral\n")
    given = ("evaluate", "--model", model, "--data", data, "--device", "cpu", "--json")
    done = manyheads(*given)
    assert done.err == (
        f"manyheads: {data} has labels that the model never saw, and so never says: "
        "'neutral' (2); it knows good, poor\n"
    )
    assert json.loads(done.out)["unseen"] == {"neutral": 2}
    data.write_text("text\tlabel\nthe fine dog\tgood\na bad cat\tpoor\n")
    seen = manyheads(*given)
    assert seen.err == ""
    assert "unseen" not in json.loads(seen.out)


def test_each_of_two_models_is_compared_with_its_usual_beam(
    manyheads: Command, run: Path, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beam of 5 where it can search, none where it writes in parallel, whichever comes first."""
    source, target = files
    small = ("--preset", "tiny", "network.width=16", "training.steps=2", "--network", "ctc", *CPU)
    ctc, beams = tmp_path / "ctc", dict[str, int]()
    given = ("translation", "--source", source, "--target", target, "--out", ctc, *small)
    assert manyheads("train", *given).code == 0

    def note(model: Any, how: Any, **more: Any) -> Any:
        beams[model.name] = how.beam
        return evaluate_texts(model, how=how, **more)

    monkeypatch.setattr("manyheads.tasks.seq2seq.commands.evaluate_texts", note)
    for ours, theirs in ((run, ctc), (ctc, run)):
        beams.clear()
        given = ("--model", ours, "--against", theirs, "--source", source, "--reference", target)
        done = manyheads("evaluate", *given, *CPU)
        assert (done.code, beams) == (0, {str(run): 5, str(ctc): 1}), done.err
    listed = manyheads("translate", "--model", ctc, "--nbest", "1", "ba du", *CPU)
    assert (listed.code, listed.err) == (0, "")
