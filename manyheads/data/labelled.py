"""Read texts with labels, and words with tags, from common file formats."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from manyheads.config.declare import setting
from manyheads.data.sources import find_formats, kind_of, read_lines, read_records

LOOKED_AT = 1000  # lines, to guess the columns of a file without names
SEVERAL = 0.5  # smallest share of cells with several words in a column of texts

NAMES = {
    "text": ("text", "sentence", "sentence1", "text1", "question", "question1", "premise"),
    "label": ("label", "labels", "gold_label", "class", "category", "coarse", "score"),
    "second": ("second", "sentence2", "text2", "question2", "hypothesis"),
}
CONLLU = 10  # columns
csv.field_size_limit(2**31 - 1)  # characters of a cell: Python's own limit is a long document
WORDS, TAGS = ("words", "tokens"), ("tags", "labels", "ner_tags")
Chosen = tuple[int, int, int | None, bool]  # text, label, second text; whether a line names them


class Labelled(NamedTuple):
    """A text, its label and its line; `second` where texts come in pairs."""

    text: str
    label: str
    line: int  # counted from 1
    second: str = ""

    @property
    def tags(self) -> list[str]:
        return [self.label]

    @property
    def texts(self) -> tuple[str, str]:
        """The texts that a model reads."""
        return self.text, self.second


class Tagged(NamedTuple):
    """The words of a sentence, a tag for each, and the line where it begins."""

    words: list[str]
    tags: list[str]
    line: int

    @property
    def texts(self) -> list[str]:
        """The words that a model reads."""
        return self.words


@dataclass(frozen=True)
class Columns:
    """Which column is what: by its name in the first line, or by its number from 1 up."""

    text: str = setting(
        "", "Column of the text, by name or number; without it, found automatically."
    )
    label: str = setting("", "Column of the label.")
    second: str = setting("", "Column of the second text, if texts come in pairs.")

    def __post_init__(self) -> None:
        if bool(self.text) != bool(self.label):
            raise ValueError("a column for the text and one for the label are asked for together")
        if self.second and not self.text:
            raise ValueError(
                "a column for a second text is asked for with those for text and label"
            )


class ColumnGuess(NamedTuple):
    """Which columns of a file without names are what, from 0 up, and how many there are."""

    text: int
    label: int
    second: int | None
    width: int


# ---- texts with a label ----------------------------------------------------------------------


def read_labelled_file(
    path: Path, columns: Columns = Columns(), guess: ColumnGuess | None = None
) -> Iterator[Labelled]:
    """Yield the texts of a .tsv, .csv or .jsonl file, plain or compressed.

    Columns are found by the names in the first line. Without names, the label is the column with
    the fewest different values (the shorter one if equal); the text is the longest column, and
    another one in which most cells have several words is a second text. A `guess` of another file
    with as many columns counts more: few lines say little.
    """
    kind, known = kind_of(path), [*ROWS, *find_formats()]
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if kind not in known:
        there = f"{', '.join(known[:-1])} or {known[-1]}"
        raise ValueError(f"{path}: labelled texts come as {there}, this is {kind!r}")
    rows = ROWS[kind](path) if kind in ROWS else None
    found = (
        read_labelled_records(path, columns)
        if rows is None
        else labelled_rows(path, columns, rows, guess)
    )
    yield from require_some(found, path, "text with a label")


def require_some(found: Iterator[Any], path: Path, what: str) -> Iterator[Any]:
    """Yield everything found; refuse a file in which nothing is."""
    first = next(found, None)
    if first is None:
        raise ValueError(f"{path} is empty: no {what} is in it")
    yield first
    yield from found


def tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, line.split("\t")


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file; a quoted cell may continue over several lines."""
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    number = 1
    try:
        for row in reader:
            if row:
                yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{number}: not CSV: {error}") from None


ROWS = {".tsv": tsv_rows, ".csv": csv_rows}


def describe_columns(path: Path, columns: Columns = Columns()) -> str:
    """ "label: column 1 (coarse), text: column 3 (question)"; empty for a file without columns."""
    if kind_of(path) not in ROWS:
        return ""
    head, (text, label, second, named) = look_at_columns(path, columns)
    places = {"label": label, "text": text, "second text": second}
    return ", ".join(
        f"{what}: column {at + 1}" + (f" ({head[at]})" if named else "")
        for what, at in places.items()
        if at is not None
    )


def guess_file_columns(path: Path, columns: Columns) -> ColumnGuess | None:
    """Return what is guessed of a file; None if its columns are named, or are none."""
    if kind_of(path) not in ROWS or columns.text:
        return None
    head, (text, label, second, named) = look_at_columns(path, columns)
    return None if named else ColumnGuess(text, label, second, len(head))


def look_at_columns(path: Path, columns: Columns) -> tuple[list[str], Chosen]:
    """Return the first line of a file, and which of its columns are read."""
    rows = [row for _, row in islice(ROWS[kind_of(path)](path), LOOKED_AT)]
    head = [cell.strip().lower() for cell in rows[0]]
    return head, choose_columns(path, head, columns, rows)


