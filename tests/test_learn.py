"""From two files of sentences to a trained network, however often it is stopped on the way."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import midis
import pytest
import torch
from designs import network_of
from small import SAME, begun, contents, copied, recipe_in, trainer_of

from manyheads.config import load, write
from manyheads.learn import prepare_run, resume_run
from manyheads.modules.config import TransformerConfig, change_kind
from manyheads.tasks.classification.settings import ClassificationRecipe, LabelledData
from manyheads.tasks.language.settings import LanguageRecipe, TextCodec, TextData
from manyheads.tasks.masked.settings import MaskedRecipe
from manyheads.tasks.music.settings import MusicData, MusicRecipe
from manyheads.tasks.seq2seq.settings import PairCodec, Seq2SeqRecipe
from manyheads.training.config import Training
from manyheads.training.files import read_tensors, write_tensors
from manyheads.training.run import CHECKPOINT, METRICS, RECIPE, WEIGHTS, Run
from manyheads.training.trainer import Callback, StepLog
from manyheads.training.weights import weights_of

EVERYTHING: dict[str, Any] = {"ema": 0.9, "average": 2, "patience": 4, "accumulate": 2}

RUNS = [
    ("padded", {}, {}),
    ("padded", {"position": "Learned(1024)", "tied": False}, EVERYTHING),
    ("packed", {}, {}),
    ("packed", {"position": "Rotary()", "attention_dropout": 0.1}, EVERYTHING),
    ("padded", {"kind": "recurrent"}, EVERYTHING),
    ("padded", {"kind": "convolutional"}, EVERYTHING),
    ("padded", {"kind": "mask-predict"}, {"label_smoothing": 0.1}),
    ("padded", {"kind": "latent"}, {}),
    ("padded", {"kind": "ctc", "glancing": 0.5}, EVERYTHING),
]


def assert_equal_runs(ours: Run, theirs: Run) -> None:
    for name in SAME:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    tensors, other = (read_tensors(run / CHECKPOINT)[0] for run in (ours, theirs))
    assert tensors.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in tensors.items())


def losses(run: Run) -> list[float]:
    return [line["loss"] for line in run.lines(METRICS) if "loss" in line]


@pytest.mark.parametrize(("layout", "network", "training"), RUNS)
def test_a_run_that_was_stopped_is_the_run_that_was_not(
    tmp_path: Path, layout: str, network: dict[str, Any], training: dict[str, Any]
) -> None:
    often = {"validate_every": 5, "checkpoint_every": 4}
    recipe = recipe_in(tmp_path, layout, network, steps=13, **often, **training)
    whole = begun(recipe, tmp_path / "whole")
    stopped = copied(whole, tmp_path / "stopped")
    assert trainer_of(recipe, whole).fit()
    for step in (2, 7, 10):
        trainer = trainer_of(recipe, stopped)
        assert not trainer.fit(lambda trainer=trainer, step=step: trainer.learner.taken >= step)
    assert trainer_of(recipe, stopped).fit()
    assert_equal_runs(stopped, whole)
    assert losses(whole)[-1] < losses(whole)[0]


# ---- real processes ----


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "manyheads", *map(str, arguments)]
    return subprocess.Popen(command, env=alone(), stderr=subprocess.PIPE, text=True)


def alone() -> dict[str, str]:
    """One thread, as in the tests: another number of them adds in another order."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def wait_for(step: int, run: Run, process: subprocess.Popen[str]) -> None:
    """Until the log has come to this step."""
    while process.poll() is None:
        text = (run / METRICS).read_text() if (run / METRICS).exists() else ""
        whole = text[: text.rfind("\n") + 1].splitlines()
        if whole and json.loads(whole[-1])["step"] >= step:
            return
        time.sleep(0.002)
    raise AssertionError(f"it ended before it was stopped: {process.communicate()[1]}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("whole")
    run = begun(recipe_in(folder, steps=40, ema=0.9, average=2, patience=9), folder / "run")
    assert resume_run(run)
    return run


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=lambda end: end.name)
def test_a_process_that_is_ended_from_outside_leaves_a_run_that_goes_on(
    whole: Run, tmp_path: Path, end: signal.Signals
) -> None:
    run = Run(tmp_path / "ended")
    process = started("train", whole / RECIPE, "--out", run.folder, "--device", "cpu")
    wait_for(25, run, process)
    process.send_signal(end)
    said = process.communicate(timeout=600)[1]
    _, note = read_tensors(run / CHECKPOINT)
    if end == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert note["step"] % 10 == 0
    else:
        assert process.returncode == 128 + signal.SIGTERM, said
    assert note["step"] < 40
    assert resume_run(run)
    assert_equal_runs(run, whole)


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, "padded", {"dropout": 0.0}, steps=7, log_every=1, accumulate=2)
    one = begun(recipe, tmp_path / "one")
    two = copied(one, tmp_path / "two")
    assert resume_run(one)
    rows = [len(batch) for batch in trainer_of(recipe, one).plan.epoch(0)]
    assert any(count % 2 for count in rows)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    many = ["--nproc-per-node=2", "-m", "manyheads", "resume", two.folder, "--device", "cpu"]
    done = subprocess.run(
        [*torchrun, *many], env=alone(), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert losses(two) == pytest.approx(losses(one), abs=1e-5)
    assert len(losses(one)) == 7


# ---- the folder ----


@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize("parts", [2, 3])
def test_batches_in_parts_give_the_same_losses(tmp_path: Path, layout: str, parts: int) -> None:
    recipe = recipe_in(tmp_path, layout, {"dropout": 0.0}, steps=6, log_every=1, validate_every=99)
    one = begun(recipe, tmp_path / "one")
    cut = copied(one, tmp_path / "cut")
    assert trainer_of(recipe, one).fit()
    in_parts = replace(recipe, training=replace(recipe.training, accumulate=parts))
    assert trainer_of(in_parts, cut).fit()
    assert losses(cut) == pytest.approx(losses(one), abs=1e-6)


def test_a_folder_holds_all_that_a_run_reads(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, steps=3, validate_every=2)
    run = begun(recipe, tmp_path / "run")
    assert load(Seq2SeqRecipe, run / RECIPE) == recipe
    for name in ("source.txt", "target.txt"):
        (tmp_path / name).unlink()
    assert resume_run(run)
    text = (run / "corpus.txt").read_text(encoding="utf-8")
    assert text.startswith("60 pairs read, 59 kept\n  1 left out: met before\n")
    samples = (run / "samples.txt").read_text(encoding="utf-8")
    assert samples.startswith("== step 2  bleu ")
    assert samples.count("   written  ") == 2 * 5
    assert (run / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("codec", "longest", "sentence"),
    [
        (PairCodec("bpe", 100), 512, "byte pairs need 260 numbers for all bytes, got 100"),
        (
            PairCodec("word", 40),
            2,
            "nothing is left of the train pairs: all 54 are longer than 2 tokens; "
            "a larger data.longest_tokens would do",
        ),
    ],
)
def test_a_run_that_could_not_begin_leaves_its_folder_free(
    tmp_path: Path, codec: PairCodec, longest: int, sentence: str
) -> None:
    recipe = recipe_in(tmp_path)
    wrong = replace(recipe, codec=codec, data=replace(recipe.data, longest_tokens=longest))
    with pytest.raises(ValueError) as error:
        prepare_run(wrong, Run(tmp_path / "run"))
    assert str(error.value) == sentence
    assert not (tmp_path / "run").exists()
    prepare_run(recipe, Run(tmp_path / "run"))


def test_a_folder_that_holds_something_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    run, other, file = begun(recipe, tmp_path / "run"), tmp_path / "other", tmp_path / "file"
    before = contents(run)
    with pytest.raises(ValueError) as error:
        prepare_run(recipe, run)
    assert str(error.value) == (
        f"{run.folder} already holds a run; `manyheads resume {run.folder}` goes on with it, "
        "another --out begins a new one"
    )
    assert contents(run) == before
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="is not empty and holds no run; give --out a new folder"):
        prepare_run(recipe, Run(other))
    assert contents(Run(other)) == {"letter.txt": b"dear"}
    file.write_text("dear")
    with pytest.raises(ValueError, match="file is a file; a run needs a folder of its own"):
        prepare_run(recipe, Run(file))
    assert file.read_text() == "dear"


