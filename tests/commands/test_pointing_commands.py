"""translate and evaluate, of a model that points at answers, as a person types them."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from typed import Command, Refuses, trained

from manyheads import load
from manyheads.tasks.pointing.questions import part_question

FACTS = [("ant", "bee"), ("cat", "dog"), ("eel", "fox"), ("gnu", "hen")]
QUICK = ["network.width=16", "network.depth=1", "training.steps=2", "codec.size=300"]
ROOM = 24  # tokens


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pointing") / "q.jsonl"
    lines = [
        {"context": f"{one} {other} {i}", "question": f"after\n{one}?", "answers": [other]}
        for i in range(10)
        for one, other in FACTS
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def model(questions: Path) -> Path:
    settings = [*QUICK, f"data.longest_tokens={ROOM}"]
    return trained(questions.parent / "run", "pointing", "--pairs", questions, settings=settings)


def test_records_are_answered_by_words_of_their_texts(
    manyheads: Command, model: Path, questions: Path
) -> None:
    lines = questions.read_bytes().splitlines()[:3]
    done = manyheads("translate", "--model", model, "--records", stdin=b"\n".join(lines))
    assert (done.code, done.err) == (0, "")
    for line, answer in zip(lines, done.out.splitlines(), strict=True):
        assert answer in json.loads(line)["context"]


def test_a_question_in_a_line_is_what_ends_with_a_question_mark(
    manyheads: Command, model: Path, refuses: Refuses
) -> None:
    done = manyheads("translate", "--model", model, "--nbest", "9", "ant? bee dog")
    ranked = [line.split("\t")[2] for line in done.out.splitlines()]
    assert sorted(ranked) == ["bee", "bee dog", "dog"], "each once, none of the question"
    sentence = "a question is followed by its text: Who wrote it? A play by Goethe."
    refuses(sentence, "translate", "--model", model, "ant")


def test_what_is_left_unread_of_a_long_text_is_told(manyheads: Command, model: Path) -> None:
    done = manyheads("translate", "--model", model, "ant? bee", f"ant? {'bee ' * 99}")
    assert (done.code, done.err) == (0, f"line 2: the first {ROOM} tokens are read\n")
    told: list[str] = []
    long = part_question(f"ant? {'bee ' * 99}")
    assert len([*cast(Any, load(model)).point([long], told=told.append)]) == 1
    assert told == [f"line 1: the first {ROOM} tokens are read"]


def test_answers_are_evaluated_and_compared(
    manyheads: Command, model: Path, questions: Path
) -> None:
    given = ("evaluate", "--model", model, "--pairs", questions, "--json")
    alone = json.loads(manyheads(*given).out)
    assert alone["examples"] == 40
    assert set(alone["scores"]) == {"f1", "exact"}
    both = json.loads(manyheads(*given, "--against", model).out)
    assert both["against"]["difference"]["f1"]["difference"] == 0


@pytest.mark.parametrize("option", ["--beam", "--draft", "--prefix", "--temperature", "--long"])
def test_what_only_writing_has_is_refused(refuses: Refuses, model: Path, option: str) -> None:
    sentence = f"{option} is for models of translation, {model} is one of pointing"
    refuses(sentence, "translate", "--model", model, option, "2", "ant? bee")


def test_questions_without_an_answer_are_not_measured_and_told(
    manyheads: Command, model: Path, questions: Path, tmp_path: Path
) -> None:
    path, none = tmp_path / "test.jsonl", {"context": "ant", "question": "who?", "answers": []}
    first = questions.read_text().splitlines()[0]
    path.write_text(f"{json.dumps(none)}\n{first}\n")
    done = manyheads("evaluate", "--model", model, "--pairs", path, "--json")
    assert done.err.startswith("1 of 2 questions have no answer: left out\n")
    assert json.loads(done.out)["examples"] == 1
