"""What translation, summaries and answers differ in: a line of a table each.

All else they share: text in, text out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from manyheads.metrics.bleu import bleu
from manyheads.metrics.table import Metric, find_metric
from manyheads.tasks.seq2seq.records import PairRecords, QuestionRecords
from manyheads.tasks.seq2seq.settings import Kind


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