def test_a_checkpoint_of_another_network_is_refused_and_the_folder_left(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, steps=2)
    run = begun(recipe, tmp_path / "run")
    assert resume_run(run)
    wider = replace(recipe, network=replace(recipe.network, width=32))
    (run / RECIPE).write_text(write(wider), encoding="utf-8")
    before = contents(run)
    with pytest.raises(ValueError) as error:
        resume_run(run)
    assert str(error.value) == (
        f"{run / CHECKPOINT} belongs to another network: its network.encoder.embedding.table.weight"
        " is (16, 16), here it is (16, 32)"
    )
    assert contents(run) == before


# ---- other tasks ----

SMALL = TransformerConfig(
    width=16, depth=1, heads=2, ffn_width=32, dropout=0.1, position="Rotary()"
)
WORDS, FEW = "ba du ki lo me nu", {"steps": 9, "warmup_steps": 2, "tokens_per_batch": 96}
OFTEN = {"log_every": 2, "validate_every": 4, "checkpoint_every": 3, "ema": 0.9, "average": 2}


def training_of(**settings: Any) -> Training:
    return Training(**{**FEW, **OFTEN, **settings})


def language_in(folder: Path, **settings: Any) -> LanguageRecipe:
    kind = settings.pop("kind", "transformer")
    (folder / "book.txt").write_text(f"{WORDS}.\n" * 60, encoding="utf-8")
    return LanguageRecipe(
        "language",
        TextData((folder / "book.txt",), context=24),
        TextCodec("character"),
        change_kind(SMALL, kind),
        training_of(best_by="loss", **settings),
        layout="packed" if kind == "transformer" else "padded",
    )


