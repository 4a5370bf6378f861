"""train and resume as a person types them, mistakes and all."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from sacrebleu.metrics.bleu import BLEU
from typed import SETTINGS, Command, Files, Refuses, texts

from manyheads.cli.train import catch_signals
from manyheads.tasks.seq2seq.settings import Seq2SeqRecipe
from manyheads.training.pace import Pace
from manyheads.training.run import LOCK, Run

CPU = ("--device", "cpu")


def test_a_run_is_trained_from_two_files_and_told_in_plain_lines(
    manyheads: Command, files: Files, tmp_path: Path
) -> None:
    source, target = files
    out = tmp_path / ("long" * 20) / "run"
    given = ("--source", source, "--target", target, "--out", out)
    done = manyheads("train", "translation", *given, *CPU, *SETTINGS)
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert lines[0] == "60 pairs read, 60 kept"
    assert lines[1].endswith(" parameters on cpu")
    steps = [line for line in lines if line.startswith("step ") and " of 20" in line]
    assert [line[:18] for line in steps][:2] == ["step  5 of 20  epo", "step 10 of 20  epo"]
    assert all(line.endswith(" left") for line in steps), "a line in a log is never broken"
    assert sum("validated: bleu" in line for line in lines) == 2
    assert lines[-1] == f"done: `manyheads translate --model {out}` uses it"


def test_a_run_that_has_ended_says_so_when_resumed(manyheads: Command, run: Path) -> None:
    done = manyheads("resume", run, *CPU)
    assert done.code == 0
    assert "nothing is left to do: it ended at step 120" in done.err


def test_a_recipe_trains_elsewhere_with_other_settings(
    manyheads: Command, run: Path, tmp_path: Path
) -> None:
    given = ("--out", tmp_path / "other", *CPU)
    done = manyheads("train", run / "recipe.yaml", "training.steps=3", *given)
    assert done.code == 0, done.err
    assert "steps: 3\n" in (tmp_path / "other" / "recipe.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("", []),
        ("network: {kind: recurrent}\n", ["--network", "recurrent"]),
        ("data: {filters: {ratio: 3}, held_out: 4}\ntraining: {steps: 7}\n", []),
    ],
)
def test_what_a_recipe_does_not_say_is_chosen_as_on_the_command_line(
    said: str, typed: list[str], manyheads: Command, files: Files, tmp_path: Path
) -> None:
    """Here of summaries, whose filters are not those of every task."""
    recipe = tmp_path / "mine.yaml"
    names = f"source: {files[0]}, target: {files[1]}"
    rest = said.replace("data: {", f"data: {{{names}, ")
    files_of = "" if "data:" in said else f"data: {{{names}}}\n"
    recipe.write_text(f"task: summarization\n{files_of}{rest}", encoding="utf-8")
    settings = ["data.filters.ratio=3", "data.held_out=4", "training.steps=7"]
    typed = [*typed, *(settings if "steps" in said else [])]
    own = manyheads("train", recipe, "--dry-run", *CPU)
    given = ("--source", files[0], "--target", files[1], "--dry-run", *CPU)
    assert untimed(own.out) == untimed(manyheads("train", "summarization", *given, *typed).out)
    assert (own.code, "longest_characters: 0\n" in own.out) == (0, True)
    small = manyheads("train", recipe, "--dry-run", "--preset", "small", *CPU)
    assert "width: 256\n" in small.out


def untimed(printed: str) -> list[str]:
    """A recipe and what it would cost, without what a clock said."""
    return [line for line in printed.splitlines() if not line.startswith(("# time", "# memory"))]


def test_a_recipe_that_starts_from_a_run_has_its_network_and_vocabulary(
    manyheads: Command, run: Path, files: Files, tmp_path: Path
) -> None:
    recipe = tmp_path / "mine.yaml"
    names = f"data: {{source: {files[0]}, target: {files[1]}}}"
    recipe.write_text(f"task: translation\n{names}\nstart_from: {run}\n", encoding="utf-8")
    given = ("--source", files[0], "--target", files[1], "--start-from", run)
    own = manyheads("train", recipe, "--dry-run", *CPU)
    assert own.code == 0, own.err
    other = manyheads("train", "translation", *given, "--dry-run", *CPU)
    assert untimed(own.out) == untimed(other.out)


def test_a_recipe_without_a_folder_makes_one_beside_it_from_anywhere(
    manyheads: Command, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copytree(files[0].parent, tmp_path / "there", ignore=ignore_patterns("run"))
    monkeypatch.chdir(tmp_path / "there")
    given = ("--source", files[0].name, "--target", files[1].name, "--out", "run")
    done = manyheads("train", "translation", *given, *CPU, *SETTINGS, "training.steps=1")
    assert done.code == 0, done.err
    monkeypatch.chdir(tmp_path)
    for name in ("run-2", "run-3"):
        done = manyheads("train", "there/run/recipe.yaml", *CPU)
        assert done.code == 0, done.err
        assert done.err.startswith(f"no --out was given: the run is there/{name}\n")
        assert f"done: `manyheads translate --model there/{name}` uses it" in done.err
    own = tmp_path / "there" / "mine.yaml"
    own.write_bytes((tmp_path / "there" / "run" / "recipe.yaml").read_bytes())
    assert manyheads("train", own, *CPU).code == 0
    assert (tmp_path / "there" / "mine" / "weights.safetensors").exists()


def test_a_run_goes_on_for_more_steps(
    manyheads: Command, refuses: Refuses, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    copytree(run, out)
    refuses(
        "network.width=64 cannot change within a run, training.steps, learning_rate, schedule, "
        "warmup_steps, validate_every, checkpoint_every, log_every, best_by, patience can; "
        f"`manyheads train {out / 'recipe.yaml'} network.width=64` begins another",
        *("resume", out, "network.width=64", *CPU),
    )
    told = manyheads("resume", out, "training.stepz=10", *CPU).err
    assert "training has no field 'stepz'; did you mean steps?" in told
    refuses(
        "training.steps=10 is over already: 120 were taken; training.steps=121 or more goes on",
        *("resume", out, "training.steps=10", *CPU),
    )
    done = manyheads("resume", out, "training.steps=125", "training.log_every=5", *CPU)
    assert done.code == 0, done.err
    assert "step 125 of 125" in done.err
    assert "steps: 125\n" in (out / "recipe.yaml").read_text(encoding="utf-8")


def test_a_budget_of_minutes_chooses_the_steps_and_the_clock_stops_what_does_not_fit(
    manyheads: Command,
    refuses: Refuses,
    files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, settings = tmp_path / "run", [one for one in SETTINGS if "training.steps" not in one]
    given = ("--source", files[0], "--target", files[1], *CPU, *settings)
    train = ("train", "translation", *given)
    steps = "--minutes chooses training.steps, which was given too; ask for one"
    refuses(steps, *train, "--minutes", "5", "training.steps=9", "--out", out)
    refuses("--minutes is above 0, got 0", *train, "--minutes", "0", "--out", out)
    monkeypatch.setattr("manyheads.learn.measure_pace", lambda trainer: Pace(100.0, 50.0, 0))
    done = manyheads(*train, "--minutes", "20", "--out", out)
    assert done.code == 0, done.err
    (told,) = (line for line in done.err.splitlines() if "fit into" in line)
    chosen = int(told.split()[0])
    assert 5 <= chosen <= 11
    assert told == f"{chosen} of 200 steps fit into --minutes 20, 1e+02 s each"
    assert f"steps: {chosen}\n" in (out / "recipe.yaml").read_text(encoding="utf-8")
    assert "done: `manyheads translate" in done.err
    # All steps are said to fit, so that the clock alone ends the run, however slow the machine.
    monkeypatch.setattr("manyheads.learn.fit_into", lambda *told: "all steps fit")
    done = manyheads(*train, "--minutes", "0.001", "--out", tmp_path / "late")
    assert done.code == 0, done.err
    late = f"the time is up; `manyheads resume {tmp_path / 'late'}` goes on to the last step"
    assert done.err.splitlines()[-1] == late
    assert (tmp_path / "late" / "weights.safetensors").exists(), "what was learned is not lost"


def test_settings_are_listed_with_their_defaults_and_what_they_do(
    manyheads: Command, run: Path
) -> None:
    done = manyheads("train", "translation", "--settings")
    assert (done.code, done.err) == (0, "")
    told = "  training.patience = 0   (a whole number)\n      Early stopping: stop after this many"
    assert told in done.out
    assert manyheads("train", run / "recipe.yaml", "--settings").out == done.out


def test_a_dry_run_prints_a_recipe_and_writes_nothing(
    manyheads: Command, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--source", files[0], "--target", files[1], "--dry-run")
    done = manyheads("train", "translation", *given, *CPU, *SETTINGS)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("task: translation\n")
    assert " parameters\n" in done.out
    assert not list(tmp_path.iterdir())


def test_a_setting_of_the_data_is_heeded_while_it_is_read(
    manyheads: Command, files: Files, tmp_path: Path
) -> None:
    given = ("--source", files[0], "--target", files[1], "--out", tmp_path / "run")
    manyheads("train", "translation", *given, *CPU, *SETTINGS, "data.held_out=3")
    kept = (tmp_path / "run" / "data" / "valid.jsonl").read_text(encoding="utf-8")
    assert len(kept.splitlines()) == 3


def test_columns_that_are_left_and_pieces_that_are_not_there_are_told(
    manyheads: Command, tmp_path: Path
) -> None:
    source, target = texts(tmp_path)
    both = zip(source.read_text().splitlines(), target.read_text().splitlines(), strict=True)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{one}\t{other}\tby me\n" for one, other in both))
    small = [*SETTINGS, "training.steps=1", "codec.kind=bpe", "codec.size=5000"]
    given = ("--pairs", pairs, "--out", tmp_path / "run", *CPU)
    done = manyheads("train", "translation", *given, *small)
    assert done.code == 0, done.err
    assert f"  {pairs} has 3 columns: 1 is read, 2 is written, the rest is left\n" in done.err
    assert re.search(r"\n  codec.size is 5,000, these texts have \d\d\d pieces\n", done.err)
    assert "codec.size is" in (tmp_path / "run" / "corpus.txt").read_text(encoding="utf-8")


def test_a_line_of_a_million_characters_is_left_out_and_reported(
    manyheads: Command, tmp_path: Path
) -> None:
    source, target = texts(tmp_path)
    with source.open("a") as one, target.open("a") as other:
        one.write("x" * 1_000_000 + "\n")
        other.write("y\n")
    given = ("--source", source, "--target", target, "--out", tmp_path / "run")
    done = manyheads("train", "translation", *given, *CPU, *SETTINGS, "training.steps=1")
    assert done.code == 0, done.err
    assert "61 pairs read, 60 kept\n  1 left out: longer than 2000 characters\n" in done.err
    assert "line 61: xxxx" in done.err


CHARACTERS = {"ba": "我", "du": "你", "ki": "他", "lo": "书", "me": "茶", "nu": "家"}


def test_what_has_no_spaces_is_judged_as_its_script_asks(
    manyheads: Command, refuses: Refuses, files: Files, tmp_path: Path
) -> None:
    lines = files[0].read_text().splitlines()
    target, out = tmp_path / "target.txt", tmp_path / "run"
    characters = ["".join(CHARACTERS[word] for word in line.split()) for line in lines]
    target.write_text("".join(f"{line}\n" for line in characters), encoding="utf-8")
    given = ("--source", files[0], "--target", target, "--out", out, *CPU, *SETTINGS)
    refuses(
        f"sacrebleu has no tokenizer 'words'; it has {', '.join(BLEU.TOKENIZERS)}",
        *("train", "translation", *given, "bleu_tokenizer=words"),
    )
    done = manyheads("train", "translation", *given, "codec.kind=character", "training.steps=1")
    assert done.code == 0, done.err
    told = "the targets are Chinese: BLEU counts words by sacreBLEU's zh; "
    assert f"{told}bleu_tokenizer=... would change it\n" in done.err
    assert "bleu_tokenizer: zh\n" in (out / "recipe.yaml").read_text(encoding="utf-8")
    test = ("--source", files[0], "--reference", target)
    done = manyheads("evaluate", "--model", out, *test, *CPU)
    assert f"{told}--tokenize would change it\n" in done.err
    assert "|tok:zh|" in done.out
    done = manyheads("evaluate", "--model", out, *test, "--tokenize", "char", *CPU)
    assert "|tok:char|" in done.out


# ---- stopped ---------------------------------------------------------------------------------


def test_the_first_signal_asks_and_a_second_interrupt_stops_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with catch_signals() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_a_second_interrupt_says_how_to_go_on_from_what_was_saved(
    manyheads: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    copytree(run, out)

    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("manyheads.learn.resume_run", interrupted)
    done = manyheads("resume", out, *CPU)
    assert done.code == 130
    assert done.err == (
        f"manyheads: stopped at once; `manyheads resume {out}` goes on from what was last saved\n"
    )


def test_however_often_it_is_terminated_it_stops_after_the_step() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with catch_signals() as asked:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
            assert asked()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_that_is_at_work_is_not_gone_on_with_beside_it(
    refuses: Refuses, run: Path, files: Files, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    copytree(run, out)
    sentence = (
        f"{out} is at work in another process ({os.getpid()}); when that has ended or was stopped, "
        f"`manyheads resume {out}` goes on"
    )
    with Run(out).hold_lock():
        refuses(sentence, "resume", out, *CPU)
    new = Run(tmp_path / "new")
    train = ("train", "translation", "--source", files[0], "--target", files[1], *SETTINGS)
    with new.make_folder():
        (new / "ours.txt").write_text("ours")
        refuses(sentence.replace(str(out), str(new.folder)), *train, "--out", new.folder, *CPU)
        assert (new / "ours.txt").exists()


def test_a_run_killed_while_it_was_prepared_is_explained_and_begun_again(
    manyheads: Command, refuses: Refuses, files: Files, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    (out / "data").mkdir(parents=True)
    (out / LOCK).write_text("12345")
    refuses(
        f"{out} was stopped before its first step, while its corpus was read; "
        f"`manyheads train` with --out {out} begins again",
        *("resume", out, *CPU),
    )
    given = ("--source", files[0], "--target", files[1], "--out", out)
    done = manyheads("train", "translation", *given, *CPU, *SETTINGS, "training.steps=1")
    assert done.code == 0, done.err
    assert not (out / LOCK).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_stopped_run_says_how_to_go_on_and_goes_on(
    manyheads: Command, run: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "manyheads", "train", str(run / "recipe.yaml")]
    more = ["training.steps=100000", "training.log_every=10", "--out", str(out), *CPU]
    with subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step"):
                process.send_signal(number)
                break
        rest = process.stderr.read()
    assert process.returncode == 128 + number
    assert rest.endswith(f"stopped; `manyheads resume {out}` goes on from here\n")
    assert "stopping after this step; a second Ctrl-C stops at once\n" in rest
    recipe = out / "recipe.yaml"
    metrics = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    last = json.loads(metrics[-1])["step"]
    text = recipe.read_text(encoding="utf-8").replace("steps: 100000", f"steps: {last + 20}")
    recipe.write_text(text, encoding="utf-8")
    done = manyheads("resume", out, *CPU)
    assert done.code == 0
    assert f"step {last + 20} of {last + 20}" in done.err.replace(",", "")
    assert f"step {last} of" not in done.err.replace(",", "")


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (
            b"a\nb\n\nd\n",
            b"1\n2\n3\n",
            "{0} has 4 lines and {1} 3, but line i of one is the translation of line i of the "
            "other; line 4 has no partner, and line 3 is empty in only one of them",
        ),
        (
            b"a\nb \xff\n",
            b"1\n2\n",
            "{0}:2: byte 3 is 0xff, which is not UTF-8; `iconv -t UTF-8` makes it so",
        ),
        (b"", b"", "nothing is in the corpus: its files are empty"),
        (
            b"\n \n",
            b"\n\n",
            "nothing is left of the corpus: 2 pairs read, 0 kept, 2 empty on both sides",
        ),
        (
            b"a\nb\n",
            b"1\n2\n",
            "2 pairs are too few to hold some out for validation; give files for it, or 10 pairs "
            "at least",
        ),
    ],
)
def test_files_that_cannot_be_learned_from_are_refused(
    source: bytes, target: bytes, sentence: str, refuses: Refuses, tmp_path: Path
) -> None:
    one, other, out = tmp_path / "one", tmp_path / "other", tmp_path / "run"
    one.write_bytes(source)
    other.write_bytes(target)
    given = ("--source", one, "--target", other, "--out", out, *CPU)
    refuses(sentence.format(one, other), "train", "translation", *given)
    assert not out.exists(), "the same command may be given again"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("--source nope --target {1}", "there is no file nope"),
        ("--source {2} --target {1}", "{2} is a folder, a file of lines was asked for"),
        ("--source {0}", "source was given without target; they come together"),
        ("--target {1}", "target was given without source; they come together"),
        ("", "nothing to learn from: give source and target, or pairs"),
        (
            "--source {0} --target {1} --pairs p.tsv",
            "source and target were given and pairs too; one of them is enough",
        ),
        ("--pairs {0}", "{0}:1:1: not JSON: Expecting value"),
        (
            "--source {0} --target {1} --preset huge",
            "there is no preset 'huge'; there are tiny, small, base",
        ),
        (
            "--source {0} --target {1} --network mlp",
            f"translation is learned by {' or '.join(Seq2SeqRecipe.networks)}, not by mlp",
        ),
        ("--source {0} --target {1} --device tpu", "a device is cpu or cuda, got 'tpu'"),
        ("--source {0} --target {1} --device meta", "a device is cpu or cuda, got 'meta'"),
        (
            "--source {0} --target {1} training.stesp=3",
            "training.stesp=3: training has no field 'stesp'; did you mean steps?",
        ),
        (
            "--source {0} --target {1} steps",
            "steps: an override reads like field=value or group.field=value",
        ),
        (
            "--source {0} --target {1} codec.kind=bpe codec.size=100",
            "byte pairs need 260 numbers for all bytes, got 100",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    given: str, sentence: str, refuses: Refuses, files: Files, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    arguments = given.format(*files, tmp_path).split()
    expected = sentence.format(*files, tmp_path)
    refuses(expected, "train", "translation", *arguments, "--out", out)
    assert not out.exists()


def test_cuda_without_a_gpu_is_refused(
    refuses: Refuses, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    sentence = "cuda was asked for and torch finds no GPU here; cpu would do"
    refuses(sentence, "translate", "--model", run, "--device", "cuda", "ba")


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (
            ["translatoin"],
            "there is no task 'translatoin'; there are translation, summarization, answering, "
            "pointing, language, masked, classification, regression, labelling, music, graph, "
            "image, or name a recipe.yaml",
        ),
        (["nope.yaml"], "settings are read from a file, and there is no nope.yaml"),
        (["{0}"], "{0} is a folder; a run's recipe is the recipe.yaml in it"),
        (
            ["{0}/recipe.yaml", "--source", "x"],
            "{0}/recipe.yaml has no option --source; a recipe says what to read",
        ),
        (
            ["{0}/recipe.yaml", "--network", "recurrent"],
            "{0}/recipe.yaml says which network; network.kind=recurrent changes it",
        ),
        (
            ["{0}/recipe.yaml", "--preset", "small"],
            "{0}/recipe.yaml says all that --preset small would choose; leave the preset out, and "
            "change settings one by one: network.width=256",
        ),
        (
            ["{0}/recipe.yaml", "--augment", "none"],
            "{0}/recipe.yaml has no option --augment; a recipe says what to read",
        ),
    ],
)
def test_what_is_neither_a_task_nor_a_recipe_is_refused(
    what: list[str], sentence: str, refuses: Refuses, run: Path, tmp_path: Path
) -> None:
    arguments = [one.format(run) for one in what]
    refuses(sentence.format(run), "train", *arguments, "--out", tmp_path / "new")


def test_all_mistakes_of_a_recipe_are_told_at_once_with_their_places(
    manyheads: Command, tmp_path: Path
) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "task: translatoin\n"
        "data: {source: a, target: b, targett: c}\n"
        "network:\n  width: sixty\n  headds: 4\n"
        "training:\n  steps: 1.5\n",
        encoding="utf-8",
    )
    done = manyheads("train", recipe, "--out", tmp_path / "run")
    assert done.code == 2
    assert done.err.splitlines() == [
        "manyheads: 5 mistakes",
        f"{recipe}:1:7: task is one of translation, summarization, answering, got 'translatoin'; "
        "did you mean translation?",
        f"{recipe}:2:30: data has no field 'targett'; did you mean target?",
        f"{recipe}:4:10: network.width is a whole number, got 'sixty'",
        f"{recipe}:5:3: network has no field 'headds'; did you mean heads?",
        f"{recipe}:7:10: training.steps is a whole number, got '1.5'",
    ]


def test_what_does_not_fit_is_told_at_its_own_line_and_all_at_once(
    manyheads: Command, files: Files, tmp_path: Path
) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"task: translation\ndata:\n  source: {files[0]}\n  valid_pairs: x\n"
        "network:\n  width: 30\n  dropout: 1.5\n  heads: 4\n"
        "training:\n  learning_rate: .inf\n  betas: [0.9, 1]\n  steps: 0\n",
        encoding="utf-8",
    )
    done = manyheads("train", recipe, "network.key_heads=0", "--out", tmp_path / "run")
    assert done.code == 2
    assert done.err.splitlines() == [
        "manyheads: 6 mistakes",
        f"{recipe}:3:3: source was given without target; they come together",
        f"{recipe}:7:12: network.dropout is a share from 0 to below 1, got 1.5",
        f"{recipe}:10:18: training.learning_rate is above 0, got inf",
        f"{recipe}:11:10: training.betas is a list, each a share from 0 to below 1, got [0.9, 1.0]",
        f"{recipe}:12:10: training.steps is 1 or more, got 0",
        "network.key_heads=0: network.key_heads is 1 or more, got 0",
    ]


def test_a_check_of_two_settings_is_told_where_one_of_them_stands(
    refuses: Refuses, files: Files, tmp_path: Path
) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"task: translation\ndata: {{source: {files[0]}, target: {files[1]}}}\n"
        "network:\n  heads: 4\n  width: 30\nlayout: packed\n",
        encoding="utf-8",
    )
    refuses(f"{recipe}:4:3: 4 heads do not divide a width of 30", "train", recipe, "--dry-run")
    refuses(
        f"{recipe}:6:1 with network.kind=recurrent network.width=32: a recurrent network reads "
        "one sequence a row; layout: padded would do",
        *("train", recipe, "network.kind=recurrent", "network.width=32", "--dry-run"),
    )


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("network.depth=1000000", "network.depth is 1000 at most, got 1000000"),
        ("network.width=4611686018427387904", "network.width is 131072 at most, got 461168601"),
        (f"network.ffn_width=1{'0' * 400}", "network.ffn_width is 1048576 at most, got 1000"),
        ("codec.size=2000000000", "codec.size is 10000000 at most, got 2000000000"),
        (
            "network.position=Learned(10000000000)",
            "position: places is 16777216 at most, got 10000",
        ),
        ("data.longest_tokens=10000000000", "data.longest_tokens is 10000000 at most, got "),
        ("training.average=1000000", "training.average is 1000 at most, got 1000000"),
    ],
)
def test_an_absurd_size_is_refused_before_anything_is_read(
    setting: str, sentence: str, manyheads: Command, tmp_path: Path
) -> None:
    given = ("--source", "unread", "--target", "unread", "--out", tmp_path / "run", *CPU)
    done = manyheads("train", "translation", *given, setting)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"manyheads: {setting}: {sentence}")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_a_new_run_is_refused_before_the_corpus_is_read(
    refuses: Refuses, run: Path, tmp_path: Path
) -> None:
    train = ("train", "translation", "--source", "unread", "--target", "unread", *CPU, "--out")
    before = sorted(run.rglob("*"))
    refuses(
        f"{run} already holds a run; `manyheads resume {run}` goes on with it, "
        "another --out begins a new one",
        *train,
        run,
    )
    assert sorted(run.rglob("*")) == before
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    refuses(f"{file} is a file; a run needs a folder of its own", *train, file)
    refuses(f"Not a directory: '{file}/run'", *train, file / "run")
    refuses(f"{tmp_path} is not empty and holds no run; give --out a new folder", *train, tmp_path)
    assert file.read_text(encoding="utf-8") == "mine"
    refuses("a run needs a folder: --out runs/my-model", *train[:-1])


def test_what_cannot_be_resumed_is_refused(refuses: Refuses, run: Path, tmp_path: Path) -> None:
    refuses("there is no folder nope", "resume", "nope")
    refuses(f"{tmp_path} holds no run: there is no recipe.yaml in it", "resume", tmp_path)
    cut = copytree(run, tmp_path / "cut") / "checkpoint.safetensors"
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    before = cut.read_bytes()
    refuses(
        f"{cut} is not a whole safetensors file (Error while deserializing header: incomplete "
        "metadata, file not fully covered); it was cut short or is something else",
        "resume",
        cut.parent,
        *CPU,
    )
    assert cut.read_bytes() == before
