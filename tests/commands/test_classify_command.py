"""classify as a person types it."""

import json
import os
import threading
from pathlib import Path
from shutil import copytree

import books
import pytest
from typed import Command, Refuses, trained

from manyheads.cli import incoming
from manyheads.tasks.classification.commands import format_prediction
from manyheads.tasks.classification.predictions import Value


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.classification(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.labelling(tmp_path_factory.getbasetemp())


def test_each_text_has_its_label_and_how_sure_that_is(manyheads: Command, model: Path) -> None:
    done = manyheads("classify", "--model", model, "a fine dog", "the bad cat")
    assert (done.code, done.err) == (0, "")
    (good, sure), (poor, other) = (line.split("\t") for line in done.out.splitlines())
    assert (good, poor) == ("good", "poor")
    assert 0.9 < float(sure) <= 1
    assert 0.9 < float(other) <= 1


def test_lines_are_answered_in_their_order_however_long_they_are(
    manyheads: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "AT_ONCE", 7)
    kinds = ["fine" if i % 3 else "bad" for i in range(40)]
    lines = [f"{'the ' * (i * 7 % 20)}{kind} dog" for i, kind in enumerate(kinds)]
    done = manyheads("classify", "--model", model, stdin="\n".join(lines).encode())
    labels = [line.split("\t")[0] for line in done.out.splitlines()]
    assert labels == ["good" if kind == "fine" else "poor" for kind in kinds]


def test_a_blank_line_is_answered_too(manyheads: Command, model: Path) -> None:
    done = manyheads("classify", "--model", model, stdin=b"a fine dog\n\na bad dog\n")
    assert len(done.out.splitlines()) == 3


def test_nothing_to_read_is_nothing_to_say(manyheads: Command, model: Path) -> None:
    assert manyheads("classify", "--model", model) == (0, "", "")


def test_what_is_left_unread_of_long_texts_is_told(manyheads: Command, model: Path) -> None:
    done = manyheads("classify", "--model", model, "a fine dog", "a dog " * 999)
    assert len(done.out.splitlines()) == 2
    (line,) = done.err.splitlines()
    assert line.startswith("1 of 2 texts are longer than the ")
    assert line.endswith(" tokens that are read; their ends were not read")


def test_what_is_left_unread_of_a_test_set_is_told(
    manyheads: Command, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "test.tsv"
    path.write_text(f"text\tlabel\na fine dog\tgood\n{'a bad dog ' * 999}\tpoor\n")
    done = manyheads("evaluate", "--model", model, "--data", path)
    assert "1 of 2 texts are longer than the " in done.err


def test_a_test_set_is_read_by_the_columns_that_were_learned(
    manyheads: Command, tmp_path: Path
) -> None:
    path = tmp_path / "both.tsv"
    path.write_text("".join(f"{'xy'[i % 2]}\t{'abc'[i % 3]}\ttext {i}\n" for i in range(60)))
    columns = ["data.columns.text=3", "data.columns.label=2"]
    settings = ["network.width=16", "network.depth=1", "training.steps=1", *columns]
    run = trained(tmp_path / "run", "classification", "--data", path, settings=settings)
    done = manyheads("evaluate", "--model", run, "--data", path)
    assert "never saw" not in done.err, "a, b and c are its labels"


def test_a_test_set_without_names_is_read_as_the_training_file_was(
    manyheads: Command, tmp_path: Path
) -> None:
    path, few = tmp_path / "pairs.tsv", tmp_path / "few.tsv"
    path.write_text("".join(f"{'xy'[i % 2]}\ttext {i}\tanother of {i % 7}\n" for i in range(60)))
    few.write_text("x\ttext 1\tword\ny\ttext 2\tword\n")
    settings = ["network.width=16", "network.depth=1", "training.steps=1"]
    run = trained(tmp_path / "run", "classification", "--data", path, settings=settings)
    # By themselves, these few lines would have their label in the third column.
    done = manyheads("evaluate", "--model", run, "--data", few)
    assert "never saw" not in done.err
    (tmp_path / "run" / "columns.json").unlink()  # an older run has no such file
    assert (
        "never saw, and so never says: 'word'"
        in manyheads("evaluate", "--model", run, "--data", few).err
    )


def test_json_tells_all_probabilities(manyheads: Command, model: Path) -> None:
    done = manyheads("classify", "--model", model, "--json", "a fine dog", "käse")
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [one["text"] for one in told] == ["a fine dog", "käse"]
    assert "käse" in done.out, "letters are written as they are"
    for one in told:
        assert list(one["probabilities"]) == ["good", "poor"]
        assert sum(one["probabilities"].values()) == pytest.approx(1)
        assert one["probability"] == max(one["probabilities"].values())


def test_two_texts_of_a_line_have_a_tab_between_them_where_the_model_learned_pairs(
    manyheads: Command, model: Path, tmp_path: Path
) -> None:
    pairs = copytree(model, tmp_path / "pairs")
    held = json.loads((pairs / "labels.json").read_text())
    assert held == {"names": ["good", "poor"], "pairs": False}
    (pairs / "labels.json").write_text(json.dumps({**held, "pairs": True}))
    (one, same), (two, other) = (
        [
            json.loads(manyheads("classify", "--model", run, "--json", text).out)["probabilities"]
            for text in ("a dog a cat", "a dog\ta cat")
        ]
        for run in (model, pairs)
    )
    assert one == same == two != other


def test_a_number_is_printed_with_its_digits() -> None:
    assert [format_prediction(Value(one)) for one in (253809.8766, 2021.4, 0.000123456)] == [
        "253809.9",
        "2021.4",
        "0.000123456",
    ]


def test_every_word_has_a_tag_whatever_stands_between(manyheads: Command, tagger: Path) -> None:
    given = ("classify", "--model", tagger)
    spaces, tabs = (manyheads(*given, text).out for text in ("the old dog", "the\told dog"))
    assert len(spaces.split()) == 3
    assert tabs == spaces


def test_who_sends_a_line_and_waits_is_answered() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stdin, os.fdopen(write, "wb", buffering=0) as sender:
        came: list[list[str]] = []
        first = threading.Event()

        def listen() -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.stdin", Piped(stdin))
                for some in incoming.read_chunks(()):
                    came.append(some)
                    first.set()

        listener = threading.Thread(target=listen)
        listener.start()
        sender.write(b"one\n")
        answered = first.wait(10)
        sender.close()
        listener.join(10)
    assert answered
    assert came == [["one"]]


class Piped:
    """stdin at the end of a pipe."""

    def __init__(self, buffer: object):
        self.buffer = buffer

    def isatty(self) -> bool:
        return False


def test_half_a_character_is_refused(refuses: Refuses, model: Path) -> None:
    given = ("classify", "--model", model)
    refuses("text 2: '\\udcff' is half of a character, which is no text", *given, "a", "b \udcff")


def test_lines_before_one_that_is_not_utf_8_are_answered(manyheads: Command, model: Path) -> None:
    done = manyheads("classify", "--model", model, stdin=b"a fine dog\nno\xff\n")
    assert done.code == 2
    assert done.out.startswith("good\t")
    assert done.err == (
        "manyheads: stdin:2: byte 3 is 0xff, which is not UTF-8; `iconv -t UTF-8` makes it so\n"
    )
