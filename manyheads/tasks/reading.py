"""From the files of a task to its examples: what is read, and what is to be written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manyheads.data.corpus import Filters
from manyheads.data.sources import Example, aligned, columns, objects

Kind = Literal["translation", "summarization", "answering"]

# The names under which records keep a text, the first that is there is taken.
SOURCES = {
    "translation": ("source", "src", "text"),
    "summarization": ("document", "dialogue", "article", "text", "source"),
}
TARGETS = {
    "translation": ("target", "tgt", "translation"),
    "summarization": ("summary", "summaries", "highlights", "target"),
}
ANSWERS = ("answers", "answer", "target")

# A summary and an answer are meant to be shorter; how long a text may be its tokens say.
SHORTER = Filters(longest_characters=0, ratio=0.0)
FILTERS: dict[Kind, Filters] = {
    "translation": Filters(),
    "summarization": SHORTER,
    "answering": SHORTER,
}


@dataclass(frozen=True)
class Data:
    """Where examples come from, and which are left out.

    Two files of lines, or one of pairs: .tsv with a tab between, .jsonl with an object a line.
    """

    source: Path | None = None
    target: Path | None = None
    valid_source: Path | None = None
    valid_target: Path | None = None
    pairs: Path | None = None
    valid_pairs: Path | None = None
    held_out: int = 500  # for validation, where no files for it are given; a tenth at most
    longest_tokens: int = 512
    filters: Filters | None = None  # those of the task, unless given

    def __post_init__(self) -> None:
        for names in (
            ("source", "target", "pairs"),
            ("valid_source", "valid_target", "valid_pairs"),
        ):
            self.check(*names)
        if not (self.pairs or self.source):
            raise ValueError("nothing to learn from: give source and target, or pairs")
        if self.longest_tokens < 2:
            raise ValueError(f"longest_tokens is 2 or more, got {self.longest_tokens}")
        if self.held_out < 1:
            raise ValueError(f"held_out is 1 or more, got {self.held_out}")

    def check(self, source: str, target: str, pairs: str) -> None:
        """Two files that belong together, or one that holds both; not half of either."""
        one, other, both = (getattr(self, name) is not None for name in (source, target, pairs))
        if one != other:
            here, missing = (source, target) if one else (target, source)
            raise ValueError(f"{here} was given without {missing}; they come together")
        if one and both:
            raise ValueError(
                f"{source} and {target} were given and {pairs} too; one of them is enough"
            )

    def train(self, kind: Kind) -> Iterator[Example]:
        return read(kind, self.source, self.target, self.pairs)

    def valid(self, kind: Kind) -> Iterator[Example]:
        return read(kind, self.valid_source, self.valid_target, self.valid_pairs)

    @property
    def validated(self) -> bool:
        return bool(self.valid_source or self.valid_pairs)


def read(
    kind: Kind, source: Path | None, target: Path | None, pairs: Path | None
) -> Iterator[Example]:
    """The examples of a task, from whichever files were given."""
    if pairs is None:
        yield from aligned(Path(source or ""), Path(target or ""))
    elif pairs.name.removesuffix(pairs.suffix).endswith(".tsv") or pairs.suffix == ".tsv":
        yield from columns(pairs)
    elif kind == "answering":
        yield from questions(pairs)
    else:
        yield from records(pairs, SOURCES[kind], TARGETS[kind])


def records(path: Path, sources: tuple[str, ...], targets: tuple[str, ...]) -> Iterator[Example]:
    """An object on each line with a source and one or more targets among its keys."""
    for number, record in objects(path):
        where = f"{path}:{number}"
        target, *others = texts(record, targets, where)
        yield Example(texts(record, sources, where)[0], target, number, tuple(others))


def questions(path: Path) -> Iterator[Example]:
    """A context with one question, or with many under "qas" as SQuAD has them."""
    for number, record in objects(path):
        where = f"{path}:{number}"
        context, *_ = texts(record, ("context",), where)
        asked_here = record.get("qas", [record])
        if not isinstance(asked_here, list) or not all(isinstance(a, dict) for a in asked_here):
            raise ValueError(
                f"{where}: qas is a list of questions, each an object with its answers"
            )
        for asked in asked_here:
            question, *_ = texts(asked, ("question",), where)
            answer, *others = dict.fromkeys(texts(asked, ANSWERS, where))
            yield Example(asking(question, context), answer, number, tuple(others))


def asking(question: str, context: str) -> str:
    """The question, then what the answer is to be found in."""
    return f"{question.strip()}\n{context.strip()}"


def texts(record: dict[str, Any], names: tuple[str, ...], where: str) -> list[str]:
    """The text under the first of these names that is there, or the texts if it is a list.

    An answer also comes as {"text": "Paris"}, and several as {"text": ["Paris", "in Paris"]}.
    """
    value = next((record[name] for name in names if name in record), None)
    value = value.get("text") if isinstance(value, dict) else value
    listed = value if isinstance(value, list) else [value]
    found = [each.get("text") if isinstance(each, dict) else each for each in listed]
    kept = [text for text in found if isinstance(text, str)]
    if not found or len(kept) < len(found):
        have = ", ".join(record) or "none"
        raise ValueError(f"{where}: no text under {' or '.join(names)}; its keys are {have}")
    return kept


def hold_out(examples: list[Example], count: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Some at random for validation, where none were given: the rest, and those."""
    count = min(count, len(examples) // 10)
    chosen = set(np.random.default_rng([seed, 1]).permutation(len(examples))[:count].tolist())
    return (
        [example for i, example in enumerate(examples) if i not in chosen],
        [example for i, example in enumerate(examples) if i in chosen],
    )
