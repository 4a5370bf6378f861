"""classify and evaluate, for models that judge texts."""

from __future__ import annotations

import sys
from pathlib import Path

from manyheads.cli.incoming import read_chunks
from manyheads.cli.screen import count_amount, print_json, print_report
from manyheads.tasks.classification.corpus import read_examples
from manyheads.tasks.classification.evaluation import evaluate_labels
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.predictions import AnyPrediction, Prediction
from manyheads.tasks.classification.verbs import ClassifyOptions
from manyheads.tasks.verbs import ExamplesOptions


def classify(model: Classifier, options: ClassifyOptions) -> None:
    cut = str if model.kind == "labelling" else cut_at_tab  # words to tag, tabs or not
    for some in read_chunks(options.texts):
        found = model.classify([*map(cut, some)])
        if over := sum(bool(one.cut) for one in found):
            print(
                f"{over} of {len(some)} texts are longer than the {model.task.room} tokens that "
                "are read; their ends were not read",
                file=sys.stderr,
            )
        for text, predicted in zip(some, found, strict=True):
            if options.as_json:
                print_json({"text": text, **predicted._asdict()})
            else:
                print(format_prediction(predicted), flush=True)


def cut_at_tab(text: str) -> str | tuple[str, str]:
    first, tab, second = text.partition("\t")
    return (first, second) if tab else text


def format_prediction(predicted: AnyPrediction) -> str:
    """Return the label, a tab and its probability; or a number; or tags."""
    if isinstance(predicted, Prediction):
        return f"{predicted.label}\t{predicted.probability:.4f}"
    return str(predicted)


def evaluate_classifier(model: Classifier, options: ExamplesOptions) -> None:
    path = options.file
    examples = read_examples(model.task.kind, path, model.task.recipe.data.columns)
    with count_amount(len(examples), "texts", "read") as progress:
        report = evaluate_labels(model, examples, progress)
    if unseen := report.get("unseen"):
        tell_unseen(model, path, unseen)
    print_report(report, options.as_json)


def tell_unseen(model: Classifier, path: Path, unseen: dict[str, int]) -> None:
    named = ", ".join(f"{label!r} ({count:,})" for label, count in unseen.items())
    print(
        f"manyheads: {path} has labels that the model never saw, and so never says: {named}; "
        f"it knows {', '.join(model.task.labels.names)}",
        file=sys.stderr,
    )
