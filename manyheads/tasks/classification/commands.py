"""classify and evaluate, for models that judge texts."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from manyheads.cli.incoming import read_chunks
from manyheads.cli.screen import count_amount, print_json, print_report
from manyheads.metrics.report import make_report, plain_scores
from manyheads.tasks.classification.corpus import read_examples, read_guess
from manyheads.tasks.classification.labels import LabelledExample
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.predictions import AnyPrediction, Prediction, Value, measure
from manyheads.tasks.classification.verbs import ClassifyOptions
from manyheads.tasks.verbs import ExamplesOptions


def classify(model: Classifier, options: ClassifyOptions) -> None:
    cut = cut_at_tab if model.task.labels.pairs and model.kind != "labelling" else str
    for some in read_chunks(options.texts):
        found = model.classify([*map(cut, some)])
        tell_cut(model, found)
        for text, predicted in zip(some, found, strict=True):
            if options.as_json:
                print_json({"text": text, **predicted._asdict()})
            else:
                print(format_prediction(predicted), flush=True)


def tell_cut(model: Classifier, found: Sequence[AnyPrediction]) -> None:
    if over := sum(bool(one.cut) for one in found):
        print(
            f"{over} of {len(found)} texts are longer than the {model.task.room} tokens that "
            "are read; their ends were not read",
            file=sys.stderr,
        )


def cut_at_tab(text: str) -> str | tuple[str, str]:
    first, tab, second = text.partition("\t")
    return (first, second) if tab else text


def format_prediction(predicted: AnyPrediction) -> str:
    """Return the label, a tab and its probability; or a number; or tags."""
    if isinstance(predicted, Prediction):
        return f"{predicted.label}\t{predicted.probability:.4f}"
    if isinstance(predicted, Value):
        return f"{predicted.value:.7g}"  # the digits that 32 bits hold
    return str(predicted)


def evaluate_classifier(model: Classifier, options: ExamplesOptions) -> None:
    columns, guess = model.task.recipe.data.columns, read_guess(model.task.held_in())
    examples = read_examples(model.task.kind, options.file, columns, guess)
    began = time.perf_counter()
    with count_amount(len(examples), "texts", "read") as progress:
        found = model.classify([one.texts for one in examples], progress)
    tell_cut(model, found)
    scores = plain_scores(measure(model.task.kind, found, examples), 4)
    report = make_report(model.name, len(examples), began, scores)
    if unseen := count_unseen(model, examples):
        tell_unseen(model, options.file, unseen)
        report["unseen"] = unseen
    print_report(report, options.as_json)


def count_unseen(model: Classifier, examples: Sequence[LabelledExample]) -> dict[str, int]:
    """Count the labels that the model does not know, and so never predicts."""
    known = model.task.labels.names
    met = Counter(tag for one in examples for tag in one.tags if tag not in known)
    return {} if model.kind == "regression" else dict(met)


def tell_unseen(model: Classifier, path: Path, unseen: dict[str, int]) -> None:
    named = ", ".join(f"{label!r} ({count:,})" for label, count in unseen.items())
    print(
        f"manyheads: {path} has labels that the model never saw, and so never says: {named}; "
        f"it knows {', '.join(model.task.labels.names)}",
        file=sys.stderr,
    )
