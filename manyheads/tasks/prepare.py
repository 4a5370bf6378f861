"""What is done with a corpus before the first step: read, looked through, turned to numbers."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.codecs.text import Text
from manyheads.data.corpus import Report, clean, some_left
from manyheads.data.shards import Shard
from manyheads.data.shards import write as write_shard
from manyheads.data.sources import Example
from manyheads.tasks.kinds import KINDS, Kind
from manyheads.tasks.pairs import Corpus
from manyheads.tasks.reading import Data, hold_out
from manyheads.tasks.texts import Codec, Codecs
from manyheads.training.files import write_text
from manyheads.training.runs import CORPUS, Run

CHARACTERS_A_TOKEN = 4  # about
ENCODED_AT_ONCE = 10_000  # lines


@dataclass(frozen=True)
class Gathered:
    """The examples of a task, looked through."""

    train: list[Example]
    valid: list[Example]
    report: Report

    def tokens(self) -> int:
        """Of all pairs on the larger side, about: before the vocabulary is known."""
        read = sum(len(example.source) for example in self.train)
        written = sum(len(example.target) for example in self.train)
        return max(read, written) // CHARACTERS_A_TOKEN + len(self.train)


def gather(kind: Kind, data: Data, seed: int = 0) -> Gathered:
    """Read everything there is; leave out what would do harm, and say what it was."""
    valid = list(data.valid(kind)) if data.validated else []
    report = Report()
    if data.validated and not valid:
        raise ValueError(
            f"{data.valid_pairs or data.valid_source} is empty: nothing to validate on"
        )
    filters = data.filters or KINDS[kind].filters
    train = list(clean(data.train(kind), report, filters, held_out=valid))
    some_left(report, "the corpus")
    if not data.validated:
        train, valid = hold_out(train, data.held_out, seed)
    if not valid:
        raise ValueError(
            f"{len(train)} pairs are too few to hold some out for validation; "
            "give files for it, or 10 pairs at least"
        )
    return Gathered(train, valid, report)


def prepare(
    gathered: Gathered, codec: Codec, longest_tokens: int, run: Run, codecs: Codecs | None = None
) -> None:
    """Learn the vocabulary, if none is there, and lay the corpus down in numbers."""
    data, report = run / "data", copy.deepcopy(gathered.report)
    data.mkdir(exist_ok=True)
    codecs = codecs or learned(codec, gathered.train)
    save_codecs(codecs, run)
    for name, examples in (("train", gathered.train), ("valid", gathered.valid)):
        sources = encoded(codecs.source, [example.source for example in examples])
        targets = encoded(codecs.target, [example.target for example in examples])
        most = longest_tokens - 1  # a sign counts too
        fits = [len(s) <= most and len(t) <= most for s, t in zip(sources, targets, strict=True)]
        if not any(fits):
            raise ValueError(
                f"nothing is left of the {name} pairs: all {len(fits)} are longer than "
                f"{longest_tokens} tokens; a larger data.longest_tokens would do"
            )
        over = list(compress(examples, [not fit for fit in fits]))
        whose = "" if name == "train" else ", of those to validate on"
        leave_out(report, over, f"longer than {longest_tokens} tokens{whose}", name == "train")
        write_shard(data / f"{name}.source", compress(sources, fits), codecs.source.size)
        write_shard(data / f"{name}.target", compress(targets, fits), codecs.target.size)
    lines = [
        json.dumps({"source": e.source, "references": e.references}, ensure_ascii=False)
        for e in compress(gathered.valid, fits)
    ]
    write_text(data / "valid.jsonl", "\n".join(lines) + "\n")
    run.text(CORPUS, f"{report}\n")


def encoded(codec: Text, lines: Sequence[str]) -> list[Any]:
    """Each line as an array: a list of Python's numbers would take ten times the memory."""
    rows = []
    for start in range(0, len(lines), ENCODED_AT_ONCE):
        some = codec.encode_all(lines[start : start + ENCODED_AT_ONCE])
        rows += [np.asarray(row, dtype=np.uint32) for row in some]
    return rows


def learned(codec: Codec, examples: Sequence[Example]) -> Codecs:
    kind, size = codec.kind, codec.size
    sources = (example.source for example in examples)
    targets = (example.target for example in examples)
    if codec.joint:
        both = Text.train(chain(sources, targets), kind, size)
        return Codecs(both, both)
    return Codecs(Text.train(sources, kind, size), Text.train(targets, kind, size))


def save_codecs(codecs: Codecs, run: Run) -> None:
    if codecs.joint:
        codecs.source.save(run / "tokenizer.json")
    else:
        codecs.source.save(run / "source.json")
        codecs.target.save(run / "target.json")


def load_codecs(folder: Path) -> Codecs:
    if (folder / "source.json").exists():
        return Codecs(Text.load(folder / "source.json"), Text.load(folder / "target.json"))
    if not (folder / "tokenizer.json").exists():
        raise ValueError(f"{folder} has no tokenizer.json: it is not the folder of a run")
    both = Text.load(folder / "tokenizer.json")
    return Codecs(both, both)


def leave_out(report: Report, examples: Sequence[Example], reason: str, counted: bool) -> None:
    """Note them; those that were counted as kept are so no more."""
    for example in examples:
        report.kept -= int(counted)
        report.note(reason, example)


def corpus(run: Run, name: str, codecs: Codecs) -> Corpus:
    source, target = (Shard(run / "data" / f"{name}.{side}") for side in ("source", "target"))
    return Corpus(source, target, codecs.signs)
