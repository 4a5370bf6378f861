"""embed as a person types it."""

import io
import json
import sys
from pathlib import Path

import books
import numpy as np
import pytest
from typed import Command, Refuses, trained

TEXTS = ("the old dog", "a cat", "the old dog sleeps")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.masked(tmp_path_factory.getbasetemp())


def told(out: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    return np.array([json.loads(line) for line in out.splitlines()])


def test_stdout_holds_a_readable_npy(
    manyheads: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, write_through=True))
    manyheads("embed", "--model", model, *TEXTS)
    vectors = np.load(io.BytesIO(held.getvalue()), allow_pickle=False)
    assert (vectors.shape, vectors.dtype) == ((3, 16), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-5)


def test_json_and_a_file_hold_the_same_vectors_in_the_order_of_the_lines(
    manyheads: Command, model: Path, tmp_path: Path
) -> None:
    lines = manyheads("embed", "--model", model, "--json", stdin="\n".join(TEXTS).encode())
    done = manyheads("embed", "--model", model, *TEXTS, "--out", tmp_path / "vectors.npy")
    assert (done.code, done.out, done.err) == (0, "", "")
    kept = np.load(tmp_path / "vectors.npy", allow_pickle=False)
    assert told(lines.out) == pytest.approx(kept, abs=1e-5)
    one = manyheads("embed", "--model", model, "--json", TEXTS[1])
    assert told(one.out)[0] == pytest.approx(kept[1], abs=1e-5)


def test_plain_vectors_have_a_length_and_the_first_token_is_not_the_mean(
    manyheads: Command, model: Path
) -> None:
    given = ("embed", "--model", model, "--json", *TEXTS)
    mean, plain, first = (
        told(manyheads(*given, *how).out) for how in ((), ("--plain",), ("--pooling", "first"))
    )
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert abs(lengths - 1).min() > 0.01
    assert plain / lengths == pytest.approx(mean, abs=1e-4)
    assert abs(first - mean).max() > 0.01


def test_what_judges_texts_gives_vectors_too(
    manyheads: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    judge = books.classification(tmp_path_factory.getbasetemp())
    assert told(manyheads("embed", "--model", judge, "--json", *TEXTS).out).shape == (3, 16)


def test_ends_that_are_not_read_are_told_in_a_line(manyheads: Command, tmp_path: Path) -> None:
    settings = [*books.MASKED, "network.position=Learned(32)"]
    given = ("masked", "--text", books.book(tmp_path))
    model = trained(tmp_path / "run", *given, settings=settings)
    manyheads("--version")  # what training said is read
    done = manyheads("embed", "--model", model, "--json", "the " * 50, "the " * 99, "a dog")
    (line,) = done.err.splitlines()
    assert line.startswith("manyheads: 2 of 3 texts are longer than the 32 tokens")
    first, second, _ = told(done.out)
    assert first == pytest.approx(second)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((), "there is nothing to read: stdin has no lines"),
        (("a", "--pooling", "max"), "--pooling is mean or first, got 'max'"),
        (("a", "--out", "{0}"), "--out names a file in a folder that is there, got {0}"),
        (
            ("a", "--out", "{0}/no/v.npy"),
            "--out names a file in a folder that is there, got {0}/no/v.npy",
        ),
        (("a", "b \udcff"), "text 2: '\\udcff' is half of a character, which is no text"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    given: tuple[str, ...], sentence: str, refuses: Refuses, model: Path, tmp_path: Path
) -> None:
    arguments = [one.replace("{0}", str(tmp_path)) for one in given]
    refuses(sentence.replace("{0}", str(tmp_path)), "embed", "--model", model, *arguments)


def test_a_terminal_is_not_filled_with_vectors(
    refuses: Refuses, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    sentence = "vectors are no text; `> vectors.npy`, --out vectors.npy or --json"
    refuses(sentence, "embed", "--model", model, "a")
