"""evaluate and look, for models of graphs."""

from __future__ import annotations

import sys
import time

from manyheads.cli.screen import print_report
from manyheads.tasks.model import Predictor
from manyheads.tasks.verbs import ExamplesOptions


def evaluate_graphs(model: Predictor, options: ExamplesOptions) -> None:
    began, found = time.perf_counter(), model.task.examine(model.network, options.file)
    if found.left_out.reasons:
        print(found.left_out, file=sys.stderr)
    report = {
        "model": model.name,
        "examples": found.examples,
        "seconds": round(time.perf_counter() - began, 2),
        "scores": {
            name: {"value": round(value, 4), "signature": ""}
            for name, value in found.scores.items()
        },
    }
    print_report(report, options.as_json)
