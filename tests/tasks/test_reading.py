"""Every file a task may come in, and what is said of those it may not."""

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from manyheads.data.filters import Filters
from manyheads.data.sources import Example
from manyheads.tasks.seq2seq.corpus import gather, hold_out, read_pairs
from manyheads.tasks.seq2seq.kinds import KINDS
from manyheads.tasks.seq2seq.settings import PairData

PACKED = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, "": open}


def write(path: Path, text: str) -> Path:
    with PACKED.get(path.suffix, open)(path, "wb") as file:
        file.write(text.encode())
    return path


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


@pytest.mark.parametrize("packed", PACKED)
def test_every_format_gives_the_same_examples(tmp_path: Path, packed: str) -> None:
    expected = [("Ein Hund.", "A dog."), ("Größe\u2028!", "Size!")]
    source = write(tmp_path / f"a.de{packed}", "Ein Hund.\nGröße\u2028!\n")
    target = write(tmp_path / f"a.en{packed}", "A dog.\r\nSize!\r\n")
    tsv = write(tmp_path / f"a.tsv{packed}", "Ein Hund.\tA dog.\tdog\nGröße\u2028!\tSize!\n")
    jsonl = write(
        tmp_path / f"a.jsonl{packed}",
        lines({"source": "Ein Hund.", "target": "A dog."}, {"tgt": "Size!", "src": "Größe\u2028!"}),
    )
    for files in ((source, target, None), (None, None, tsv), (None, None, jsonl)):
        examples = list(read_pairs("translation", *files))
        assert [(e.source, e.target) for e in examples] == expected
        assert [e.line for e in examples] == [1, 2]
    first, _ = read_pairs("answering", None, None, tsv)
    assert first.target == "A dog."


def read_one(tmp_path: Path, kind: Any, *records: dict[str, Any]) -> list[Example]:
    return list(read_pairs(kind, None, None, write(tmp_path / "x.jsonl", lines(*records))))


def test_a_dialogue_with_several_summaries_has_them_all(tmp_path: Path) -> None:
    (one, other) = read_one(
        tmp_path,
        "summarization",
        {"id": 1, "dialogue": "A: hi\nB: ho", "summary": ["They greet.", "Greetings."]},
        {"article": "Long.", "highlights": "Short."},
    )
    assert one == Example("A: hi\nB: ho", "They greet.", 1, ("Greetings.",))
    assert one.references == ["They greet.", "Greetings."]
    assert other == Example("Long.", "Short.", 2)