def masked_in(folder: Path, **settings: Any) -> MaskedRecipe:
    (folder / "book.txt").write_text(f"{WORDS}.\n" * 60, encoding="utf-8")
    data = TextData((folder / "book.txt",), context=24)
    codec, network = TextCodec("character"), replace(SMALL, **settings.pop("network", {}))
    return MaskedRecipe("masked", data, codec, network=network, training=training_of(**settings))


def classification_in(folder: Path, **settings: Any) -> ClassificationRecipe:
    rows = [f"{WORDS[: 3 + i % 9]}\t{'good' if i % 3 else 'poor'}\n" for i in range(60)]
    (folder / "judged.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    data = LabelledData(folder / "judged.tsv")
    codec = TextCodec("character")
    return ClassificationRecipe(
        "classification", data, codec, SMALL, training=training_of(**settings)
    )


def music_in(folder: Path, **settings: Any) -> MusicRecipe:
    network = settings.pop("network", {})
    data = MusicData((midis.folder(folder / "music"),), context=24, stretches=(0.9, 1.1))
    training = training_of(best_by="loss", **settings)
    return MusicRecipe(
        "music", data, network=network_of(**vars(SMALL) | network), training=training
    )


TASKS: list[Any] = [
    music_in,
    partial(music_in, network={"relative": "ScoreContent(every=64)", "position": None}),
    language_in,
    partial(language_in, kind="recurrent"),
    masked_in,
    classification_in,
]


class Killed(Exception):  # noqa: N818 - it is no error
    """Whatever ends a process from outside."""


class Deadly(Callback):
    """Ends it all at a step, with nothing written after the last checkpoint but the logs."""

    def __init__(self, step: int):
        self.step = step

    def on_log(self, note: StepLog) -> None:
        if note.step >= self.step:
            raise Killed


@pytest.mark.parametrize("recipe_of", TASKS)
def test_a_run_of_any_task_that_was_killed_and_resumed_is_the_run_that_was_not(
    tmp_path: Path, recipe_of: Any
) -> None:
    recipe = recipe_of(tmp_path)
    whole = begun(recipe, tmp_path / "whole")
    killed = copied(whole, tmp_path / "killed")
    assert resume_run(whole)
    for step in (2, 4, 8):  # before the first checkpoint, after one, after two
        with pytest.raises(Killed):
            resume_run(killed, callback=Deadly(step))
    for path in (tmp_path / "book.txt", tmp_path / "judged.tsv"):
        path.unlink(missing_ok=True)  # what it was read from is no longer needed
    shutil.rmtree(tmp_path / "music", ignore_errors=True)
    assert resume_run(killed)
    assert_equal_runs(killed, whole)
    assert len(losses(whole)) == 5


@pytest.fixture
def guesser(tmp_path: Path) -> Run:
    """A run that has learned to guess hidden words."""
    folder = tmp_path / "guesser"
    folder.mkdir()
    run = begun(masked_in(folder, steps=4), folder / "run")
    assert resume_run(run)
    return run


def test_a_run_that_starts_from_another_begins_with_its_weights_and_words(
    tmp_path: Path, guesser: Run
) -> None:
    recipe = replace(classification_in(tmp_path), start_from=guesser.folder)
    run = begun(recipe, tmp_path / "run")
    for name in ("tokenizer.json", "tokenizer.signs.json"):
        assert (run / name).read_bytes() == (guesser / name).read_bytes()
    held, _ = read_tensors(guesser / WEIGHTS)
    network = trainer_of(recipe, run).learner.network
    mine = {n.removeprefix("encoder."): w for n, w in weights_of(network).items()}
    heads = {name for name in mine if name.startswith("head.")}
    assert heads == {"head.weight", "head.bias"}
    assert mine.keys() - heads == {name for name in held if not name.startswith("head.")}
    assert all(torch.equal(mine[name], held[name]) for name in mine.keys() - heads)
    anew = trainer_of(recipe, begun(classification_in(tmp_path, steps=2), tmp_path / "anew"))
    table = weights_of(anew.learner.network)["encoder.embedding.table.weight"]
    assert not torch.equal(table, held["embedding.table.weight"])


def test_a_run_goes_on_when_what_it_started_from_is_gone(tmp_path: Path, guesser: Run) -> None:
    recipe = replace(classification_in(tmp_path), start_from=guesser.folder)
    whole = begun(recipe, tmp_path / "whole")
    killed = copied(whole, tmp_path / "killed")
    assert resume_run(whole)
    shutil.rmtree(guesser.folder)
    for step in (2, 6):  # before the first checkpoint, and after one
        with pytest.raises(Killed):
            resume_run(killed, callback=Deadly(step))
    assert resume_run(killed)
    assert_equal_runs(killed, whole)


def test_weights_that_do_not_fit_are_refused_and_no_folder_is_left(
    tmp_path: Path, guesser: Run
) -> None:
    recipe = replace(classification_in(tmp_path), start_from=guesser.folder)
    wider = replace(recipe, network=replace(recipe.network, ffn_width=64))
    with pytest.raises(ValueError) as error:
        prepare_run(wider, Run(tmp_path / "run"))
    assert str(error.value) == (
        "the weights to start from do not fit: "
        "encoder.stack.blocks.0.feed_forward.part.inward.weight is (64, 16) here and (32, 16) "
        "there; without network settings the network is the one it starts from"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_no_numbers_are_nothing_to_start_from(
    value: float, tmp_path: Path, guesser: Run
) -> None:
    held, note = read_tensors(guesser / WEIGHTS)
    held["stack.norm.weight"][3] = value
    write_tensors(guesser / WEIGHTS, held, note)
    with pytest.raises(ValueError) as error:
        prepare_run(
            replace(classification_in(tmp_path), start_from=guesser.folder), Run(tmp_path / "run")
        )
    assert str(error.value) == (
        f"{guesser / WEIGHTS}: stack.norm.weight holds values that are no numbers "
        "(NaN or infinite); weights from before training went wrong would do"
    )
    assert not (tmp_path / "run").exists()


def test_a_head_of_another_size_begins_anew(tmp_path: Path) -> None:
    first = begun(classification_in(tmp_path, steps=2), tmp_path / "first")
    assert resume_run(first)
    three = (tmp_path / "judged.tsv").read_text(encoding="utf-8") + "nu\tfine\nme\tfine\n"
    recipe = replace(classification_in(tmp_path), start_from=first.folder)
    (tmp_path / "judged.tsv").write_text(three, encoding="utf-8")
    run = begun(recipe, tmp_path / "second")
    network = weights_of(trainer_of(recipe, run).learner.network)
    held, _ = read_tensors(first / WEIGHTS)
    assert tuple(network["head.weight"].shape) == (3, 16)
    table = "encoder.embedding.table.weight"
    assert torch.equal(network[table], held[table])


class Heard(Callback):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.steps: list[int] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def on_validate(self, step: int, scores: Any, samples: Any) -> None:
        self.steps.append(step)


WORSE = (
    "that is worse than before the first step; a lower rate (training.learning_rate=0.33) "
    "keeps more of what it started from"
)
NONE_BETTER = "no validation was better than before the first step: the result is it"


@pytest.mark.parametrize("recipe_of", [language_in, masked_in, music_in, classification_in])
def test_what_a_run_starts_from_is_validated_first_and_is_the_result_where_nothing_is_better(
    tmp_path: Path, recipe_of: Any
) -> None:
    recipe = recipe_of(tmp_path, steps=20, learning_rate=0.01)
    first = begun(recipe, tmp_path / "first")
    assert resume_run(first)
    spoiling = training_of(learning_rate=1.0, average=1, ema=0.0, best_by="loss")
    recipe = replace(recipe, training=spoiling, start_from=first.folder)
    run = begun(recipe, tmp_path / "second")
    heard = Heard()
    assert resume_run(run, callback=heard)
    assert heard.steps == [0, 4, 8, 9]
    assert [line["step"] for line in run.lines(METRICS) if "valid" in line] == [0, 4, 8, 9]
    assert heard.said.count(WORSE) == 1
    assert heard.said[-1] == NONE_BETTER
    (ours, _), (held, _) = (read_tensors(one / WEIGHTS) for one in (run, first))
    assert all(torch.equal(weight, held[name]) for name, weight in ours.items())


def test_a_run_that_betters_what_it_starts_from_says_nothing_of_it(tmp_path: Path) -> None:
    first = begun(language_in(tmp_path, steps=1), tmp_path / "first")
    assert resume_run(first)
    run = begun(replace(language_in(tmp_path), start_from=first.folder), tmp_path / "second")
    heard = Heard()
    assert resume_run(run, callback=heard)
    assert heard.steps[0] == 0
    assert not [said for said in heard.said if "before the first step" in said]


def test_a_head_that_begins_anew_is_validated_before_it_learns_and_never_the_result(
    tmp_path: Path, guesser: Run
) -> None:
    recipe = classification_in(tmp_path, learning_rate=1e-9, average=1, ema=0.0)
    run = begun(replace(recipe, start_from=guesser.folder), tmp_path / "run")
    heard = Heard()
    assert resume_run(run, callback=heard)
    assert heard.steps == [0, 4, 8, 9]
    assert read_tensors(run / WEIGHTS)[1]["moments"][0][1] > 0


def test_a_run_from_nothing_is_not_validated_before_its_first_step(tmp_path: Path) -> None:
    heard = Heard()
    assert resume_run(begun(language_in(tmp_path), tmp_path / "run"), callback=heard)
    assert heard.steps == [4, 8, 9]
