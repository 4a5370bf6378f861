"""Labelled texts are found in the files that people keep them in, and mistakes are named."""

import gzip
import json
import os
from pathlib import Path
from threading import Thread

import pytest

from manyheads.data.labelled import (
    Columns,
    Labelled,
    Tagged,
    as_lines,
    describe_columns,
    read_labelled_file,
    read_tagged,
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def found(folder: Path, name: str, text: str) -> list[Labelled]:
    return list(read_labelled_file(written(folder, name, text)))


FILM = [Labelled("a fine film", "1", 1), Labelled("no wit, only gags", "0", 2)]


def moved(examples: list[Labelled], by: int) -> list[Labelled]:
    return [one._replace(line=one.line + by) for one in examples]


# ---- columns ---------------------------------------------------------------------------------


def test_the_label_of_two_columns_without_names_is_the_one_that_changes_less(
    tmp_path: Path,
) -> None:
    assert found(tmp_path, "a.tsv", "1\ta fine film\n0\tno wit, only gags\n") == FILM
    assert found(tmp_path, "b.tsv", "a fine film\t1\nno wit, only gags\t0\n\n") == FILM
    assert found(tmp_path, "c.csv", '1,a fine film\n0,"no wit, only gags"\n') == FILM


def test_of_several_columns_of_labels_the_coarsest_counts(tmp_path: Path) -> None:
    text = "NUM\tNUM:dist\tHow far is it ?\nNUM\tNUM:date\tWhen was it ?\n"
    assert [one.label for one in found(tmp_path, "q.tsv", text)] == ["NUM", "NUM"]
    fine = read_labelled_file(tmp_path / "q.tsv", Columns(text="3", label="2"))
    assert list(fine) == [
        Labelled("How far is it ?", "NUM:dist", 1),
        Labelled("When was it ?", "NUM:date", 2),
    ]


def test_a_label_of_the_first_line_is_no_name_of_a_column(tmp_path: Path) -> None:
    stars = written(tmp_path, "a.tsv", "a fine film\t1\nno wit at all\t2\n")
    fine = [Labelled("a fine film", "1", 1), Labelled("no wit at all", "2", 2)]
    assert [*read_labelled_file(stars, Columns(text="1", label="2"))] == fine
    named = written(tmp_path, "b.tsv", "0\t1\na fine film\tgood\n")
    assert [*read_labelled_file(named, Columns("0", "1"))] == [Labelled("a fine film", "good", 2)]


def test_a_second_column_of_several_words_is_a_second_text(tmp_path: Path) -> None:
    text = "a man sleeps here\ta man is awake\tno\na dog runs\tan animal runs\tyes\n"
    assert found(tmp_path, "a.tsv", text) == [
        Labelled("a man sleeps here", "no", 1, "a man is awake"),
        Labelled("a dog runs", "yes", 2, "an animal runs"),
    ]


@pytest.mark.parametrize(
    "head", ["label\tsentence", "Class\tText", "\ufeffscore\tquestion", "coarse\tsentence1"]
)
def test_a_first_line_that_names_its_columns_is_believed(tmp_path: Path, head: str) -> None:
    text = f"{head}\n1\ta fine film\n0\tno wit, only gags\n"
    assert found(tmp_path, "a.tsv", text) == moved(FILM, 1)


def test_names_find_both_texts_and_leave_other_columns(tmp_path: Path) -> None:
    text = "id,sentence1,sentence2,label\n7,a dog,a cat,no\n"
    assert found(tmp_path, "a.csv", text) == [Labelled("a dog", "no", 2, "a cat")]
    asked = read_labelled_file(tmp_path / "a.csv", Columns(text="Sentence2", label="ID"))
    assert list(asked) == [Labelled("a cat", "7", 2)]


def test_a_quoted_cell_may_go_on_over_lines(tmp_path: Path) -> None:
    text = 'text,label\n"one\n""two""",a\nthree,b\n'
    assert found(tmp_path, "a.csv", text) == [
        Labelled('one\n"two"', "a", 2),
        Labelled("three", "b", 4),
    ]


def test_a_mark_before_the_first_line_is_no_part_of_it(tmp_path: Path) -> None:
    assert found(tmp_path, "a.tsv", "\ufeff1\ta fine film\n0\tno wit, only gags\n") == FILM
    assert found(tmp_path, "b.csv", '\ufeff"1",a fine film\n0,"no wit, only gags"\n') == FILM
    path = written(tmp_path, "c.conll", "\ufeffAnna B-PER\nsleeps O\n")
    assert list(read_tagged(path)) == [Tagged(["Anna", "sleeps"], ["B-PER", "O"], 1)]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"1\ta fine film\n0\tno wit, only gags\n"))
    assert list(read_labelled_file(path)) == FILM


