"""The commands as a person types them."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from manyheads.cli.app import app, main
from manyheads.devices import use_threads
from manyheads.tasks.table import VERBS


def manyheads(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "manyheads", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=600, check=False
    )


def test_help_answers_without_loading_torch() -> None:
    code = (
        "import sys; from manyheads.cli.app import app; from typer.testing import CliRunner; "
        "result = CliRunner().invoke(app, ['--help']); "
        "assert result.exit_code == 0 and 'draw' in result.output, result.output; "
        "assert 'torch' not in sys.modules, 'torch was loaded'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [*VERBS, "compare decoders", "resume", "export"])
def test_help_joins_the_lines_of_a_paragraph(name: str) -> None:
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0, result.output
    about, _, examples = result.output.partition("╭")
    lines = [line.strip() for line in about.splitlines() if line.strip()][1:]
    assert all(line.endswith((".", ":")) for line in lines), lines
    assert "Example: manyheads" in examples


def test_help_without_a_model_says_which_models_each_paragraph_is_for() -> None:
    output = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["evaluate", "--help"]).output
    about, _, examples = output.partition("╭")
    lines = [line.strip() for line in about.splitlines() if line.strip()]
    assert lines[1] == VERBS["evaluate"]
    assert all(line.startswith("For ") for line in lines[2:])
    assert any(line.startswith("For language: ") for line in lines)
    shown = [line.strip() for line in examples.splitlines() if "Example:" in line]
    assert len(shown) == len(set(shown)) > 3


def test_translating_loads_no_other_task_and_nothing_that_trains() -> None:
    code = (
        "import sys; from manyheads.cli.app import app; from typer.testing import CliRunner; "
        "result = CliRunner().invoke(app, ['translate', 'Ein Hund rennt.']); "
        "assert result.output == 'A dog is running.\\n', result.output; "
        "print(*(name for name in sys.modules if name.startswith('manyheads.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {tuple(name.split(".")[1:]) for name in done.stdout.split()}
    assert {name[1] for name in loaded if name[0] == "training" and len(name) > 1} == {
        "config",  # a recipe's settings
        "distributed",  # a device
        "files",
        "weights",
    }
    rooms = {name[1] for name in loaded if name[0] == "tasks" and len(name) > 2}
    assert rooms == {"seq2seq"}


def test_draw_shows_a_pattern_and_writes_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    done = manyheads("draw", "Causal() & Window(2)", "--grid", "8x8", "--png", str(picture))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Causal() & Window(2) on a grid of 8x8: 610 of 4096 pairs (15%)")
    assert "what token 36 (◆) may see" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Casual()"], "there is no pattern 'Casual'; did you mean Causal?"),
        (["Causal()", "--graph", "0-1,1-2"], "Causal() needs tokens with an order"),
        (["Causal()", "--grid", "8by8"], "--grid reads like 8x8 or 8x8x3, got '8by8'"),
        (["Causal()", "--grid", "0x8"], "a grid and its blocks measure 1 or more, got 0x8x1"),
        (
            ["Causal()", "--grid", "8x8", "--line", "4"],
            "one geometry at a time, got --line and --grid",
        ),
        (["Causal()", "--blocks", "2x2"], "--blocks says in which order a --grid is generated"),
        (["Causal()", "--line", "0"], "a line has 1 token or more, got --line 0"),
        (["Window(1)", "--graph", "0-1;1-2"], "--graph reads like 0-1,1-2,2-3, got '0-1;1-2'"),
        (["Causal()", "--query", "99"], "tokens are numbered 0 to 15, token 99 was asked for"),
        (["Causal()", "--png", "/nowhere/p.png"], "No such file or directory: '/nowhere/p.png'"),
        (
            ["Window(99999999999999999999999)"],
            "Window takes a radius of whole numbers from 0 to 2147483647",
        ),
        (["Lengths(None)"], "Lengths takes whole numbers, one a sequence"),
        (["Window({[]: 1})"], "is not a number or a list of numbers"),
        (["~" * 3000 + "Causal()"], "is nested too deeply to be read"),
        (["Window(1)", "--graph", "0-99999"], "--graph draws nodes numbered 0 to 1023"),
        (["Causal()", "--line", "100000000000000000000"], "a drawing holds 4096 tokens at most"),
        (["Causal()", "--grid", "9999999x9999999"], "a drawing holds 4096 tokens at most"),
        (["Causal()", "--png", "/tmp"], "--png names a file to write, /tmp is a folder"),
        (["Window(**{'radius': 2})"], "Window takes its numbers one by one"),
        (["Segments([[0, 0, 1]], lengths=5)"], "Segments takes (ids, keys), got"),
        (["Causal()", "--line", "100000"], "a drawing holds 4096 tokens at most, got 100000"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["manyheads", "draw", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert sentence in told
    assert told.startswith("manyheads: ")
    assert len(told.strip().splitlines()) == 1


def test_debug_shows_where_a_mistake_arose() -> None:
    done = manyheads("draw", "Casual()")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("manyheads: there is no pattern 'Casual'; did you mean Causal?")
    done = manyheads("draw", "Casual()", "--debug")
    assert "Traceback" in done.stderr
    assert "there is no pattern 'Casual'" in done.stderr


def test_debug_may_stand_before_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["manyheads", "--debug", "draw", "Casual()"])
    with pytest.raises(ValueError, match="there is no pattern 'Casual'"):
        main()


@pytest.mark.parametrize(
    ("error", "code"), [(torch.OutOfMemoryError("out of memory"), 2), (RuntimeError("other"), None)]
)
def test_a_full_gpu_is_told_in_one_sentence_and_no_other_failure_is_hidden(
    error: RuntimeError,
    code: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("manyheads.models.load", fails)
    monkeypatch.setattr(sys, "argv", ["manyheads", "translate", "Ja."])
    with pytest.raises((SystemExit, RuntimeError)) as ended:
        main()
    if code is None:
        assert ended.value is error
        return
    assert ended.value.code == code  # type: ignore[union-attr]
    assert capsys.readouterr().err == (
        "manyheads: the GPU's memory is full; a smaller --beam or training.tokens_per_batch, "
        "or --device cpu, would do\n"
    )


def test_a_command_without_arguments_reads_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["manyheads", "translate"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Ein Hund rennt.\n")))
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code or 0, *capsys.readouterr()) == (0, "A dog is running.\n", "")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        main()
    told = "manyheads: there is nothing to read: stdin is closed; < FILE would do\n"
    assert (ended.value.code, *capsys.readouterr()) == (2, "", told)


@pytest.mark.parametrize("arguments", [[], ["--source", "a.de", "--out", "runs/q"]])
def test_a_misspelt_task_is_no_folder(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["manyheads", "train", "translaton", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith(
        "manyheads: there is no task 'translaton'; there are translation, summarization"
    )
    assert not [*tmp_path.iterdir()]


def test_version_and_unknown_commands() -> None:
    assert manyheads("--version").stdout.startswith("manyheads 0.")
    assert manyheads("dance").returncode == 2


def test_the_demo_runs_from_one_command(tmp_path: Path) -> None:
    done = manyheads("demo", "--steps", "10", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Can you please tell me where the station is?" in done.stdout
    assert "step 10 of 10" in done.stdout
    assert "learned just now" in done.stdout
    assert "of its last layer reads" in done.stdout
    assert (tmp_path / "demo" / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "demo" / "attention.html").read_text("utf-8").startswith("<!doctype html>")


# ---- what every command has ----


def test_ctrl_c_is_one_line_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("manyheads.catalog.built_in", interrupted)
    monkeypatch.setattr(sys, "argv", ["manyheads", "models"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "manyheads: stopped; the same command begins again\n")


def test_every_command_takes_threads() -> None:
    commands = typer.main.get_group(app).commands  # type: ignore[attr-defined]
    assert len(commands) > 12
    for name, one in commands.items():
        if name not in ("train", "compare", *VERBS):  # made when they are asked for
            assert any("--threads" in parameter.opts for parameter in one.params), name


def test_so_many_threads_share_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # so that they are put back
    monkeypatch.setattr(sys, "argv", ["manyheads", "env", "--threads", "3"])
    with use_threads(torch.get_num_threads() + 1), pytest.raises(SystemExit):
        main()
    assert "threads      3\n" in capsys.readouterr().out
    assert os.environ["OMP_NUM_THREADS"] == "3"
