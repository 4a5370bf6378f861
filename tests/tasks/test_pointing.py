"""Answers that are spans of their texts: found in files, framed, pointed at."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from payloads import read_payload
from typed import trained

import manyheads
from manyheads.codecs.text import Text
from manyheads.modules.transformer import Tokens
from manyheads.tasks.pointing.model import LONGEST, Pointer, best_spans, in_word, span_of
from manyheads.tasks.pointing.questions import (
    END,
    START,
    QuestionFrame,
    find_spans,
    frame_question,
    mark_spans,
    read_questions,
)
from manyheads.tasks.pointing.settings import PointingRecipe, QuestionData
from manyheads.tasks.pointing.task import PointingBatch, PointingTask
from manyheads.tasks.seq2seq.corpus import gather
from manyheads.tasks.seq2seq.settings import PairData
from manyheads.training.config import Training
from manyheads.verifying import run_checks

SOURCE = "Who wrote Faust?\nIn 1808 Goethe wrote a play. Goethe called it Faust."
WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]
SETTINGS = ["network.width=16", "network.depth=1", "training.validate_every=2"]


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train([SOURCE] * 3, "bpe", 300, masked=True)


def write_questions(path: Path, count: int = 40) -> Path:
    """After which word stands what: the answer is the word behind the one that is named."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            words = draw.sample(WORDS, 6)
            place = draw.randrange(5)
            asked = {"question": f"after {words[place]}?", "answers": [{"text": words[place + 1]}]}
            file.write(json.dumps({"context": " ".join(words), "qas": [asked]}) + "\n")
    return path


# ---- where answers stand ---------------------------------------------------------------------


def test_an_answer_stands_where_the_file_says_or_wherever_it_is_met(tmp_path: Path) -> None:
    text = "  Goethe wrote it. It was Goethe."
    one = {"context": text, "question": "Who?", "answers": [{"text": "Goethe", "answer_start": 26}]}
    other = {"context": text, "question": "Who?", "answers": ["Goethe"]}
    path = tmp_path / "q.jsonl"
    path.write_text(f"{json.dumps(one)}\n{json.dumps(other)}\n")
    said, searched = read_questions(path)
    assert said.spans == ((29, 35),), "one, behind the question and without the spaces before"
    assert [said.source[a:b] for a, b in said.spans] == ["Goethe"]
    assert searched.spans == ((5, 11), (29, 35))


def test_the_place_of_an_answer_is_counted_in_the_text_that_questions_share(tmp_path: Path) -> None:
    asked = {"question": "Who?", "context": "  ?", "answers": [{"text": "Tom", "answer_start": 8}]}
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"context": "Tom saw Tom.", "qas": [asked]}))
    (found,) = read_questions(path)
    assert found.spans == ((13, 16),)


def test_a_question_of_two_lines_is_one_and_no_answer_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    asked = {"question": "Who?\nGoethe?", "answers": ["Goethe"]}
    path.write_text(json.dumps({"context": "It was Goethe.", "qas": [asked]}))
    (found,) = read_questions(path)
    assert (found.source, found.spans) == ("Who? Goethe?\nIt was Goethe.", ((20, 26),))


def test_an_answer_in_the_question_alone_is_none() -> None:
    assert find_spans("Was it Goethe?\nIt was Schiller.", ["Goethe"], []) == ()
    assert find_spans("Who?\nGoethe.", ["Goethe"], [3]) == ((5, 11),), "what is said is not true"


@pytest.mark.parametrize("answer", ["1808", "Goethe", "a play", "In 1808 Goethe", "it Faust."])
def test_marks_are_on_the_tokens_of_the_answer(codec: Text, answer: str) -> None:
    frame = frame_question(codec, SOURCE, 200)
    marks = mark_spans(frame, find_spans(SOURCE, [answer], [])[:1])
    (begin,), (end,) = ([i for i, mark in enumerate(marks) if mark & side] for side in (START, END))
    assert SOURCE[frame.ends[begin - 1] : frame.ends[end]].strip() == answer
    assert codec.render(frame.ids[begin : end + 1]).strip() == answer


def test_a_frame_tells_question_text_and_words_that_the_question_names(codec: Text) -> None:
    frame = frame_question(codec, SOURCE, 200)
    kinds: dict[int, str] = {0: "", 1: "", 2: ""}
    for kind, begin, end in zip(frame.types, [0, *frame.ends], frame.ends, strict=False):
        kinds[kind] += SOURCE[begin:end]
    assert kinds[0].strip() == "Who wrote Faust?"
    assert kinds[2].split() == ["wrote", "Faust"]
    assert kinds[1].startswith("In 1808 Goethe a play.")


