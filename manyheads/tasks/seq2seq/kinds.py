"""What translation, summaries and answers differ in: a line of a table each.

All else they share: text in, text out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from manyheads.metrics.answers import exact_match, word_f1
from manyheads.metrics.bleu import bleu, chrf
from manyheads.metrics.measured import Measured, Reference
from manyheads.metrics.rouge import rouge_l, rouge_n
from manyheads.tasks.seq2seq.records import PairRecords, QuestionRecords
from manyheads.tasks.seq2seq.settings import Kind

Measure = Callable[[Sequence[str], Sequence[Reference]], Measured]


@dataclass(frozen=True)
class TextKind:
    """How its records are read, and what it is judged by."""

    records: PairRecords | QuestionRecords
    measures: dict[str, Measure]  # the first says which weights are best


KINDS: dict[Kind, TextKind] = {
    "translation": TextKind(
        PairRecords(("source", "src", "text"), ("target", "tgt", "translation")),
        {"bleu": bleu, "chrf": chrf},
    ),
    "summarization": TextKind(
        PairRecords(
            ("document", "dialogue", "article", "text", "source"),
            ("summary", "summaries", "highlights", "target"),
        ),
        {"rouge_l": rouge_l, "rouge_1": partial(rouge_n, n=1), "rouge_2": partial(rouge_n, n=2)},
    ),
    "answering": TextKind(
        QuestionRecords(("answers", "answer", "target")),
        {"f1": word_f1, "exact": exact_match},
    ),
}


def measures_of(kind: Kind, tokenize: str = "13a") -> dict[str, Measure]:
    """What a kind is judged by, BLEU with words as this tokenizer of sacreBLEU's finds them."""
    measures = dict(KINDS[kind].measures)
    if "bleu" in measures:
        measures["bleu"] = partial(bleu, tokenize=tokenize)
    return measures
