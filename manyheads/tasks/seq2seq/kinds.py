"""What translation, summaries and answers differ in: a line of a table each.

All else they share: text in, text out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from manyheads.metrics.bleu import bleu
from manyheads.metrics.table import Metric, find_metric
from manyheads.tasks.seq2seq.records import HeldOut, PairRecords, QuestionRecords
from manyheads.tasks.seq2seq.settings import Kind
from manyheads.tasks.task import Sample, Validation, pick_evenly


@dataclass(frozen=True)
class TextKind:
    """How its records are read, and what it is judged by."""

    records: PairRecords | QuestionRecords
    metrics: tuple[str, ...]  # of the table METRICS; the first says which weights are best


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


def metrics_of(kind: Kind, tokenize: str = "13a", more: Sequence[str] = ()) -> dict[str, Metric]:
    """What a kind is judged by, and more where it is asked for; BLEU with words as this tokenizer
    of sacreBLEU's finds them.
    """
    metrics = {name: find_metric(name) for name in (*KINDS[kind].metrics, *more)}
    return metrics | ({"bleu": partial(bleu, tokenize=tokenize)} if "bleu" in metrics else {})


def judge_outputs(
    metrics: Mapping[str, Metric], outputs: Sequence[str], held_out: HeldOut, loss: float
) -> Validation:
    """What was written for the texts that are held out, and some of it to see."""
    sources, wanted = held_out
    scores = {name: round(metric(outputs, wanted).value, 4) for name, metric in metrics.items()}
    samples = [Sample(sources[i], wanted[i][0], outputs[i]) for i in pick_evenly(len(sources))]
    return Validation({**scores, "loss": loss}, samples)