def test_columns_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    # Few values but longer than the text: either could be meant.
    text = "good\tvery positive\nbad\tvery negative\nfine\tvery positive\n"
    with pytest.raises(ValueError, match=r"a.tsv: which of its 2 columns is the text and which"):
        found(tmp_path, "a.tsv", text)
    with pytest.raises(ValueError, match=r"which of its 1 columns .* \(text, label\) would do"):
        found(tmp_path, "b.tsv", "just a text\nand another\n")
    three = "a b\tc d\te f g\tx\ng h\ti j\tk l m\tx\n"
    with pytest.raises(ValueError, match="3 of its columns look like texts"):
        found(tmp_path, "c.tsv", three)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match="its first line names index, sentence, and none of them is the label; label or",
    ):
        found(tmp_path, "a.tsv", "index\tsentence\n0\ta fine film\n")
    path = written(tmp_path, "b.tsv", "label\ttext\n1\ta fine film\n")
    with pytest.raises(
        ValueError,
        match="column 'fine' was asked for; there are 1 to 2, and the first line holds label, text",
    ):
        list(read_labelled_file(path, Columns(text="text", label="fine")))
    with pytest.raises(ValueError, match="asked for together"):
        Columns(text="text")
    with pytest.raises(ValueError, match="a second text is asked for with those for text"):
        Columns(second="2")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.tsv", "1\ta b\n0\tc\td\n", "a.tsv:2: 2 columns as in the first line were asked for, 3"),
        ("a.tsv", "1\ta fine film\n \tno wit\n", "a.tsv:2: the label is empty"),
        ("a.tsv", "", "a.tsv is empty: no text with a label is in it"),
        ("a.tsv", "text\tlabel\n", "a.tsv is empty: no text with a label is in it"),
        ("a.csv", '1,"a fine\n', "a.csv:1: not CSV: unexpected end of data"),
        ("a.txt", "1 a fine film\n", "labelled texts come as .tsv, .csv or .jsonl, this is '.txt'"),
        ("a.jsonl", '{"text": "a"}\n', "a.jsonl:1: no label is here, only text; label or labels"),
        ("a.jsonl", '{"label": 1}\n', "a.jsonl:1: no text is here, only label; text or sentence"),
        ("a.jsonl", '{"text": 5, "label": 1}\n', "a.jsonl:1: a text is a string of characters"),
        ("a.jsonl", '{"text": "a", "label": 1, "second": 6}\n', "string of characters, got 6"),
        ("a.jsonl", '{"text": "a", "label": [1]}\n', r"a label is a word or a number, got \[1\]"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        found(tmp_path, name, text)


@pytest.mark.parametrize("name", ["none.tsv", "none.jsonl", "none"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"there is no file {tmp_path / name}"):
        list(read_labelled_file(tmp_path / name))


def test_what_is_not_utf_8_is_named_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"1\ta fine film\n0\tcaf\xe9\n")
    with pytest.raises(ValueError, match=r"a.tsv:2: byte 6 is 0xe9, which is not UTF-8"):
        list(read_labelled_file(path))


def test_a_cell_may_hold_a_long_document(tmp_path: Path) -> None:
    long = "word " * 30_000
    assert found(tmp_path, "a.csv", f'text,label\n"{long}",yes\n') == [Labelled(long, "yes", 2)]


# ---- records ---------------------------------------------------------------------------------


def test_columns_that_are_named_are_the_only_ones_read(tmp_path: Path) -> None:
    asked = Columns(text="premise", label="label")
    rows = "premise,hypothesis,label\na dog runs,an animal runs,yes\n"
    record = {"premise": "a dog runs", "hypothesis": "an animal runs", "label": "yes"}
    files = written(tmp_path, "a.csv", rows), written(tmp_path, "a.jsonl", json.dumps(record))
    both = asked.text, asked.label, "hypothesis"
    for columns, second in ((asked, ""), (Columns(*both), "an animal runs")):
        assert [one.second for path in files for one in read_labelled_file(path, columns)] == [
            second,
            second,
        ]


def test_records_hold_words_or_numbers_as_labels(tmp_path: Path) -> None:
    text = '{"text": "a", "label": 1}\n{"sentence": "b", "class": "x", "second": "c"}\n'
    text += '{"text": "d", "label": true}\n{"text": "e", "score": 2.5}\n'
    assert found(tmp_path, "a.jsonl", text) == [
        Labelled("a", "1", 1),
        Labelled("b", "x", 2, "c"),
        Labelled("d", "true", 3),
        Labelled("e", "2.5", 4),
    ]


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    texts = [Labelled("a\tb\n", "x", 1), Labelled("c", "y", 2, "d \u2028 e")]
    assert found(tmp_path, "a.jsonl", "\n".join(as_lines(texts)) + "\n") == texts
    sentences = [Tagged(["Anna", "sleeps"], ["B-PER", "O"], 1)]
    path = written(tmp_path, "b.jsonl", "\n".join(as_lines(sentences)))
    assert list(read_tagged(path)) == sentences


# ---- words and tags --------------------------------------------------------------------------

ANNA = [
    Tagged(["Anna", "sleeps"], ["B-PER", "O"], 3),
    Tagged(["In", "Rome"], ["O", "B-LOC"], 6),
]


@pytest.mark.parametrize("between", [" ", "\t"])
def test_words_and_tags_of_a_conll_file(tmp_path: Path, between: str) -> None:
    rows = [
        "-DOCSTART- -X- O",
        "",
        "Anna NNP B-PER",
        "sleeps VBZ O",
        "",
        "In IN O",
        "Rome NNP B-LOC",
    ]
    path = written(tmp_path, "a.conll", "\n".join(rows).replace(" ", between) + "\n")
    assert list(read_tagged(path)) == ANNA


def test_words_and_parts_of_speech_of_a_conllu_file(tmp_path: Path) -> None:
    rows = [
        "# sent_id = 1\n# text = im Haus",
        "1-2 im _ _",
        "1 in in ADP",
        "2 dem der DET",
        "3 # # SYM",
        "",
        "# text = New York sleeps",
        "1 New\xa0York York PROPN",
        "1.1 which which PRON",
        "2 sleeps sleep VERB",
    ]
    rest = "\t_" * 6
    lines = [row.replace(" ", "\t") + rest if row[:1].isdigit() else row for row in rows]
    for name, ending in (("a.conllu", "\n\n"), ("b.txt", "")):
        path = written(tmp_path, name, "\n".join(lines) + ending)
        assert [*read_tagged(path)] == [
            Tagged(["in", "dem", "#"], ["ADP", "DET", "SYM"], 4),
            Tagged(["New\xa0York", "sleeps"], ["PROPN", "VERB"], 9),
        ]
    path = written(tmp_path, "c.conllu", "\n".join([*lines, "3\tnow"]))
    with pytest.raises(
        ValueError, match=r"c.conllu:12: 10 columns as in the first line were asked"
    ):
        [*read_tagged(path)]


def test_the_columns_of_words_and_tags_may_be_named(tmp_path: Path) -> None:
    rows = "-DOCSTART- -X- O\n\nAnna NN B-PER\nsleeps VB O\n"
    nouns = [Tagged(["Anna", "sleeps"], ["NN", "VB"], 3)]
    assert [*read_tagged(written(tmp_path, "a.conll", rows), Columns("1", "2"))] == nouns
    cells = "1\tAnna\tanna\tPROPN\tNE\t_\t2\tnsubj\t_\t_\n2\tsleeps\tsleep\tVERB\tVVFIN" + "\t_" * 5
    path = written(tmp_path, "a.conllu", cells)
    assert [one.tags for one in read_tagged(path, Columns("2", "5"))] == [["NE", "VVFIN"]]
    record = '{"tokens": ["Anna", "sleeps"], "pos_tags": ["NN", "VB"], "ner_tags": ["B-PER", "O"]}'
    path = written(tmp_path, "a.jsonl", f"\n\n{record}\n")
    assert [*read_tagged(path, Columns("tokens", "pos_tags"))] == nouns


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns("1", "3"), "a.conll:1: a word and its tag were asked for, only"),
        (Columns("word", "tag"), "'word' was asked for; the columns of a CoNLL file have no names"),
        (Columns("0", "1"), "'0' was asked for; .* a number from 1 up would do"),
        (Columns("1", "2", "3"), "words with tags have no second text; leave out"),
    ],
)
def test_columns_that_no_tagged_file_has_are_refused(
    tmp_path: Path, columns: Columns, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        [*read_tagged(written(tmp_path, "a.conll", "Anna NN\n"), columns)]


def test_tagged_words_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(f"word{i}\tO\n\n" for i in range(5000))
    writer = Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert len([*read_tagged(pipe)]) == 5000
    writer.join()


def test_words_and_tags_of_records(tmp_path: Path) -> None:
    rows = [{"tokens": one.words, "ner_tags": [0] * len(one.tags)} for one in ANNA]
    path = written(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [one.words for one in read_tagged(path)] == [["Anna", "sleeps"], ["In", "Rome"]]
    assert [one.tags for one in read_tagged(path)] == [["0", "0"], ["0", "0"]]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.conll", "Anna B-PER\nsleeps\n", "a.conll:2: a word and its tag were asked for, only"),
        (
            "a.conll",
            "# id 7 en\nAnna N O\n",
            "a.conll:2: 4 columns as in the first line were asked",
        ),
        ("a.conll", "Anna N O\n\n# id 8 en\nI P O\n", "a.conll:3: 3 columns as in the first line"),
        ("a.conll", "\n\n", "a.conll is empty: no sentence with tags is in it"),
        (
            "a.jsonl",
            '\n{"words": ["a", "b"], "tags": ["O"]}',
            "a.jsonl:2: 2 words came with 1 tags; each word has one",
        ),
        ("a.jsonl", '{"words": "a b", "tags": "O O"}', "words are a list of texts, got 'a b'"),
        ("a.jsonl", '{"words": ["a"], "tags": "O"}', "a.jsonl:1: tags are a list, got 'O'"),
        ("a.jsonl", '{"words": ["a"]}', "a.jsonl:1: no list of tags is here, only words; tags or"),
    ],
)
def test_a_mistake_among_tags_is_one_sentence(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        list(read_tagged(written(tmp_path, name, text)))


@pytest.mark.parametrize(
    ("name", "lines", "columns", "told"),
    [
        (
            "a.tsv",
            "coarse\tnote\tquestion\nA\tx\twho?\n",
            {},
            "label: column 1 (coarse), text: column 3 (question)",
        ),
        ("a.csv", "1,a fine film\n0,no wit at all\n", {}, "label: column 1, text: column 2"),
        (
            "a.tsv",
            "label\ttext\tsecond\nA\tx\ty\n",
            {},
            "label: column 1 (label), text: column 2 (text), second text: column 3 (second)",
        ),
        ("a.tsv", "A\tx y\tB\n", {"text": "2", "label": "3"}, "label: column 3, text: column 2"),
        ("a.jsonl", '{"text": "a", "label": 1}\n', {}, ""),
    ],
)
def test_it_is_told_which_column_is_taken_for_what(
    name: str, lines: str, columns: dict[str, str], told: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(lines, encoding="utf-8")
    assert describe_columns(tmp_path / name, Columns(**columns)) == told


def test_a_word_may_have_a_no_break_space(tmp_path: Path) -> None:
    path = written(tmp_path, "a.conll", "10\u00a0000  NUM\neuros O\n\n\u00a0\nParis  LOC \n")
    assert [(one.words, one.tags) for one in read_tagged(path)] == [
        (["10\u00a0000", "euros"], ["NUM", "O"]),
        (["Paris"], ["LOC"]),
    ]
