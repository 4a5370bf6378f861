"""How good a model is on a test set, by which measure, and whether another is better."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from manyheads.data.labelled import Labelled, Tagged
from manyheads.data.sources import Example
from manyheads.metrics.compare import by_length, paired_bootstrap
from manyheads.metrics.measured import Measured
from manyheads.tasks.classification.frames import text_of
from manyheads.tasks.classification.labels import tags_of
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Piece
from manyheads.tasks.music.statistics import Statistics, beside, distance, opening
from manyheads.tasks.seq2seq.kinds import measures_of
from manyheads.tasks.seq2seq.model import Translator, Written
from manyheads.tasks.seq2seq.writing import Writing

Shown = Callable[[Iterator[list[Written]]], Iterable[list[Written]]]  # passes on what it shows


@dataclass(frozen=True)
class Evaluation:
    """What a model wrote for a test set, and what that is worth."""

    model: str
    examples: Sequence[Example]
    outputs: list[str]
    measured: dict[str, Measured]
    seconds: float

    @staticmethod
    def of(
        model: Translator,
        examples: Sequence[Example],
        how: Writing,
        tokenize: str = "13a",
        shown: Shown = iter,
    ) -> Evaluation:
        if not examples:
            raise ValueError("there is nothing to evaluate: the files are empty")
        began = time.perf_counter()
        told = partial(print, file=sys.stderr)
        written = model.write([example.source for example in examples], how, told=told)
        outputs = [best.text for best, *_ in shown(written)]
        seconds = time.perf_counter() - began
        measures = measures_of(model.task.kind, tokenize)
        references = [example.references for example in examples]
        measured = {name: of(outputs, references) for name, of in measures.items()}
        return Evaluation(model.name, examples, outputs, measured, seconds)

    def lines(self) -> list[str]:
        return [" ".join(output.split("\n")) for output in self.outputs]


def report(ours: Evaluation, theirs: Evaluation | None = None) -> dict[str, Any]:
    """All of it as plain values, to print or to keep."""
    first = next(iter(ours.measured))
    sources = [example.source for example in ours.examples]
    told: dict[str, Any] = {
        "model": ours.model,
        "examples": len(ours.examples),
        "seconds": round(ours.seconds, 2),
        "scores": {
            name: {"value": round(one.value, 2), "signature": one.signature}
            for name, one in ours.measured.items()
        },
        "by_length": {
            "measure": first,
            "buckets": [
                {"words": b.words, "examples": b.count, "value": round(b.value, 2)}
                for b in by_length(ours.measured[first], sources)
            ],
        },
    }
    if theirs is not None:
        told["against"] = {
            "model": theirs.model,
            "scores": {name: round(one.value, 2) for name, one in theirs.measured.items()},
            "difference": {
                name: vars(paired_bootstrap(one, theirs.measured[name]))
                for name, one in ours.measured.items()
            },
        }
    return told


def of_text(model: LanguageModel, documents: Iterable[str], stride: int = 0) -> dict[str, Any]:
    """How likely a model finds documents it was not trained on."""
    began, nats, tokens, size, count = time.perf_counter(), 0.0, 0, 0, 0
    for document in documents:
        found = model.score(document, stride)
        nats -= sum(found.logs)
        tokens, size, count = tokens + len(found.logs), size + found.bytes, count + 1
    loss = nats / max(1, tokens)
    window = f"context:{model.task.context}|stride:{stride or max(1, model.task.context // 2)}"
    scores = {
        "bits_per_byte": nats / math.log(2) / max(1, size),
        "perplexity": math.exp(min(loss, 700)),
        "loss": loss,
    }
    return {
        "model": model.name,
        "examples": count,
        "tokens": tokens,
        "seconds": round(time.perf_counter() - began, 2),
        "scores": {
            name: {"value": round(value, 4), "signature": window} for name, value in scores.items()
        },
    }


def of_music(
    model: Musician,
    pieces: Sequence[tuple[str, Piece]],
    count: int = 8,
    seconds: float = 30.0,
    shown: Callable[[Sequence[tuple[str, Piece]]], Iterable[tuple[str, Piece]]] = iter,
) -> dict[str, Any]:
    """How likely a model finds pieces, each with where it stands; and what they are like in their
    first seconds, beside so many seconds of so many pieces that the model writes.
    """
    if not pieces:
        raise ValueError("there is nothing to evaluate: no piece has a note")
    codec, nats, nats_of_notes, tokens = model.task.codec, 0.0, 0.0, 0
    began, heard = time.perf_counter(), []
    for where, piece in shown(pieces):
        try:
            found = model.score(piece, model.task.context)  # windows that do not overlap
            heard.append(opening(codec.render(codec.encode(piece)), seconds))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        nats, nats_of_notes = nats - sum(found.logs), nats_of_notes - sum(found.logs[:-1])
        tokens += len(found.logs)
    loss, notes = nats / tokens, nats_of_notes / (tokens - len(pieces))
    window = f"context:{model.task.context}|overlap:0"
    scores = {"notes": notes, "perplexity": math.exp(min(loss, 700)), "loss": loss}
    drawn = [one.piece for one in model.compose(seconds=seconds, count=count)]
    data, ours = Statistics.of(heard), Statistics.of(drawn)
    return {
        "model": model.name,
        "examples": len(pieces),
        "tokens": tokens,
        "seconds": round(time.perf_counter() - began, 2),
        "scores": {
            name: {"value": round(value, 4), "signature": window} for name, value in scores.items()
        },
        "statistics": {"seconds": seconds, "data": data.plain(), "drawn": ours.plain()},
        "pitch_classes_apart": round(distance(data, ours), 4),
    }


def of_labels(model: Classifier, examples: Sequence[Labelled | Tagged]) -> dict[str, Any]:
    """How often a model says what was said before it."""
    began = time.perf_counter()
    given = model.classify([text_of(one) for one in examples])
    measured = model.task.measure(given, examples)
    return {
        "model": model.name,
        "examples": len(examples),
        "seconds": round(time.perf_counter() - began, 2),
        "scores": {
            name: {"value": round(one.value, 4), "signature": one.signature}
            for name, one in measured.items()
        },
        **({"unseen": unseen} if (unseen := unseen_labels(model, examples)) else {}),
    }


def unseen_labels(model: Classifier, examples: Sequence[Labelled | Tagged]) -> dict[str, int]:
    """How often each label is met that the model does not know, and so never says."""
    known = model.task.labels.names
    met = Counter(tag for one in examples for tag in tags_of(one) if tag not in known)
    return {} if model.kind == "regression" else dict(met)


def places(name: str) -> int:
    """Behind the point: of what is small, more."""
    return 4 if name in ("bits_per_byte", "loss", "notes", "spearman", "pearson", "rmse") else 2


def table(told: dict[str, Any]) -> str:
    """A report as a person reads it."""
    lines = [f"{told['model']}: {told['examples']:,} examples in {told['seconds']:.1f} s"]
    for name, score in told["scores"].items():
        lines.append(f"  {name:<13} {score['value']:7.{places(name)}f}   {score['signature']}")
    if "by_length" in told:
        lines.append(f"\n  {'words read':<12} {told['by_length']['measure']:>7}   examples")
        for bucket in told["by_length"]["buckets"]:
            lines.append(
                f"  {bucket['words']:<12} {bucket['value']:7.2f}   {bucket['examples']:8,}"
            )
    if "statistics" in told:
        held = told["statistics"]
        columns = {name: Statistics(**held[name]) for name in ("data", "drawn")}
        lines.append(f"\n  the first {held['seconds']:g} s of each piece, and as much drawn")
        lines.append(beside(columns))
        lines.append(f"  pitch classes apart: {told['pitch_classes_apart']:.3f} of 1")
    if "against" in told:
        other = told["against"]
        lines.append(f"\n  against {other['model']}")
        for name, d in other["difference"].items():
            lines.append(
                f"  {name:<12} {other['scores'][name]:7.2f}   ours {d['difference']:+.2f}, "
                f"95% within {d['low']:+.2f} and {d['high']:+.2f}, p = {d['p']:.3f}"
            )
    return "\n".join(lines)
