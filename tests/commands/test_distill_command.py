"""A model teaches another: what it writes is learned instead of the targets."""

import json
import shutil
from pathlib import Path

import pytest
from typed import WORDS, Command, Refuses, texts

from manyheads.data.sources import read_columns
from manyheads.training.files import CORPUS

SETTINGS = ["codec.kind=word", "network.width=16", "network.heads=2", "training.steps=2"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Pairs of which every target is wrong."""
    source, _ = texts(tmp_path)
    lines = source.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{line}\tsix six\n" for line in lines), encoding="utf-8")
    return path


def test_a_corpus_is_written_anew(
    manyheads: Command, run: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.tsv"
    with corpus.open("a", encoding="utf-8") as file:
        file.write(" \tsix six\n")
    done = manyheads("distill", "--model", run, "--data", corpus, "--out", out)
    assert done.code == 0, done.err
    assert "1 of 61 sources are empty: left out\n" in done.err
    assert "against those there" in done.out
    pairs = [(one.source.split(), one.target.split()) for one in read_columns(out)]
    right = sum([WORDS[word] for word in source] == target for source, target in pairs)
    assert right >= 0.9 * len(pairs)


def test_sources_with_line_breaks_are_not_written_into_a_table(
    refuses: Refuses, manyheads: Command, run: Path, tmp_path: Path
) -> None:
    corpus, out = tmp_path / "pairs.jsonl", tmp_path / "out.tsv"
    corpus.write_text('{"source": "eins\\nzwei", "target": "one"}\n')
    told = f"1 of 1 sources have line breaks, which {out} cannot hold; --out with a .jsonl"
    asked = ("distill", "--model", run, "--data", corpus, "--out")
    refuses(f"{told} file would do", *asked, out)
    assert manyheads(*asked, out.with_suffix(".jsonl")).code == 0
    record = json.loads(out.with_suffix(".jsonl").read_text(encoding="utf-8"))
    assert record["source"] == "eins\nzwei"


def test_a_corpus_is_not_written_over(refuses: Refuses, run: Path, corpus: Path) -> None:
    before = corpus.read_text(encoding="utf-8")
    told = f"names a file to write, and {corpus} is read; another would do"
    refuses(f"--out {told}", "distill", "--model", run, "--data", corpus, "--out", corpus)
    refuses(f"--write {told}", "evaluate", "--model", run, "--pairs", corpus, "--write", corpus)
    assert corpus.read_text(encoding="utf-8") == before


def test_a_student_learns_what_its_teacher_writes_once(
    manyheads: Command, run: Path, corpus: Path, tmp_path: Path
) -> None:
    teacher = shutil.copytree(run, tmp_path / "teacher")
    train = ("train", "translation", "--pairs", corpus, "--teacher", teacher, "--device", "cpu")
    done = manyheads(*train, *SETTINGS, "--out", tmp_path / "student")
    assert done.code == 0, done.err
    told = (tmp_path / "student" / CORPUS).read_text(encoding="utf-8")
    assert f"targets are what {teacher} writes with a beam of 5: bleu " in told
    (kept,) = (teacher / "distilled").glob("*.json")
    held = json.loads(kept.read_text(encoding="utf-8"))
    held["targets"][:2] = ["", ""]
    kept.write_text(json.dumps(held), encoding="utf-8")
    before = kept.stat().st_mtime_ns
    again = manyheads(*train, *SETTINGS, "--network", "ctc", "--out", tmp_path / "again")
    assert again.code == 0, again.err
    assert kept.stat().st_mtime_ns == before  # read, not written
    assert "the teacher has written" not in again.err
    told = (tmp_path / "again" / CORPUS).read_text(encoding="utf-8")
    assert "2 left out: the teacher writes nothing for them" in told
    assert told.startswith("60 pairs read, 58 kept\n")


def test_an_estimate_does_not_wait_for_the_teacher(
    manyheads: Command, run: Path, corpus: Path, tmp_path: Path
) -> None:
    teacher = shutil.copytree(run, tmp_path / "teacher")
    train = ("train", "translation", "--pairs", corpus, "--teacher", teacher, "--device", "cpu")
    done = manyheads(*train, *SETTINGS, "--dry-run")
    assert done.code == 0, done.err
    assert f"teacher: {teacher}" in done.out
    assert not (teacher / "distilled").exists()


def test_a_teacher_of_the_other_direction_is_refused(
    manyheads: Command, run: Path, corpus: Path, tmp_path: Path
) -> None:
    sources = [one.source for one in read_columns(corpus)]
    back = tmp_path / "back.tsv"
    written = [" ".join(WORDS[word] for word in source.split()) for source in sources]
    pairs = zip(written, sources, strict=True)
    back.write_text("".join(f"{one}\t{other}\n" for one, other in pairs), encoding="utf-8")
    out = tmp_path / "student"
    train = ("train", "translation", "--pairs", back, "--teacher", run, "--out", out)
    done = manyheads(*train, *SETTINGS)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{run} translates the other way: a token of a source costs it" in done.err
    assert not out.exists()


def test_what_cannot_teach_is_refused(refuses: Refuses, corpus: Path, tmp_path: Path) -> None:
    train = ("train", "translation", "--pairs", corpus, "--out", tmp_path / "run", "--teacher")
    refuses("there is no model 'nobody': it is no folder; built in: none", *train, "nobody")
    other = tmp_path / "other"
    other.mkdir()
    (other / "recipe.yaml").write_text("task: music\n", encoding="utf-8")
    sentence = f"a teacher of translation is a model for it, {other} is one for music"
    refuses(sentence, *train, other)
    assert not (tmp_path / "run").exists()


def test_what_distill_lacks_is_told(refuses: Refuses, run: Path, corpus: Path) -> None:
    asked = ("distill", "--model", run)
    sentence = "a corpus is --data alone, or --source with --target; got none of them"
    refuses(sentence, *asked, "--out", "x.tsv")
    refuses(
        "--out names a .tsv or .jsonl file, got x.txt", *asked, "--data", corpus, "--out", "x.txt"
    )