def test_questions_come_under_a_paragraph_or_alone(tmp_path: Path) -> None:
    paragraph = {
        "context": " Paris is a city. ",
        "qas": [
            {"question": "What is Paris?", "answers": [{"text": "a city", "answer_start": 9}]},
            {"question": "Which city?", "answers": [{"text": "Paris"}, {"text": "Paris"}]},
        ],
    }
    asked = {"context": "It rains.", "question": "What does it do?"}
    found = read_one(
        tmp_path,
        "answering",
        paragraph,
        {**asked, "answers": {"text": ["rains", "rain", "rains"], "answer_start": [3, 3, 3]}},
        {**asked, "answer": "It rains"},
        {**asked, "answers": ["rains", "pours"]},
    )
    assert found == [
        Example("What is Paris?\nParis is a city.", "a city", 1),
        Example("Which city?\nParis is a city.", "Paris", 1),
        Example("What does it do?\nIt rains.", "rains", 2, ("rain",)),
        Example("What does it do?\nIt rains.", "It rains", 3),
        Example("What does it do?\nIt rains.", "rains", 4, ("pours",)),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_made_is_read_as_it_was(tmp_path: Path, kind: Any) -> None:
    made = KINDS[kind].records.make_record("Who?\nGoethe.\nTom.", "Tom")
    assert read_one(tmp_path, kind, made) == [Example("Who?\nGoethe.\nTom.", "Tom", 1)]


@pytest.mark.parametrize("none", [[], {"text": [], "answer_start": []}])
def test_a_question_without_an_answer_is_left_out_of_the_corpus(tmp_path: Path, none: Any) -> None:
    asked: Any = [{"context": "It rains.", "question": f"{i}?", "answer": "It"} for i in range(10)]
    never = {"context": "It rains.", "question": "Does it snow?", "answers": none}
    pairs, valid = (tmp_path / name for name in ("x.jsonl", "y.jsonl"))
    write(pairs, lines(never, *asked))
    write(valid, lines(never, asked[0]))
    gathered = gather("answering", PairData(pairs=pairs, valid_pairs=valid))
    assert (len(gathered.train), len(gathered.valid)) == (9, 1)
    assert "1 left out: empty on one side, of those to validate on" in str(gathered.report)
    assert gathered.report.left_out.counts["empty on one side"] == 1


@pytest.mark.parametrize(
    ("kind", "record", "sentence"),
    [
        ("translation", {"de": "a", "en": "b"}, "no text under target or tgt or translation; its"),
        ("translation", {"source": 3, "target": "b"}, "no text under source or src or text; its"),
        ("summarization", {"dialogue": "a", "summary": []}, "no text under summary or summaries"),
        ("summarization", {}, "its keys are none"),
        ("answering", {"question": "a"}, "no text under context; its keys are question"),
        ("answering", {"context": "a", "qas": None}, "qas is a list of questions, each an object"),
        ("answering", {"context": "a", "qas": ["b"]}, "qas is a list of questions, each an object"),
        ("answering", {"context": "a", "question": "b", "answers": 3}, "no text under answers or"),
        ("answering", {"context": "a", "question": "b"}, "no text under answers or"),
    ],
)
def test_a_record_that_lacks_something_is_refused_by_its_line(
    tmp_path: Path, kind: str, record: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as error:
        read_one(tmp_path, kind, record)
    assert str(error.value).startswith(f"{tmp_path / 'x.jsonl'}:1: ")
    assert sentence in str(error.value)


A, B = Path("a"), Path("b")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "nothing to learn from: give source and target, or pairs"),
        ({"source": A}, "source was given without target; they come together"),
        ({"target": A}, "target was given without source; they come together"),
        (
            {"pairs": A, "valid_target": B},
            "valid_target was given without valid_source; they come together",
        ),
        (
            {"source": A, "target": B, "pairs": A},
            "source and target were given and pairs too; one of them is enough",
        ),
        ({"pairs": A, "longest_tokens": 1}, "longest_tokens is 2 or more, got 1"),
        ({"pairs": A, "held_out": 0}, "held_out is 1 or more, got 0"),
        ({"pairs": A, "capitals": 5}, "capitals is 1 at most, got 5"),
    ],
)
def test_files_that_do_not_go_together_are_refused(files: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        PairData(**files)
    assert str(error.value) == sentence


def test_a_corpus_of_copies_is_told(tmp_path: Path) -> None:
    for others, told in ((9, ["11 of 20 targets are copies of their sources"]), (10, [])):
        rows = [f"a {i}\t{'b' if i < others else 'a'} {i}\n" for i in range(20)]
        (tmp_path / "p.tsv").write_text("".join(rows), encoding="utf-8")
        gathered = gather("translation", PairData(pairs=tmp_path / "p.tsv"))
        assert gathered.report.remarks == told


def test_pairs_that_commas_part_are_refused_by_their_ending(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("source,target\na,b\n")
    with pytest.raises(ValueError, match=r"p.csv: pairs come as .tsv, with a tab between source"):
        gather("translation", PairData(pairs=tmp_path / "p.csv"))


def test_validation_files_that_are_swapped_are_told(tmp_path: Path) -> None:
    def write(name: str, lines: list[str]) -> Path:
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    german = [f"{who} läuft {i}" for i in range(30) for who in ("ein Hund", "das Kind")]
    english = [f"{who} runs {i}" for i in range(30) for who in ("a dog", "the child")]
    chinese = [f"{who}跑了{i}" for i in range(30) for who in "狗猫"]
    reverse = [" ".join(reversed(line.split())) for line in german]  # of the same words
    for other, may_be_told in ((english, True), (chinese, True), (reverse, False)):
        train = {"source": write("a.de", german[:50]), "target": write("a.en", other[:50])}
        one, two = write("b.de", german[50:]), write("b.en", other[50:])
        straight = PairData(**train, valid_source=one, valid_target=two)
        assert gather("translation", straight).report.remarks == []
        swapped = gather("translation", PairData(**train, valid_source=two, valid_target=one))
        told = "the validation sources look like targets, and the targets like sources: are the two"
        assert swapped.report.remarks == [f"{told} files swapped?"] * may_be_told


def test_what_is_held_out_is_the_same_each_time_and_nowhere_else() -> None:
    examples = [Example(f"s{i}", f"t{i}", i) for i in range(95)]
    each = range(95)
    train, valid = hold_out(examples, each, 500, seed=3)
    assert (train, valid) == hold_out(examples, each, 500, seed=3)
    assert valid != hold_out(examples, each, 500, seed=4)[1]
    assert len(valid) == 9
    assert len(hold_out(examples, each, 4, seed=3)[1]) == 4
    assert sorted([*train, *valid]) == sorted(examples)
    assert hold_out(examples[:9], each[:9], 5, seed=0) == (examples[:9], [])


def test_a_group_with_most_examples_is_not_held_out_whole() -> None:
    examples, groups = [*range(40)], [*[0] * 30, *range(1, 11)]
    assert set(hold_out(examples, groups, 4, seed=0)[1]) < {*range(30, 40)}
    assert len(hold_out(examples, [0] * 40, 4, seed=0)[1]) == 4


def test_filters_are_those_of_the_task_unless_given() -> None:
    assert PairData(pairs=A).filters is None
    assert PairData(pairs=A, filters=Filters(ratio=2)).filters == Filters(ratio=2)
