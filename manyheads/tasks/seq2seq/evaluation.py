"""Measure the quality of a model's outputs for a test set, and compare it with another model."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from manyheads.data.sources import Example
from manyheads.decoding.config import DecodingConfig
from manyheads.metrics.compare import by_length, paired_bootstrap
from manyheads.metrics.measured import Measured
from manyheads.metrics.report import plain_scores
from manyheads.tasks.seq2seq.kinds import metrics_of
from manyheads.tasks.seq2seq.model import Translator, Written

Shown = Callable[[Iterator[list[Written]]], Iterable[list[Written]]]  # passes on what it gets


@dataclass(frozen=True)
class Evaluation:
    """The outputs of a model for a test set, and their scores."""

    model: str
    examples: Sequence[Example]
    outputs: list[str]
    measured: dict[str, Measured]
    seconds: float

    def lines(self) -> list[str]:
        return [" ".join(output.split("\n")) for output in self.outputs]

    def report(self, theirs: Evaluation | None = None) -> dict[str, Any]:
        """Return everything as plain values, to print or save; with a comparison to `theirs`."""
        first = next(iter(self.measured))
        sources = [example.source for example in self.examples]
        told: dict[str, Any] = {
            "model": self.model,
            "examples": len(self.examples),
            "seconds": round(self.seconds, 2),
            "scores": plain_scores(self.measured, 2),
            "by_length": {
                "measure": first,
                "buckets": [
                    {"words": b.words, "examples": b.count, "value": round(b.value, 2)}
                    for b in by_length(self.measured[first], sources)
                ],
            },
        }
        if theirs is not None:
            told["against"] = {
                "model": theirs.model,
                "scores": {name: round(one.value, 2) for name, one in theirs.measured.items()},
                "difference": {
                    name: vars(paired_bootstrap(one, theirs.measured[name]))
                    for name, one in self.measured.items()
                },
            }
        return told


def evaluate_texts(
    model: Translator,
    examples: Sequence[Example],
    how: DecodingConfig,
    tokenize: str = "13a",
    shown: Shown = iter,
    metrics: Sequence[str] = (),
) -> Evaluation:
    """Decode each source and measure the outputs, also by the `metrics` that are named."""
    if not examples:
        raise ValueError("there is nothing to evaluate: the files are empty")
    judges = metrics_of(model.task.kind, tokenize, metrics)
    began = time.perf_counter()
    told = partial(print, file=sys.stderr)
    written = model.write(
        [example.source for example in examples],
        how,
        told=told,
        name=lambda number: f"line {examples[number - 1].line}",
    )
    outputs = [best.text for best, *_ in shown(written)]
    seconds = time.perf_counter() - began
    references = [example.references for example in examples]
    measured = {name: metric(outputs, references) for name, metric in judges.items()}
    return Evaluation(model.name, examples, outputs, measured, seconds)
