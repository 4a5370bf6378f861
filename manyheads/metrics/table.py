"""The metrics by name; each compares outputs with references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import entry_points
from typing import TypeAlias

from manyheads.metrics.answers import exact_match, word_f1
from manyheads.metrics.bleu import bleu, chrf
from manyheads.metrics.measured import Measured, Reference
from manyheads.metrics.rouge import rouge_l, rouge_n

Metric: TypeAlias = Callable[[Sequence[str], Sequence[Reference]], Measured]

GROUP = "manyheads.metrics"  # entry points for metrics of other packages: name = "module:function"
METRICS: dict[str, Metric] = {
    "bleu": bleu,
    "chrf": chrf,
    "rouge_l": rouge_l,
    "rouge_1": partial(rouge_n, n=1),
    "rouge_2": partial(rouge_n, n=2),
    "f1": word_f1,
    "exact": exact_match,
}


def find_metric(name: str) -> Metric:
    """Return a metric by name, from this package or from an installed one."""
    if name in METRICS:
        return METRICS[name]
    beside = {point.name: point for point in entry_points(group=GROUP)}
    if name not in beside:
        there = ", ".join([*METRICS, *beside])
        raise ValueError(f"there is no metric {name!r}; there are {there}")
    return partial(measure, name, beside[name].load())


def measure(
    name: str, metric: Metric, outputs: Sequence[str], references: Sequence[Reference]
) -> Measured:
    """Measure with a metric of another package; refuse what is no result for these outputs."""
    found = metric(outputs, references)
    if not isinstance(found, Measured):
        raise ValueError(
            f"the metric {name!r} returns {type(found).__name__}; a metric returns a Measured, "
            "which percent(values, signature) makes of a value for each output"
        )
    if len(found.counts) != len(outputs):
        raise ValueError(
            f"the metric {name!r} returns counts of {len(found.counts)} examples for "
            f"{len(outputs)} outputs; each output has its own"
        )
    return found
