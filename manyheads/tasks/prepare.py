"""What is done with a corpus before the first step: read, looked through, turned to numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from manyheads.codecs.text import Text
from manyheads.data.corpus import Report, clean, some_left
from manyheads.data.shards import Shard
from manyheads.data.shards import write as write_shard
from manyheads.data.sources import Example
from manyheads.tasks.pairs import Corpus
from manyheads.tasks.reading import FILTERS, Data, Kind, hold_out
from manyheads.tasks.texts import Codec, Codecs
from manyheads.training.files import write_text
from manyheads.training.runs import CORPUS, Run


@dataclass(frozen=True)
class Gathered:
    """The examples of a task, looked through."""

    train: list[Example]
    valid: list[Example]
    report: Report


def gather(kind: Kind, data: Data, seed: int = 0) -> Gathered:
    """Read everything there is; leave out what would do harm, and say what it was."""
    valid = list(data.valid(kind)) if data.validated else []
    report = Report()
    if data.validated and not valid:
        raise ValueError(
            f"{data.valid_pairs or data.valid_source} is empty: nothing to validate on"
        )
    filters = data.filters or FILTERS[kind]
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


def prepare(gathered: Gathered, codec: Codec, longest_tokens: int, run: Run) -> None:
    """Learn the vocabulary, and lay the corpus down as numbers in the run's folder."""
    data, report = run / "data", gathered.report
    data.mkdir(exist_ok=True)
    codecs = learned(codec, gathered.train)
    save_codecs(codecs, run)
    for name, examples in (("train", gathered.train), ("valid", gathered.valid)):
        sources = codecs.source.encode_all([example.source for example in examples])
        targets = codecs.target.encode_all([example.target for example in examples])
        most = longest_tokens - 1  # the sign at the end counts too
        fits = [len(s) <= most and len(t) <= most for s, t in zip(sources, targets, strict=True)]
        if not any(fits):
            raise ValueError(
                f"nothing is left of the {name} pairs: all {len(fits)} are longer than "
                f"{longest_tokens} tokens; a larger data.longest_tokens would do"
            )
        if name == "train":
            over = [example for example, fit in zip(examples, fits, strict=True) if not fit]
            leave_out(report, over, f"longer than {longest_tokens} tokens")
        for side, ids, size in (
            ("source", sources, codecs.source.size),
            ("target", targets, codecs.target.size),
        ):
            kept = (row for row, fit in zip(ids, fits, strict=True) if fit)
            write_shard(data / f"{name}.{side}", kept, size)
    lines = [
        json.dumps({"source": e.source, "references": e.references}, ensure_ascii=False)
        for e in gathered.valid
    ]
    write_text(data / "valid.jsonl", "\n".join(lines) + "\n")
    run.text(CORPUS, f"{report}\n")


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


def leave_out(report: Report, examples: Sequence[Example], reason: str) -> None:
    for example in examples:
        report.kept -= 1
        report.note(reason, example)


def corpus(run: Run, name: str) -> Corpus:
    return Corpus(Shard(run / "data" / f"{name}.source"), Shard(run / "data" / f"{name}.target"))
