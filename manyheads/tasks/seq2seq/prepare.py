"""What is done with a corpus before the first step: read, looked through, turned to numbers."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.codecs.text import Text
from manyheads.data.filters import Report, clean, some_left
from manyheads.data.layout import Ints
from manyheads.data.shards import Shard
from manyheads.data.shards import write as write_shard
from manyheads.data.sources import Example
from manyheads.tasks.seq2seq.batches import Corpus
from manyheads.tasks.seq2seq.kinds import KINDS, Kind
from manyheads.tasks.seq2seq.reading import Data, columns_left, hold_out
from manyheads.tasks.seq2seq.task import Codec, Codecs
from manyheads.training.files import write_text
from manyheads.training.run import CORPUS, Run

CHARACTERS_A_TOKEN = 4  # about
ENCODED_AT_ONCE = 10_000  # lines
CAPITALS = "capitals.npy"  # where each pair to train on lies in ALL CAPS


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
    for path in (data.pairs, data.valid_pairs):
        report.remarks += columns_left(path)
    if not data.validated:
        train, valid = hold_out(train, data.held_out, seed)
    if not valid:
        raise ValueError(
            f"{len(train)} pairs are too few to hold some out for validation; "
            "give files for it, or 10 pairs at least"
        )
    return Gathered(train, valid, report)


def prepare(
    gathered: Gathered,
    codec: Codec,
    longest_tokens: int,
    run: Run,
    codecs: Codecs | None = None,
    capitals: float = 0.0,
) -> None:
    """Learn the vocabulary, if none is there, and lay the corpus down in numbers.

    Where a share is to be learned in ALL CAPS, so do all pairs that can be, after the others.
    """
    data, report = run / "data", copy.deepcopy(gathered.report)
    data.mkdir(exist_ok=True)
    codecs = codecs or learned(codec, gathered.train, capitals)
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
        sources, targets = list(compress(sources, fits)), list(compress(targets, fits))
        if capitals and name == "train":
            where = add_capitals(codecs, list(compress(examples, fits)), sources, targets, most)
            np.save(data / CAPITALS, where)
        write_shard(data / f"{name}.source", sources, codecs.source.size)
        write_shard(data / f"{name}.target", targets, codecs.target.size)
    lines = [
        json.dumps({"source": e.source, "references": e.references}, ensure_ascii=False)
        for e in compress(gathered.valid, fits)
    ]
    write_text(data / "valid.jsonl", "\n".join(lines) + "\n")
    run.text(CORPUS, f"{report}\n")


def add_capitals(
    codecs: Codecs, examples: Sequence[Example], sources: list[Any], targets: list[Any], most: int
) -> Ints:
    """Put the pairs that can be in ALL CAPS after the others; gives where each lies so.

    One that would be too long, or unknown to the vocabulary, stays as it is alone.
    """
    where = np.arange(len(examples))
    able = [i for i, example in enumerate(examples) if has_capitals(example)]
    read = encoded(codecs.source, [examples[i].source.upper() for i in able])
    written = encoded(codecs.target, [examples[i].target.upper() for i in able])
    reads, writes = codecs.signs
    for i, source, target in zip(able, read, written, strict=True):
        unknown = (source == reads.unknown).any() or (target == writes.unknown).any()
        if not unknown and max(len(source), len(target)) <= most:
            where[i] = len(sources)
            sources.append(source)
            targets.append(target)
    return where


def has_capitals(example: Example) -> bool:
    """Whether both sides are of a script with capitals, and some are written."""
    both = f"{example.source} {example.target}"
    return both != both.lower() and all(map(in_cases, (example.source, example.target)))


def in_cases(text: str) -> bool:
    """Whether most letters have two forms: of a Japanese text with a Latin name they have not."""
    return 2 * sum(one.lower() != one.upper() for one in text) > sum(map(str.isalpha, text))


def encoded(codec: Text, lines: Sequence[str]) -> list[Any]:
    """Each line as an array: a list of Python's numbers would take ten times the memory."""
    rows = []
    for start in range(0, len(lines), ENCODED_AT_ONCE):
        some = codec.encode_all(lines[start : start + ENCODED_AT_ONCE])
        rows += [np.asarray(row, dtype=np.uint32) for row in some]
    return rows


def learned(codec: Codec, examples: Sequence[Example], capitals: float = 0.0) -> Codecs:
    """A vocabulary of the texts as they are, and of a share of them in ALL CAPS.

    Not of whole words: the others would have half the room.
    """
    some: list[Example] = []
    if capitals and codec.kind != "word":
        some = [one for one in examples[:: round(1 / capitals)] if has_capitals(one)]
    train = partial(Text.train, kind=codec.kind, size=codec.size, normalize=codec.normalize)
    sources = chain((one.source for one in examples), (one.source.upper() for one in some))
    targets = chain((one.target for one in examples), (one.target.upper() for one in some))
    if codec.joint:
        both = train(chain(sources, targets))
        return Codecs(both, both)
    return Codecs(train(sources), train(targets))


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
    capitals = run / "data" / CAPITALS
    drawn = name == "train" and capitals.exists()  # not in a run that was begun without
    return Corpus(source, target, codecs.signs, np.load(capitals) if drawn else None)
