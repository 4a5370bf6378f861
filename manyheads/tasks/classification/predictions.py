"""Predictions for texts, and their scores.

C classes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from manyheads.metrics.labels import (
    accuracy,
    macro_f1,
    marks_spans,
    pearson,
    rmse,
    span_f1,
    spearman,
)
from manyheads.metrics.measured import Measured
from manyheads.tasks.classification.frames import Frame
from manyheads.tasks.classification.labels import LabelledExample, Labels
from manyheads.tasks.classification.settings import LabelKind


class Prediction(NamedTuple):
    """The likeliest class of a text."""

    label: str
    probability: float
    probabilities: dict[str, float]
    cut: int = 0  # tokens of the text that were not read

    def __str__(self) -> str:
        return f"{self.label} ({self.probability:.0%})"


class Value(NamedTuple):
    """The predicted number of a text."""

    value: float
    cut: int = 0

    def __str__(self) -> str:
        return f"{self.value:.4g}"


class Tags(NamedTuple):
    """The likeliest tag of each word."""

    tags: list[str]
    probabilities: list[float]
    cut: int = 0

    def __str__(self) -> str:
        return " ".join(self.tags)


AnyPrediction = Prediction | Value | Tags


def predict(
    kind: LabelKind, labels: Labels, frames: Sequence[Frame], logits: Sequence[Tensor]
) -> list[AnyPrediction]:
    """Return a prediction for each text, from logits (1, C) or (words, C) for each frame; frames of
    the same text are joined.
    """
    names, found = labels.names, list[AnyPrediction]()
    for frame, row in zip(frames, logits, strict=True):
        if kind == "regression":
            found.append(Value(labels.value(row.item()), frame.cut))
            continue
        probabilities = row.softmax(-1)
        if kind == "classification":
            each = dict(zip(names, probabilities[0].tolist(), strict=True))
            best = names[int(probabilities[0].argmax())]
            found.append(Prediction(best, each[best], each, frame.cut))
            continue
        most = probabilities.max(-1)
        tags = Tags([names[i] for i in most.indices.tolist()], most.values.tolist(), frame.cut)
        if frame.text == len(found) - 1:
            tags = Tags(*map(operator.add, found.pop(), tags))
        found.append(tags)
    return found


def measure(
    kind: LabelKind, outputs: Sequence[AnyPrediction], references: Sequence[LabelledExample]
) -> dict[str, Measured]:
    """Return the scores; the first one counts."""
    if kind == "regression":
        said = [one.value for one in outputs if isinstance(one, Value)]
        meant = [float(one.tags[0]) for one in references]
        numeric = {"spearman": spearman, "pearson": pearson, "rmse": rmse}
        return {name: of(said, meant) for name, of in numeric.items()}
    given = [one.tags if isinstance(one, Tags) else [str(one[0])] for one in outputs]
    wanted = [one.tags for one in references]
    flat = [tag for tags in given for tag in tags], [tag for tags in wanted for tag in tags]
    if kind == "labelling" and marks_spans(flat[1]):
        return {"f1": span_f1(given, wanted), "accuracy": accuracy(*flat)}
    return {"accuracy": accuracy(*flat), "f1": macro_f1(*flat)}