def test_what_is_cut_off_is_not_marked(codec: Text) -> None:
    spans = find_spans(SOURCE, ["Faust"], [])
    assert any(mark_spans(frame_question(codec, SOURCE, 200), spans))
    short = frame_question(codec, SOURCE, 12)
    assert len(short.ids) == len(mark_spans(short, spans)) == 12
    assert not any(mark_spans(short, spans))


# ---- pointing --------------------------------------------------------------------------------


def test_a_span_begins_before_it_ends_and_is_not_too_long() -> None:
    count = 2 * LONGEST
    text = "?\n" + "-" * count
    frame = QuestionFrame([*range(count)], [1] * count, [2 + i + 1 for i in range(count)])
    logs = torch.full((count, 2), -9.0)
    logs[40, 0] = logs[10, 1] = 0.0  # the likeliest begin is behind the likeliest end
    logs[5, 0], logs[41, 1] = -1.0, -0.5
    first, second = best_spans(text, frame, logs, 2)
    assert (first.ids, first.score) == ([40, 41], -0.5)
    assert best_spans(text, frame, logs, 1) == [first]
    assert (second.ids, second.score) == ([*range(5, 11)], -1.0)
    assert len(first.text) == 2
    logs[41, 1] = logs[40, 1] = -9.0
    assert all(0 < len(one.ids) <= LONGEST for one in best_spans(text, frame, logs, 50))


def test_a_piece_of_a_word_stands_for_the_word_where_spaces_part_words() -> None:
    text = "?\na foregone end"
    frame = QuestionFrame([5, 6, 7, 8], [0, 1, 1, 1], [2, 3, 9, 12])
    assert span_of(text, frame, 2, 2, 0.0).text == "foregone"
    assert span_of(text, frame, 3, 3, 0.0).text == "foregone"
    assert in_word("4t")
    assert not in_word("猫が")
    assert not in_word("d.")


def test_any_of_several_answers_is_right_and_a_question_without_one_costs_nothing(
    codec: Text,
) -> None:
    task = PointingTask(PointingRecipe("pointing", QuestionData(pairs=Path("x"))), codec)
    frame = task.frame(SOURCE)
    tokens, text = task.lay_out([frame.ids], [frame.types])
    places = [i for i, kind in enumerate(frame.types) if kind]

    def level(tokens: Tokens) -> torch.Tensor:
        return torch.zeros(*tokens.ids.shape, 2)

    for marked, meant in ((places[:1], len(places)), (places, 1), ([], 1)):
        marks = torch.zeros(1, len(frame.ids)).long()
        marks[0, marked] = START | END
        terms = task.loss(level, PointingBatch(tokens, text, marks))
        torch.testing.assert_close(terms["start"], torch.tensor(float(meant)).log())
        torch.testing.assert_close(terms["end"], terms["start"])


# ---- a run -----------------------------------------------------------------------------------


def test_it_learns_to_point_and_is_used_and_evaluated(tmp_path: Path) -> None:
    pairs = write_questions(tmp_path / "q.jsonl", 400)
    settings = ["network.width=32", "network.depth=2", "training.steps=120", "codec.size=300"]
    settings += ["training.tokens_per_batch=1024"]
    settings += ["training.validate_every=60", "training.learning_rate=5e-3", "network.dropout=0"]
    run = trained(tmp_path / "run", "pointing", "--pairs", pairs, settings=settings)
    model = manyheads.load(run, "cpu")
    assert isinstance(model, Pointer)
    asked = ["after dog?\nhen dog fox cat", "after cat?\nfox cat bee ant"]
    assert model.translate(asked) == ["fox", "bee"]
    assert model.translate(asked[0]) == "fox"
    header, _ = read_payload(model.inspect(asked[0]).payload())
    assert header["wrote"] == "fox"
    first, last = header["candidates"]
    tokens = header["sides"]["text"]["tokens"]
    assert "".join(tokens[first["id"] : last["id"] + 1]) == "fox"
    assert [first["of"], last["of"]] == ["it begins at", "it ends at"]
    typed = model.inspect("after dog? hen dog fox cat")
    assert typed.about["costs"] == header["costs"], "in one line too"
    with pytest.raises(ValueError, match="a question is followed by its text"):
        model.inspect("after dog?")
    (best, other), *_ = model.write(asked, manyheads.DecodingConfig(beam=2, nbest=2))
    assert best.score > other.score
    for texts in ((), asked):
        (check,) = run_checks(model, texts)
        assert (check.name, check.holds) == ("batch of 1 = batch of N", True)
    with pytest.raises(ValueError, match="a model that points at answers is not exported"):
        model.portable()
    with pytest.raises(ValueError, match="an answer that is pointed at is not drawn"):
        [*model.write(asked, manyheads.DecodingConfig(temperature=0.5))]


