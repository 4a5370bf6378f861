"""Questions with their texts: read from files, framed as a network reads them.

T tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.codecs.text import Text
from manyheads.data.filters import tell_seen
from manyheads.data.sources import read_records
from manyheads.tasks.seq2seq.kinds import KINDS, QuestionRecords, read_texts
from manyheads.tasks.vocabulary import CHARACTERS_A_TOKEN

START, END = 1, 2  # marks of a token: an answer begins with it, one ends with it
NO_TEXT = "a question is followed by its text: Who wrote it? A play by Goethe."
Spans = tuple[tuple[int, int], ...]  # of characters


class Question(NamedTuple):
    """A question and its text, what answers it, and where that stands."""

    source: str  # the question, a line end, the text
    references: tuple[str, ...]
    spans: Spans  # none where no answer is in the text
    line: int


@dataclass(frozen=True)
class QuestionCorpus:
    """Questions to train on and to validate on."""

    train: list[Question]
    valid: list[Question]
    left: int  # questions whose answers are not in their texts: none can be pointed at

    def __str__(self) -> str:
        train, valid = ([one.source for one in part] for part in (self.train, self.valid))
        told = f"{len(train):,} questions to train on, {len(valid):,} to validate on"
        told += tell_seen(train, valid)
        return told + (f"; {self.left:,} left out: no answer is in the text" if self.left else "")

    @property
    def tokens(self) -> int:
        return sum(len(one.source) for one in self.train) // CHARACTERS_A_TOKEN


def read_questions(path: Path) -> Iterator[Question]:
    records = KINDS["answering"].records
    assert isinstance(records, QuestionRecords)
    for number, record in read_records(path):
        where = f"{path}:{number}"
        for one in records.list_questions(record, where):
            source, answers = records.source(one, where), read_texts(one, records.answers, where)
            (context, *_) = read_texts(one, ("context",), where)
            shift = source.index("\n") + 1 - (len(context) - len(context.lstrip()))
            starts = [each + shift for each in starts_of(one, records.answers)]
            yield Question(source, tuple(answers), find_spans(source, answers, starts), number)


def starts_of(asked: dict[str, Any], names: Sequence[str]) -> list[int]:
    """Where answers begin, as SQuAD says: [{"answer_start": 3}], or {"answer_start": [3]}."""
    value = next((asked[name] for name in names if name in asked), None)
    if isinstance(value, dict):
        value = value.get("answer_start")
    listed = value if isinstance(value, list) else [value]
    found = [each.get("answer_start") if isinstance(each, dict) else each for each in listed]
    return [each for each in found if isinstance(each, int)]


def find_spans(source: str, answers: Sequence[str], starts: Sequence[int]) -> Spans:
    """Where the answers stand in the text: as is said, else wherever they are met."""
    first = source.find("\n") + 1
    if len(starts) == len(answers):
        said = [(start, start + len(answer)) for start, answer in zip(starts, answers, strict=True)]
        if all(source[a:b] == answer for (a, b), answer in zip(said, answers, strict=True)):
            return tuple(dict.fromkeys(said))
    met = (
        match.span()
        for answer in answers
        if answer.strip()
        for match in re.finditer(re.escape(answer.strip()), source)
    )
    return tuple(dict.fromkeys(span for span in met if span[0] >= first))


def part_question(source: str) -> str:
    """As it is typed in one line: "Who was it? Goethe." -> "Who was it?\\nGoethe." """
    parted = source if "\n" in source else source.replace("? ", "?\n", 1)
    if parted.strip() and "\n" not in parted:
        raise ValueError(NO_TEXT)
    return parted


# ---- as a network reads them -----------------------------------------------------------------


class QuestionFrame(NamedTuple):
    """A question and its text as numbers, the signs around them."""

    ids: list[int]
    types: list[int]  # 0 question and signs, 1 text, 2 text that the question names
    ends: list[int]  # the character of the source that each token goes up to


def frame_question(codec: Text, source: str, room: int) -> QuestionFrame:
    """Of one that is longer than there is room for the end is not read."""
    special = codec.special_tokens
    ids, ends = codec.encode_with_ends(source)
    before = len(special.encoder_bos)
    ids, ends = ids[: room - before - 1], ends[: room - before - 1]
    first, named = source.find("\n") + 1, named_words(source)
    types = [int(end > first) + (end in named) for end in ends]
    return QuestionFrame(
        [*special.encoder_bos, *ids, special.eos],
        [*[0] * before, *types, 0],
        [*[0] * before, *ends, ends[-1] if ends else 0],
    )


def named_words(source: str) -> set[int]:
    """The characters, counted from 1, of words in the text that the question has too."""
    first = source.find("\n") + 1
    asked = {match[0] for match in re.finditer(r"\w+", source[:first].lower())}
    words = re.finditer(r"\w+", source)
    return {
        place
        for match in words
        if match.start() >= first and match[0].lower() in asked
        for place in range(match.start() + 1, match.end() + 1)
    }


def mark_spans(frame: QuestionFrame, spans: Spans) -> list[int]:
    """Of each token whether an answer begins or ends with it; of those cut off none does."""
    marks = [0] * len(frame.ids)
    for begin, end in spans:
        found = [i for i, kind in enumerate(frame.types) if kind and frame.ends[i] > begin]
        last = [i for i in found if frame.ends[i] >= end]
        if last:
            marks[found[0]] |= START
            marks[last[0]] |= END
    return marks
