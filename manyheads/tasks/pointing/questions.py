"""Questions with their texts: read from files, and encoded as a network reads them.

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

START, END = 1, 2  # marks of a token: an answer begins with it, an answer ends with it
NO_TEXT = "a question is followed by its text: Who wrote it? A play by Goethe."
Spans = tuple[tuple[int, int], ...]  # of characters


class Question(NamedTuple):
    """A question with its text, its answers, and where they are in the text."""

    source: str  # the question, a line end, the text
    references: tuple[str, ...]
    spans: Spans  # empty if no answer is in the text
    line: int


@dataclass(frozen=True)
class QuestionCorpus:
    """Questions for training and validation."""

    train: list[Question]
    valid: list[Question]
    left: int  # questions left out: no answer is in the text

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
            source, answers = records.source(one, where), records.list_answers(one, where)
            (context, *_) = read_texts(one, ("context",), where)
            shift = source.index("\n") + 1 - (len(context) - len(context.lstrip()))
            starts = [each + shift for each in starts_of(one, records.answers)]
            yield Question(source, tuple(answers), find_spans(source, answers, starts), number)


def starts_of(asked: dict[str, Any], names: Sequence[str]) -> list[int]:
    """Read answer starts as in SQuAD: [{"answer_start": 3}], or {"answer_start": [3]}."""
    value = next((asked[name] for name in names if name in asked), None)
    if isinstance(value, dict):
        value = value.get("answer_start")
    listed = value if isinstance(value, list) else [value]
    found = [each.get("answer_start") if isinstance(each, dict) else each for each in listed]
    return [each for each in found if isinstance(each, int)]


def find_spans(source: str, answers: Sequence[str], starts: Sequence[int]) -> Spans:
    """Return the spans of the answers: at the given starts if they match, else all matches."""
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
    """Split what is typed in one line: "Who was it? Goethe." -> "Who was it?\\nGoethe." """
    parted = source if "\n" in source else source.replace("? ", "?\n", 1)
    if parted.strip() and "\n" not in parted:
        raise ValueError(NO_TEXT)
    return parted


# ---- encoded ---------------------------------------------------------------------------------


class QuestionFrame(NamedTuple):
    """An encoded question and text, with special tokens."""

    ids: list[int]
    types: list[int]  # 0 question and special tokens, 1 text, 2 words that the question has too
    ends: list[int]  # where each token ends in the source, in characters


def frame_question(codec: Text, source: str, room: int) -> QuestionFrame:
    """Encode a question with its text; cut the end if it has more than `room` tokens."""
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
    """Return the characters, counted from 1, of words in the text that the question has too."""
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
    """Mark the tokens with which an answer begins or ends; answers that were cut get no mark."""
    marks = [0] * len(frame.ids)
    for begin, end in spans:
        found = [i for i, kind in enumerate(frame.types) if kind and frame.ends[i] > begin]
        last = [i for i in found if frame.ends[i] >= end]
        if last:
            marks[found[0]] |= START
            marks[last[0]] |= END
    return marks