def test_it_starts_from_an_encoder_that_guessed_hidden_words(tmp_path: Path) -> None:
    pairs = write_questions(tmp_path / "q.jsonl")
    text = tmp_path / "text.txt"
    text.write_text(f"{' '.join(WORDS)}\n" * 40)
    steps = ["training.steps=2"]
    masked = trained(
        tmp_path / "masked",
        "masked",
        "--text",
        text,
        settings=[*SETTINGS, *steps, "codec.size=300"],
    )
    given = ("pointing", "--pairs", pairs, "--start-from", masked)
    run = trained(tmp_path / "run", *given, settings=steps)
    recipe = (run / "recipe.yaml").read_text()
    assert "token_types: 3" in recipe
    assert (run / "tokenizer.json").read_text() == (masked / "tokenizer.json").read_text()


def test_who_would_write_answers_that_stand_in_their_texts_is_told(tmp_path: Path) -> None:
    pairs = write_questions(tmp_path / "q.jsonl")
    assert "`manyheads train pointing` learns to find it" in str(
        gather("answering", PairData(pairs=pairs)).report
    )
    with pairs.open("a") as file:
        file.write(json.dumps({"context": "ant", "question": "who?", "answer": "bee"}) + "\n")
    assert gather("answering", PairData(pairs=pairs)).report.remarks == []


@pytest.mark.parametrize("task", ["pointing", "answering"])
@pytest.mark.parametrize("together", [True, False])
def test_questions_are_validated_on_with_texts_that_are_not_learned_from(
    task: str, together: bool, tmp_path: Path
) -> None:
    """Three questions on each of twenty texts, under one text or each with its own copy."""
    lines = list[dict[str, Any]]()
    for i in range(20):
        asked = [{"question": f"{n}, in {i}?", "answers": [f"ant {n}"]} for n in range(3)]
        text = {"context": f"ant 0 ant 1 ant 2 of {i}"}
        lines += [{**text, "qas": asked}] if together else [{**text, **one} for one in asked]
    pairs = tmp_path / "q.jsonl"
    pairs.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    found: Any = (
        PointingTask.gather(PointingRecipe("pointing", QuestionData(pairs=pairs, held_out=5)))
        if task == "pointing"
        else gather("answering", PairData(pairs=pairs, held_out=5))
    )
    assert (len(found.train), len(found.valid)) == (54, 6), "two texts, of three questions each"
    learned, held = ({one.source.split("\n")[1] for one in x} for x in (found.train, found.valid))
    assert not learned & held


def test_questions_that_have_no_answer_are_left_out_too(tmp_path: Path) -> None:
    pairs = write_questions(tmp_path / "q.jsonl")
    with pairs.open("a") as file:
        file.write(json.dumps({"context": "ant", "question": "who?", "answers": []}) + "\n")
    data = QuestionData(pairs=pairs, valid_pairs=pairs)
    corpus = PointingTask.gather(PointingRecipe("pointing", data))
    assert (len(corpus.train), len(corpus.valid), corpus.left) == (40, 40, 2)


def test_questions_without_answers_in_their_texts_are_told_and_left_out(tmp_path: Path) -> None:
    pairs = write_questions(tmp_path / "q.jsonl")
    with pairs.open("a") as file:
        file.write(json.dumps({"context": "ant", "question": "who?", "answer": "bee"}) + "\n")
    corpus = PointingTask.gather(PointingRecipe("pointing", QuestionData(pairs=pairs)))
    assert str(corpus) == (
        "36 questions to train on, 4 to validate on; 1 left out: no answer is in the text"
    )
    pairs.write_text(json.dumps({"context": "ant", "question": "who?", "answer": "bee"}) + "\n")
    with pytest.raises(ValueError, match="has 0 questions with an answer in their text"):
        PointingTask.gather(PointingRecipe("pointing", QuestionData(pairs=pairs)))


def test_label_smoothing_which_its_loss_has_not_is_refused() -> None:
    smooth = Training(label_smoothing=0.1)
    recipe = PointingRecipe("pointing", QuestionData(pairs=Path("x")), training=smooth)
    with pytest.raises(ValueError, match=r"without label smoothing; training.label_smoothing: 0"):
        PointingTask.gather(recipe)
