"""What differs between translation, summaries and answers: how their records are read, and which
metrics judge them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from manyheads.data.sources import Example, read_records
from manyheads.metrics.bleu import bleu
from manyheads.metrics.table import Metric, find_metric
from manyheads.tasks.seq2seq.settings import Kind
from manyheads.tasks.task import Sample, Validation, pick_evenly
from manyheads.training.files import write_text

Record = dict[str, Any]  # texts under the field names of the corpus
NO_ANSWER = ""
HeldOut = tuple[list[str], list[list[str]]]  # validation sources, and the references of each

# ---- how they are read -----------------------------------------------------------------------


@dataclass(frozen=True)
class PairRecords:
    """A source and one or more targets, each under the first of its names that is present."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def all_sources(self, record: Record, where: str) -> list[str]:
        return read_texts(record, self.sources, where)[:1]

    def examples(self, path: Path) -> Iterator[Example]:
        for number, record in read_records(path):
            where = f"{path}:{number}"
            target, *others = read_texts(record, self.targets, where)
            (source,) = self.all_sources(record, where)
            yield Example(source, target, number, tuple(others))

    def make_record(self, source: str, target: str) -> Record:
        """Return a record that `examples` reads."""
        return {"source": source, "target": target}


@dataclass(frozen=True)
class QuestionRecords:
    """A context with one question, or with many under "qas" as in SQuAD."""

    answers: tuple[str, ...]

    def source(self, record: Record, where: str) -> str:
        """Return the question on one line, then the context with the answer."""
        question, context = (
            read_texts(record, (name,), where)[0] for name in ("question", "context")
        )
        return f"{' '.join(question.split())}\n{context.strip()}"

    def list_questions(self, record: Record, where: str) -> list[Record]:
        """Return an object for each question, with the context that they share."""
        asked = record.get("qas", [record])
        if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
            raise ValueError(
                f"{where}: qas is a list of questions, each an object with its answers"
            )
        if "qas" not in record:
            return asked
        (context, *_) = read_texts(record, ("context",), where)
        return [{**one, "context": context} for one in asked]

    def all_sources(self, record: Record, where: str) -> list[str]:
        return [self.source(one, where) for one in self.list_questions(record, where)]

    def examples(self, path: Path) -> Iterator[Example]:
        for number, record in read_records(path):
            where = f"{path}:{number}"
            for one in self.list_questions(record, where):
                source = self.source(one, where)
                answer, *others = dict.fromkeys(self.list_answers(one, where))
                yield Example(source, answer, number, tuple(others))

    def make_record(self, source: str, target: str) -> Record:
        """Return a record that `examples` reads."""
        question, _, context = source.partition("\n")
        return {"context": context, "question": question, "answers": [target]}

    def list_answers(self, asked: Record, where: str) -> list[str]:
        """Return the answers; an empty one for an empty list: SQuAD 2.0 has questions without."""
        none = find_value(asked, self.answers) == []
        return [NO_ANSWER] if none else read_texts(asked, self.answers, where)


def find_value(record: Record, names: tuple[str, ...]) -> Any:
    """Return what is under the first of these names that is present; of an object, its text."""
    value = next((record[name] for name in names if name in record), None)
    return value.get("text") if isinstance(value, dict) else value


def read_texts(record: Record, names: tuple[str, ...], where: str) -> list[str]:
    """Return the text under the first of these names that is present; all texts if it is a list.

    An answer can also be {"text": "Paris"}, and several {"text": ["Paris", "in Paris"]}.
    """
    value = find_value(record, names)
    listed = value if isinstance(value, list) else [value]
    found = [each.get("text") if isinstance(each, dict) else each for each in listed]
    kept = [text for text in found if isinstance(text, str)]
    if not found or len(kept) < len(found):
        have = ", ".join(record) or "none"
        raise ValueError(f"{where}: no text under {' or '.join(names)}; its keys are {have}")
    return kept


# ---- the kinds -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextKind:
    """How the records of a kind are read, and which metrics judge it."""

    records: PairRecords | QuestionRecords
    metrics: tuple[str, ...]  # names in METRICS; the first chooses the best weights


KINDS: dict[Kind, TextKind] = {
    "translation": TextKind(
        PairRecords(("source", "src", "text"), ("target", "tgt", "translation")),
        ("bleu", "chrf"),
    ),
    "summarization": TextKind(
        PairRecords(
            ("document", "dialogue", "article", "text", "source"),
            ("summary", "summaries", "highlights", "target"),
        ),
        ("rouge_l", "rouge_1", "rouge_2"),
    ),
    "answering": TextKind(
        QuestionRecords(("answers", "answer", "target")),
        ("f1", "exact"),
    ),
}


# ---- how they are judged ---------------------------------------------------------------------


def write_held_out(folder: Path, examples: Iterable[Any]) -> None:
    """Write the source and the references of each validation example into a run."""
    each = ({"source": one.source, "references": one.references} for one in examples)
    lines = (f"{json.dumps(one, ensure_ascii=False)}\n" for one in each)
    write_text(folder / "data" / "valid.jsonl", "".join(lines))


def read_held_out(folder: Path) -> HeldOut:
    lines = (folder / "data" / "valid.jsonl").read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines if line]
    return [one["source"] for one in records], [one["references"] for one in records]


def metrics_of(kind: Kind, tokenize: str = "13a", more: Sequence[str] = ()) -> dict[str, Metric]:
    """Return the metrics of a kind, and `more`; BLEU uses this tokenizer of sacreBLEU."""
    metrics = {name: find_metric(name) for name in (*KINDS[kind].metrics, *more)}
    return metrics | ({"bleu": partial(bleu, tokenize=tokenize)} if "bleu" in metrics else {})


def judge_outputs(
    metrics: Mapping[str, Metric], outputs: Sequence[str], held_out: HeldOut, loss: float
) -> Validation:
    """Return the scores of outputs for the validation set, and a few samples."""
    sources, wanted = held_out
    scores = {name: round(metric(outputs, wanted).value, 4) for name, metric in metrics.items()}
    samples = [Sample(sources[i], wanted[i][0], outputs[i]) for i in pick_evenly(len(sources))]
    return Validation({**scores, "loss": loss}, samples)
