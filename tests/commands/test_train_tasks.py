"""train for each task, as a person types it: recipes, mistakes, and runs to start from."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import books
import midis
import numpy as np
import pytest
import torch
from typed import Command, Refuses, texts

from manyheads.cli.compare import settings_for
from manyheads.learn import open_task
from manyheads.tasks.table import ABOUT, load_recipe
from manyheads.training.files import read_tensors
from manyheads.training.run import CHECKPOINT, METRICS, RECIPE, START, WEIGHTS, Run
from manyheads.training.weights import adopt, weights_of

CPU = ("--device", "cpu")
Base = Callable[[Path], Path]
NO_ROOM = (
    "training.tokens_per_batch=3 has no room for the longest example, which has {0} tokens; "
    "training.tokens_per_batch={0} or a lower data.{1} would do"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp()
    for run in (books.language, books.masked, books.classification):
        run(folder)  # now: what a test itself prints is looked at
    return folder


def files_for(task: str, folder: Path) -> list[object]:
    """A corpus of this task, as it is given to it."""
    if task == "music":
        return ["--music", midis.folder(folder / "music")]
    if task in ("language", "masked"):
        return ["--text", books.book(folder)]
    made = {"classification": books.judged, "regression": books.numbered}
    if task in (*made, "labelling"):
        return ["--data", made.get(task, books.tagged)(folder)]
    if task == "translation":
        source, target = texts(folder)
        return ["--source", source, "--target", target]
    if task == "graph":
        nodes, edges = folder / "nodes.tsv", folder / "edges.tsv"
        nodes.write_text("id\tlabel\n" + "".join(f"n{i}\t{'ab'[i % 2]}\n" for i in range(20)))
        edges.write_text("one\tother\n" + "".join(f"n{i}\tn{i + 1}\n" for i in range(19)))
        return ["--nodes", nodes, "--edges", edges, "--target", "label"]
    if task == "image":
        np.savez(folder / "images.npz", images=np.zeros((20, 4, 4), np.uint8))
        return ["--images", folder / "images.npz"]
    asked = ("question", "answer")
    keys = {
        "summarization": ("document", "summary"),
        "answering": asked,
        "pointing": (*asked, "context"),
    }[task]
    lines = [{"context": "text", **dict.fromkeys(keys, f"text {i}")} for i in range(40)]
    path = folder / "pairs.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return ["--pairs", path]


@pytest.mark.parametrize("task", ABOUT)
def test_a_dry_run_prints_a_recipe_that_reads_back_and_writes_nothing(
    task: str, manyheads: Command, tmp_path: Path
) -> None:
    given = ["train", task, *files_for(task, tmp_path), *CPU, *books.SMALL]
    kind = {"music": "performance", "graph": "", "image": ""}.get(task, "byte")
    before = sorted(tmp_path.iterdir())
    done = manyheads(*given, *([f"codec.kind={kind}"] if kind else []), "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert sorted(tmp_path.iterdir()) == before
    printed = tmp_path / "printed.yaml"
    printed.write_text(done.out, encoding="utf-8")
    recipe = load_recipe(printed)
    assert (recipe.task, recipe.network.width) == (task, 16)
    assert not kind or recipe.codec.kind == kind
    again = manyheads("train", printed, *CPU, "--dry-run")
    measured = re.compile(r"# (memory|time): about .* on cpu.*\n")
    assert len(measured.findall(done.out)) == 2
    assert measured.sub("", again.out) == measured.sub("", done.out)


@pytest.mark.parametrize(
    ("task", "network", "last"),
    [
        ("language", "recurrent", "done: `manyheads generate --model {0}` uses it"),
        ("masked", "transformer", "done: `manyheads embed --model {0}` uses it"),
        ("classification", "convolutional", "done: `manyheads classify --model {0}` uses it"),
        ("regression", "recurrent", "done: `manyheads classify --model {0}` uses it"),
        ("labelling", "transformer", "done: `manyheads classify --model {0}` uses it"),
    ],
)
def test_a_run_is_trained_and_says_what_uses_it(
    task: str, network: str, last: str, manyheads: Command, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    files = files_for(task, tmp_path)
    given = (
        "--network",
        network,
        "--out",
        out,
        *CPU,
        *settings_for(network, books.SMALL),
        "codec.kind=byte",
    )
    done = manyheads("train", task, *files, *given, "training.tokens_per_batch=256")
    assert done.code == 0, done.err
    assert done.err.splitlines()[-1] == last.format(out)
    assert sum("validated: " in line for line in done.err.splitlines()) == 2


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("language", "nothing to learn from: give text, a file or a folder"),
        ("masked", "nothing to learn from: give text, a file or a folder"),
        ("classification", "nothing to learn from: give data, a file of texts with labels"),
        (
            "embedding --text {0}/book.txt",
            "vectors of texts are not trained by themselves; `manyheads train classification "
            "--start-from` goes on from such a model, `manyheads train masked` makes one from text",
        ),
        (
            "translation --text {0}/book.txt",
            "translation has no option --text; it learns from --source, --target, --pairs, "
            "--valid-source, --valid-target, --valid-pairs, --teacher",
        ),
        (
            "language --source {0}/book.txt",
            "language has no option --source; it learns from --text, --valid-text",
        ),
        (
            "masked --data {0}/judged.tsv",
            "masked has no option --data; it learns from --text, --valid-text",
        ),
        (
            "classification --text {0}/book.txt",
            "classification has no option --text; it learns from --data, --valid-data",
        ),
        ("language --text nope.txt", "there is no file nope.txt"),
        ("classification --data nope.tsv", "there is no file nope.tsv"),
        (
            "language --text {0}/bad.txt",
            "{0}/bad.txt:2: byte 4 is 0xff, which is not UTF-8; `iconv -t UTF-8` makes it so",
        ),
        (
            "classification --data {0}/bad.tsv",
            "{0}/bad.tsv:2: byte 4 is 0xff, which is not UTF-8; `iconv -t UTF-8` makes it so",
        ),
        (
            "masked --text {0}/empty.txt",
            "there is no text in {0}/empty.txt: all of it is blank",
        ),
        (
            "language --text {0}/book.txt --valid-text {0}/empty.txt",
            "there is no text in {0}/empty.txt: all of it is blank",
        ),
        (
            "classification --data {0}/empty.tsv",
            "{0}/empty.tsv is empty: no text with a label is in it",
        ),
        (
            "classification --data {0}/judged.tsv --valid-data {0}/other.tsv",
            "{0}/other.tsv:3: label 'awful' was never seen in training; there are good, poor",
        ),
        (
            "regression --data {0}/judged.tsv",
            "{0}/judged.tsv:2: a number was asked for, 'good' is here",
        ),
        (
            "language --text {0}/book.txt --preset huge",
            "there is no preset 'huge'; there are tiny, small, base, modern",
        ),
        (
            "masked --text {0}/book.txt --network recurrent",
            "masked is learned by transformer, not by recurrent",
        ),
        (
            "language --text {0}/book.txt network.kind=convolutional",
            "network.kind=convolutional: a language model is a transformer "
            "or a recurrent network; network.kind: recurrent would do",
        ),
        (
            "language --text {0}/book.txt training.best_by=score",
            "training.best_by=score: a language model is judged by its loss; "
            "training.best_by: loss",
        ),
        (
            "language --text {0}/book.txt network.pattern=Windw(64)",
            "network.pattern=Windw(64): pattern: there is no pattern 'Windw'; did you mean Window? "
            "There are Everything, Causal, Window, Blocks, Prefix, Lengths, Segments",
        ),
        (
            "language --text {0}/book.txt network.position=Learned(10)",
            "network.position=Learned(10): a learned position "
            "for 10 places meets windows of 128 tokens; network.position: Learned(128) or "
            "data.context: 10 would do",
        ),
        (
            "language --text {0}/book.txt --augment transpose",
            "language has no option --augment; it learns from --text, --valid-text",
        ),
        (
            "classification --data {0}/judged.tsv --augment none",
            "classification has no option --augment; it learns from --data, --valid-data",
        ),
        (
            "language --text {0}/book.txt training.tokens_per_batch=3",
            NO_ROOM.format(128, "context"),
        ),
        (
            "masked --text {0}/book.txt training.tokens_per_batch=3",
            NO_ROOM.format(128, "context"),
        ),
        (
            "classification --data {0}/judged.tsv codec.kind=word training.tokens_per_batch=3",
            NO_ROOM.format(7, "longest_tokens"),
        ),
        (
            "translation --source {0}/source.txt --target {0}/target.txt codec.kind=word "
            "training.tokens_per_batch=3",
            NO_ROOM.format(4, "longest_tokens"),
        ),
        (
            "translation --source {0}/source.txt --target {0}/target.txt codec.kind=word "
            "training.tokens_per_batch=3 layout=packed",
            NO_ROOM.format(4, "longest_tokens"),
        ),
        (
            "classification --data {0}/judged.tsv data.longest_tokens=2",
            "a text has 2 signs around it and needs a token of its own, room for 2 is too little",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused_and_leaves_no_folder(
    given: str, sentence: str, refuses: Refuses, tmp_path: Path
) -> None:
    books.book(tmp_path)
    books.judged(tmp_path)
    texts(tmp_path)
    for name, held in (
        ("bad.txt", b"fine\nno \xff\n"),
        ("bad.tsv", b"text\tlabel\nno \xff\tgood\n"),
        ("empty.txt", b" \n"),
        ("empty.tsv", b""),
        ("other.tsv", b"text\tlabel\na dog\tgood\na cat\tawful\n"),
    ):
        (tmp_path / name).write_bytes(held)
    out = tmp_path / "run"
    arguments = given.format(tmp_path).split()
    refuses(sentence.format(tmp_path), "train", *arguments, "--out", out, *CPU)
    assert not out.exists(), "the same command may be given again"


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("language", "nothing to learn from: there is a model, not a text"),
        ("masked", "nothing to learn from: there is a model, not a text"),
        ("labelling", "nothing to learn from: there is a model, not labelled texts"),
        ("translation", "nothing to learn from: there is a model, not pairs of texts"),
    ],
)
def test_the_recipe_of_a_model_from_elsewhere_has_nothing_to_learn_from(
    task: str, sentence: str, refuses: Refuses, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"task: {task}\ndata: {{imported: there}}\n", encoding="utf-8")
    refuses(sentence, "train", recipe, "--out", tmp_path / "run", *CPU)


# ---- runs to start from ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "start", "sentence"),
    [
        (
            "classification",
            books.language,
            "classification starts from a run of masked, embedding, classification, regression, "
            "labelling; the run to start from learned language",
        ),
        (
            "language",
            books.masked,
            "language starts from a run of language; the run to start from learned masked",
        ),
        (
            "masked",
            books.classification,
            "masked starts from a run of masked; the run to start from learned classification",
        ),
        (
            "translation",
            books.language,
            "translation starts from a run of translation, summarization, answering; "
            "the run to start from learned language",
        ),
    ],
)
def test_a_run_of_another_kind_is_nothing_to_start_from(
    task: str, start: Base, sentence: str, refuses: Refuses, base: Path, tmp_path: Path
) -> None:
    given = ("--start-from", start(base), "--out", tmp_path / "run", *CPU)
    refuses(sentence, "train", task, *files_for(task, tmp_path), *given)


def test_a_folder_that_is_no_run_is_nothing_to_start_from(
    refuses: Refuses, base: Path, tmp_path: Path
) -> None:
    data = books.judged(tmp_path)
    train = ("train", "classification", "--data", data, *CPU, "--out", tmp_path / "run")
    refuses(
        "there is no model 'nope': it is no folder; built in: none", *train, "--start-from", "nope"
    )
    refuses(
        f"{tmp_path} holds no recipe.yaml: it is not the folder of a run",
        *train,
        "--start-from",
        tmp_path,
    )
    refuses(
        "there is no model 'nope': it is no folder; built in: none",
        "train",
        books.masked(base) / RECIPE,
        "start_from=nope",
        "--out",
        tmp_path / "run",
    )
    unready = copytree(books.masked(base), tmp_path / "unready")
    (unready / WEIGHTS).unlink()
    refuses(f"there is no {unready / WEIGHTS}", *train, "--start-from", unready)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("codec.kind=byte", "{0} brings its vocabulary with it; leave out codec settings"),
        (
            "network.width=32",
            "the weights to start from do not fit: encoder.embedding.table.weight is (30, 32) here "
            "and (30, 16) there; without network settings the network is the one it starts from",
        ),
        (
            "network.ffn_width=64",
            "the weights to start from do not fit: encoder.stack.blocks.0.feed_forward.part.inward"
            ".weight is (64, 16) here and (32, 16) there; without network settings the network is "
            "the one it starts from",
        ),
        (
            "network.depth=2",
            "the weights to start from do not fit: encoder.stack.blocks.1.self_attention.part."
            "inward.weight is (48, 16) here and missing there; without network settings the "
            "network is the one it starts from",
        ),
    ],
)
def test_what_does_not_fit_the_run_to_start_from_is_refused(
    setting: str, sentence: str, refuses: Refuses, base: Path, tmp_path: Path
) -> None:
    start = books.masked(base)
    given = ("--data", books.judged(tmp_path), "--start-from", start, "--out", tmp_path / "run")
    refuses(sentence.format(start), "train", "classification", *given, *CPU, setting)
    assert not (tmp_path / "run").exists()


def test_a_judge_of_texts_begins_with_the_words_and_weights_of_the_run_it_starts_from(
    manyheads: Command, base: Path, tmp_path: Path
) -> None:
    start = copytree(books.masked(base), tmp_path / "start")
    data, out = books.judged(tmp_path), tmp_path / "run"
    given = ("--data", data, "--start-from", start, "--out", out, *CPU)
    done = manyheads("train", "classification", *given, *books.SMALL)
    assert done.code == 0, done.err
    for name in ("tokenizer.json", "tokenizer.signs.json"):
        assert (out / name).read_bytes() == (start / name).read_bytes()
    recipe = load_recipe(out / RECIPE)
    network = open_task(recipe, Run(out)).network()
    assert not adopt(network, out / START)  # the head is its own
    begun = weights_of(network)
    held, _ = read_tensors(start / WEIGHTS)
    encoder = {name: w for name, w in begun.items() if name.startswith("encoder.")}
    assert len(encoder) > 10
    for name, weight in encoder.items():
        assert torch.equal(weight, held[name.removeprefix("encoder.")]), name
    assert {"head.weight", "head.bias"} == set(begun) - set(encoder)


@pytest.mark.parametrize(("task", "run"), [("language", books.language), ("masked", books.masked)])
def test_a_run_goes_on_learning_from_another_of_its_kind(
    task: str,
    run: Base,
    manyheads: Command,
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, out = run(base), tmp_path / "run"
    monkeypatch.chdir(start.parent)
    given = ("train", task, *files_for(task, tmp_path), "--start-from", start.name, *CPU)
    planned = manyheads(*given, "--dry-run").out
    assert f"start_from: {start}\n" in planned, "a recipe may be used from any folder"
    done = manyheads(*given, "--out", out, "training.steps=1", "training.learning_rate=1e-9")
    assert done.code == 0, done.err
    (ours, _), (held, _) = (read_tensors(folder / WEIGHTS) for folder in (out, start))
    assert ours.keys() == held.keys()
    assert all(torch.allclose(weight, held[name], atol=1e-6) for name, weight in ours.items())


def test_a_run_goes_on_when_the_one_it_started_from_is_gone(
    manyheads: Command, base: Path, tmp_path: Path
) -> None:
    start = copytree(books.masked(base), tmp_path / "start")
    given = ("--data", books.judged(tmp_path), "--start-from", start, *CPU)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for out in (whole, cut):
        manyheads("train", "classification", *given, *books.SMALL, "--out", out)
    shutil.rmtree(start)
    for name in (CHECKPOINT, METRICS, WEIGHTS):  # as if it had stopped before its first step
        (cut / name).unlink()
    done = manyheads("resume", cut, *CPU)
    assert done.code == 0, done.err
    for name in (METRICS, WEIGHTS):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    assert manyheads("classify", "--model", cut, "a fine dog").code == 0