def labelled_rows(
    path: Path,
    columns: Columns,
    rows: Iterator[tuple[int, list[str]]],
    guess: ColumnGuess | None,
) -> Iterator[Labelled]:
    looked_at = list(islice(rows, LOOKED_AT))
    if not looked_at:
        return
    head = [cell.strip().lower() for cell in looked_at[0][1]]
    width = len(head)
    for number, row in looked_at:
        check_width(path, number, row, width)
    cells = [row for _, row in looked_at]
    text, label, second, named = choose_columns(path, head, columns, cells, guess)
    for number, row in chain(looked_at[named:], rows):
        check_width(path, number, row, width)
        beside = row[second] if second is not None else ""
        yield Labelled(row[text], check_label(row[label], path, number), number, beside)


def check_width(path: Path, number: int, row: Sequence[str], width: int) -> None:
    if len(row) != width:
        raise ValueError(
            f"{path}:{number}: {width} columns as in the first line were asked for, "
            f"{len(row)} are here"
        )


def check_label(label: str, path: Path, number: int) -> str:
    if not label.strip():
        raise ValueError(f"{path}:{number}: the label is empty")
    return label.strip()


def choose_columns(
    path: Path,
    head: list[str],
    asked: Columns,
    rows: list[list[str]],
    guess: ColumnGuess | None = None,
) -> Chosen:
    text, label, second = (
        next((head.index(name) for name in NAMES[what] if name in head), None)
        for what in ("text", "label", "second")
    )
    if asked.text:
        wanted = (asked.text, asked.label, asked.second)
        # Not by name: the first line may hold a label 1, which is no name of a column.
        by_number = all(one.isdigit() and 1 <= int(one) <= len(head) for one in wanted if one)
        names = [] if by_number else head
        numbers = [find_column(path, head, one, names) for one in wanted]
        named = not by_number or (text is not None and label is not None)
        return int(numbers[0] or 0), int(numbers[1] or 0), numbers[2], named
    if text is not None and label is not None:
        return text, label, second, True
    if text is not None or label is not None:
        missing = "label" if label is None else "text"
        raise ValueError(
            f"{path}: its first line names {', '.join(head)}, and none of them is the {missing}; "
            f"{' or '.join(NAMES[missing][:3])} would do"
        )
    if guess is not None and guess.width == len(head):
        return guess.text, guess.label, guess.second, False
    return (*guess_columns(path, rows), False)


def find_column(path: Path, head: list[str], asked: str, names: list[str]) -> int | None:
    """Return the index of a column given by name or number; None where none is given."""
    if not asked:
        return None
    if asked.lower() in names:
        return names.index(asked.lower())
    if asked.isdigit() and 1 <= int(asked) <= len(head):
        return int(asked) - 1
    raise ValueError(
        f"{path}: column {asked!r} was asked for; there are 1 to {len(head)}, "
        f"and the first line holds {', '.join(head)}"
    )


def guess_columns(path: Path, rows: list[list[str]]) -> tuple[int, int, int | None]:
    """Guess which unnamed columns are text, label and second text; refuse an unclear file.

    [["1", "a fine film"], ["0", "no wit at all"]] -> 1, 0, None
    """
    cells = list(zip(*rows, strict=True))
    length = [sum(map(len, column)) / len(rows) for column in cells]
    different = [len(set(column)) for column in cells]
    several = [sum(" " in cell.strip() for cell in c) >= SEVERAL * len(rows) for c in cells]
    label = min(range(len(cells)), key=lambda c: (different[c], length[c]))
    text = max(range(len(cells)), key=lambda c: length[c])
    if length[label] >= length[text]:
        raise ValueError(
            f"{path}: which of its {len(cells)} columns is the text and which the label is not "
            "clear; a first line that names them (text, label) would do"
        )
    texts = [c for c in range(len(cells)) if c == text or (several[c] and c != label)]
    if len(texts) > 2:
        raise ValueError(
            f"{path}: {len(texts)} of its columns look like texts; "
            "a first line that names them (text, second, label) would do"
        )
    return texts[0], label, texts[1] if len(texts) == 2 else None


def read_labelled_records(path: Path, asked: Columns) -> Iterator[Labelled]:
    # As in a file with columns: whoever names the text reads no second one unless it is named too.
    said = {what: tuple(filter(None, [getattr(asked, what)])) for what in NAMES}
    names = said if asked.text else NAMES
    for number, record in read_records(path):
        text = find_field(record, names["text"], "text", path, number)
        label = find_field(record, names["label"], "label", path, number)
        second = next((record[name] for name in names["second"] if name in record), "")
        for given in (text, second):
            if not isinstance(given, str):
                raise ValueError(
                    f"{path}:{number}: a text is a string of characters, got {given!r}"
                )
        yield Labelled(
            text, check_label(label_text(label, path, number), path, number), number, second
        )


def find_field(
    record: dict[str, Any], names: Sequence[str], what: str, path: Path, number: int
) -> Any:
    for name in names:
        if name in record:
            return record[name]
    raise ValueError(
        f"{path}:{number}: no {what} is here, only {', '.join(record) or 'nothing'}; "
        f"{' or '.join(names[:3])} would do"
    )


