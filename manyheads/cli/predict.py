"""The commands predict and evaluate, for tasks without commands of their own."""

from __future__ import annotations

import time

from manyheads.cli.incoming import read_chunks
from manyheads.cli.screen import print_report
from manyheads.data.sources import read_lines
from manyheads.metrics.report import make_report, sign_values
from manyheads.tasks.model import Predictor
from manyheads.tasks.verbs import ExamplesOptions, PredictOptions


def predict(model: Predictor, options: PredictOptions) -> None:
    for some in read_chunks(options.texts):
        for line in model.predict(some):
            print(line, flush=True)


def evaluate_examples(model: Predictor, options: ExamplesOptions) -> None:
    began, found = time.perf_counter(), model.evaluate(options.file)
    examples = sum(1 for _ in read_lines(options.file))
    report = make_report(model.name, examples, began, sign_values(found))
    print_report(report, options.as_json)
