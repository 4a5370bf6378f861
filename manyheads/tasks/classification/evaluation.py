"""Evaluate a classifier on labelled texts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from manyheads.metrics.report import plain_scores
from manyheads.tasks.classification.labels import LabelledExample
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.predictions import measure


def evaluate_labels(
    model: Classifier,
    examples: Sequence[LabelledExample],
    progress: Callable[[int], object] = lambda more: None,
) -> dict[str, Any]:
    """Return a report of the scores; `progress` is called with the number of texts just read."""
    began = time.perf_counter()
    given = model.classify([one.texts for one in examples], progress)
    measured = measure(model.task.kind, given, examples)
    return {
        "model": model.name,
        "examples": len(examples),
        "seconds": round(time.perf_counter() - began, 2),
        "scores": plain_scores(measured, 4),
        **({"unseen": unseen} if (unseen := count_unseen(model, examples)) else {}),
    }


def count_unseen(model: Classifier, examples: Sequence[LabelledExample]) -> dict[str, int]:
    """Count the labels that the model does not know, and so never predicts."""
    known = model.task.labels.names
    met = Counter(tag for one in examples for tag in one.tags if tag not in known)
    return {} if model.kind == "regression" else dict(met)