def label_text(label: Any, path: Path, number: int) -> str:
    """Return a label as text: "positive", 1 -> "1", true -> "true"."""
    if isinstance(label, str):
        return label
    if isinstance(label, int | float):
        return json.dumps(label)
    raise ValueError(f"{path}:{number}: a label is a word or a number, got {label!r}")


# ---- words with a tag each -------------------------------------------------------------------


def read_tagged(path: Path, columns: Columns = Columns()) -> Iterator[Tagged]:
    """Yield sentences of a CoNLL file (a word and its tag per line, blank between), a CoNLL-U file
    or .jsonl.

    Without `columns`, a word is in the first column and its tag in the last, UPOS in CoNLL-U.
    """
    if columns.second:
        raise ValueError(
            "words with tags have no second text; leave out data.columns.second, "
            f"which names {columns.second!r}"
        )
    if kind_of(path) in find_formats():
        found = tagged_records(path, columns)
    else:
        lines = [*enumerate(read_lines(path), start=1)]  # read once: it may be a pipe
        rich = is_conllu(lines)
        places = find_tag_columns(path, columns, (1, 3) if rich else (0, -1))
        found = conll_sentences(path, conllu_lines(path, lines) if rich else lines, *places)
    yield from require_some(found, path, "sentence with tags")


def find_tag_columns(path: Path, asked: Columns, usual: tuple[int, int]) -> tuple[int, int]:
    """Return which column of a CoNLL file is the word, and which its tag: counted from 0."""
    if not asked.text:
        return usual
    for one in (asked.text, asked.label):
        if not one.isdigit() or not int(one):
            raise ValueError(
                f"{path}: column {one!r} was asked for; the columns of a CoNLL file have no names, "
                "a number from 1 up would do"
            )
    return int(asked.text) - 1, int(asked.label) - 1


Lines: TypeAlias = Sequence[tuple[int, str]]  # with their numbers


def is_conllu(lines: Lines) -> bool:
    """Whether the first line that is no comment has ten columns, of which the first is a number."""
    first = (line for _, line in lines if line.strip() and not line.startswith("#"))
    cells = next(first, "").split("\t")
    return len(cells) == CONLLU and cells[0][:1].isdigit()


def conllu_lines(path: Path, lines: Lines) -> Iterator[tuple[int, str]]:
    """Yield the lines with a word, and the blank ones."""
    for number, line in lines:
        cells = line.split("\t")
        if not line.strip():
            yield number, ""
        elif not line.startswith("#"):
            check_width(path, number, cells, CONLLU)
            if cells[0].isdigit():  # 1-2 is a word that is split into others, 1.1 an empty one
                yield number, line


def conll_sentences(
    path: Path, lines: Iterable[tuple[int, str]], word: int, tag: int
) -> Iterator[Tagged]:
    """Yield sentences, with the words and tags of these columns; all lines are as wide."""
    words: list[str] = []
    tags: list[str] = []
    start = width = 0
    for number, line in chain(lines, [(0, "")]):
        # A no-break space is a part of its word, as in the French "10 000".
        cells = line.split("\t") if "\t" in line else [*filter(None, line.split(" "))]
        if not line.strip() or cells[0] == "-DOCSTART-":
            if words:
                yield Tagged(words, tags, start)
            words, tags = [], []
            continue
        short = len(cells) <= max(word, tag, 1)
        if short or not cells[word].strip() or not cells[tag].strip():
            raise ValueError(
                f"{path}:{number}: a word and its tag were asked for, only {line.strip()!r} is here"
            )
        width = width or len(cells)
        check_width(path, number, cells, width)
        start = start if words else number
        words.append(cells[word].strip())
        tags.append(cells[tag].strip())


def tagged_records(path: Path, asked: Columns) -> Iterator[Tagged]:
    named = ((asked.text,), (asked.label,)) if asked.text else (WORDS, TAGS)
    for number, record in read_records(path):
        words = find_field(record, named[0], "list of words", path, number)
        tags = find_field(record, named[1], "list of tags", path, number)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{path}:{number}: words are a list of texts, got {words!r}")
        if not isinstance(tags, list):
            raise ValueError(f"{path}:{number}: tags are a list, got {tags!r}")
        if len(words) != len(tags):
            raise ValueError(
                f"{path}:{number}: {len(words)} words came with {len(tags)} tags; each word has one"
            )
        if words:
            texts = [check_label(label_text(tag, path, number), path, number) for tag in tags]
            yield Tagged(words, texts, number)


# ---- kept ------------------------------------------------------------------------------------


def as_lines(examples: Iterable[Labelled | Tagged]) -> Iterator[str]:
    """Yield a line of JSON for each, which `read_labelled_file` or `read_tagged` reads back."""
    for one in examples:
        if isinstance(one, Tagged):
            record: dict[str, Any] = {"words": one.words, "tags": one.tags}
        else:
            record = {"text": one.text, "label": one.label}
            record |= {"second": one.second} if one.second else {}
        yield json.dumps(record, ensure_ascii=False)
