"""score as a person types it."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import books
import pytest
from typed import Command, Refuses

from manyheads.training.files import RECIPE

TEXT = "the old dog sees a red cat. " * 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.language(tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("text", ["a", "the old", TEXT, "ein Hündchen"])
def test_the_tokens_logs_add_up_to_the_bits_per_byte(
    text: str, manyheads: Command, model: Path
) -> None:
    done = manyheads("score", "--model", model, "--json", stdin=text.encode())
    told = json.loads(done.out)
    logs = [token["log"] for token in told["tokens"]]
    assert len(logs) == len(text), "each character is a token here"
    assert told["bytes"] == len(text.encode())
    bits = -sum(logs) / math.log(2)
    assert told["bits_per_byte"] * told["bytes"] == pytest.approx(bits, abs=1e-4)
    assert told["perplexity"] == pytest.approx(math.exp(-sum(logs) / len(logs)), rel=1e-4)


def test_the_pieces_are_the_text(manyheads: Command, model: Path) -> None:
    done = manyheads("score", "--model", model, "--json", stdin=TEXT.encode())
    assert "".join(token["text"] for token in json.loads(done.out)["tokens"]) == TEXT


def test_a_line_says_it_for_a_person(manyheads: Command, model: Path) -> None:
    done = manyheads("score", "--model", model, stdin=b"the old")
    told = json.loads(manyheads("score", "--model", model, "--json", stdin=b"the old").out)
    assert done.out == (
        f"{told['bits_per_byte']:.4f} bits per byte  perplexity {told['perplexity']:.4g}  "
        "7 tokens  7 bytes\n"
    )


def test_what_the_vocabulary_lacks_is_told(manyheads: Command, model: Path, tmp_path: Path) -> None:
    told = "2 of 10 tokens are unknown to the model: that something unknown comes is scored, what "
    told += "it is is not\n"
    given, text = ("score", "--model", model), "the old 猫犬"
    assert manyheads(*given, stdin=b"the old").err == ""
    assert manyheads(*given, stdin=text.encode()).err == told
    assert json.loads(manyheads(*given, "--json", stdin=text.encode()).out)["unknown"] == 2
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    done = manyheads("evaluate", "--model", model, "--text", tmp_path / "text.txt")
    assert done.err == told


def test_test_sets_are_split_into_documents_as_in_training(
    manyheads: Command, model: Path, tmp_path: Path
) -> None:
    """A model of lines never saw what comes after a line."""
    lines = shutil.copytree(model, tmp_path / "run")
    recipe = (lines / RECIPE).read_text(encoding="utf-8")
    (lines / RECIPE).write_text(recipe.replace("split: file", "split: line"), encoding="utf-8")
    text = tmp_path / "text.txt"
    text.write_text("the old\na dog\n", encoding="utf-8")

    def report(run: Path, *more: str) -> Any:
        told = json.loads(
            manyheads("evaluate", "--model", run, "--text", text, "--json", *more).out
        )
        return told["examples"], told["scores"]

    assert report(lines) == report(model, "--split", "line")
    assert report(lines, "--split", "file") == report(model)
    assert [report(one)[0] for one in (lines, model)] == [2, 1]


def test_each_line_may_be_a_text_of_its_own(manyheads: Command, model: Path) -> None:
    given = ("score", "--model", model, "--json")
    alone = [manyheads(*given, stdin=text).out for text in (b"the old", b"a dog")]
    for piped in (b"the old\na dog", b"the old\na dog\n", b"the old\r\na dog\r\n"):
        assert manyheads(*given, "--lines", stdin=piped).out == "".join(alone)
    assert manyheads(*given, "the old", "a dog").out == "".join(alone)


def test_a_blank_line_keeps_its_place(manyheads: Command, model: Path) -> None:
    given, piped = ("score", "--model", model, "--lines"), b"\nthe old\n\na dog\n"
    lines = manyheads(*given, stdin=piped).out.split("\n")
    assert [bool(line) for line in lines] == [False, True, False, True, False]
    told = [json.loads(line) for line in manyheads(*given, "--json", stdin=piped).out.splitlines()]
    nothing = {"bits_per_byte": None, "perplexity": None, "bytes": 0, "unknown": 0, "tokens": []}
    assert [one == nothing for one in told] == [True, False, True, False]


def test_what_is_no_number_is_null_in_json(
    manyheads: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = "manyheads.tasks.language.model.compute_log_probs"
    monkeypatch.setattr(found, lambda *_: [math.nan, -math.inf])
    done = manyheads("score", "--model", model, "--json", stdin=b"ab")
    told = json.loads(done.out, parse_constant=pytest.fail)
    assert (told["bits_per_byte"], told["perplexity"]) == (None, None)
    assert [token["log"] for token in told["tokens"]] == [None, None]


def test_a_continuation_is_scored_given_its_context(manyheads: Command, model: Path) -> None:
    given = ("score", "--model", model, "--json")
    whole = json.loads(manyheads(*given, stdin=b"the old dog").out)
    after = json.loads(manyheads(*given, "--context", "the old", stdin=b" dog").out)
    assert after["bytes"] == 4
    assert after["tokens"] == whole["tokens"][-4:]


def test_a_window_that_moves_less_shows_each_token_more(manyheads: Command, model: Path) -> None:
    given = ("score", "--model", model, "--json", "--stride")
    told = [json.loads(manyheads(*given, n, stdin=TEXT.encode()).out) for n in (0, 16, 32, 1)]
    assert told[0] == told[1], "half the context, unless told"
    assert len({one["bits_per_byte"] for one in told}) == 3
    assert len({len(one["tokens"]) for one in told}) == 1


@pytest.mark.parametrize(
    ("given", "stdin", "sentence"),
    [
        ((), b"", "a text to score has at least one character, an empty one came"),
        (("--stride", "33"), b"a", "a stride is 1 to the context of 32 tokens, got 33"),
        (
            ("--lines", "a dog"),
            b"",
            "--lines is of stdin, and texts were typed; leave out one of them",
        ),
        (("--stride", "-1"), b"a", "a stride is 1 to the context of 32 tokens, got -1"),
        (
            (),
            b"fine\nno\xff\n",
            "stdin:2: byte 3 is 0xff, which is not UTF-8; `iconv -t UTF-8` makes it so",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused(
    given: tuple[str, ...], stdin: bytes, sentence: str, refuses: Refuses, model: Path
) -> None:
    refuses(sentence, "score", "--model", model, *given, stdin=stdin)


def test_no_lines_are_refused(refuses: Refuses, model: Path) -> None:
    refuses(
        "there is nothing to score: stdin has no lines",
        *("score", "--model", model, "--lines"),
    )
