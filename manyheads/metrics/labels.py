"""Metrics of classification and regression: labels, spans of labels, and numbers.

N examples, C classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manyheads.metrics.measured import Measured, Numbers, check_counts, percent

Span = tuple[str, int, int]  # type, first word, end (exclusive)


# ---- labels ----------------------------------------------------------------------------------


def accuracy(outputs: Sequence[str], references: Sequence[str]) -> Measured:
    """The percentage of labels that are right."""
    check_counts(outputs, references)
    return percent([float(a == b) for a, b in zip(outputs, references, strict=True)], "accuracy")


def macro_f1(outputs: Sequence[str], references: Sequence[str]) -> Measured:
    """The mean F1 of all labels in outputs or references: rare labels count as much as others."""
    check_counts(outputs, references)
    names = {name: c for c, name in enumerate(sorted({*outputs, *references}))}
    rows = np.arange(len(outputs))
    given, wanted = np.zeros((2, len(rows), len(names)))  # (N, C) each
    given[rows, [names[name] for name in outputs]] = 1
    wanted[rows, [names[name] for name in references]] = 1

    def finish(sums: Numbers) -> float:
        right, both = sums.reshape(2, -1)
        met = both > 0
        return float(100 * (2 * right[met] / both[met]).mean())

    counts = np.concatenate([given * wanted, given + wanted], 1)
    return Measured("F1|average:macro", counts, finish)


# ---- spans -----------------------------------------------------------------------------------


def span_f1(outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Measured:
    """The F1 of spans, as in CoNLL: type and both ends must be right."""
    check_counts(outputs, references)
    counts = np.zeros((len(outputs), 2))
    for count, output, reference in zip(counts, outputs, references, strict=True):
        if len(output) != len(reference):
            raise ValueError(
                f"{len(output)} tags cannot be held against {len(reference)}; each word has one"
            )
        given, wanted = tag_spans(output), tag_spans(reference)
        count[:] = len(given & wanted), len(given) + len(wanted)

    def finish(sums: Numbers) -> float:
        return 100 * 2 * sums[0] / sums[1] if sums[1] else 0.0

    return Measured("F1|spans:exact|average:micro", counts, finish)


def tag_spans(tags: Sequence[str]) -> set[Span]:
    """["B-PER", "I-PER", "O", "B-LOC"] -> {("PER", 0, 2), ("LOC", 3, 4)}

    As conlleval does: a span also begins with I- if no span of its type is open.
    """
    found: set[Span] = set()
    open_type, start = "", 0
    for i, tag in enumerate([*tags, "O"]):
        mark, _, kind = tag.partition("-")
        if open_type and (mark in ("B", "S", "O") or kind != open_type):
            found.add((open_type, start, i))
            open_type = ""
        if mark != "O" and not open_type:
            open_type, start = kind, i
        if mark in ("E", "S"):
            found.add((open_type, start, i + 1))
            open_type = ""
    return found


def marks_spans(tags: Sequence[str]) -> bool:
    """Whether tags mark spans: O, B-PER, I-PER."""
    return any(tag[:2] in ("B-", "I-") for tag in tags) and all(
        re.fullmatch(r"O|[BIES]-.+", tag) for tag in tags
    )


# ---- numbers ---------------------------------------------------------------------------------


def pearson(outputs: Sequence[float], references: Sequence[float]) -> Measured:
    """The linear correlation of outputs and references, -1 to 1; 0 if one is constant."""
    return correlate(outputs, references, "pearson")


def spearman(outputs: Sequence[float], references: Sequence[float]) -> Measured:
    """The correlation of ranks among all examples; ties share their mean rank."""
    check_counts(outputs, references)
    return correlate(rank_values(outputs), rank_values(references), "spearman|ties:mean")


def rmse(outputs: Sequence[float], references: Sequence[float]) -> Measured:
    """The root mean squared error: lower is better."""
    check_counts(outputs, references)
    squares = (np.asarray(outputs, float) - np.asarray(references, float)) ** 2
    counts = np.stack([squares, np.ones(len(squares))], 1)
    return Measured("rmse", counts, lambda sums: float(np.sqrt(sums[0] / sums[1])))


def roc_auc(scores: Sequence[float], references: Sequence[float]) -> Measured:
    """How often a positive example (1) scores higher than a negative (0); ties count half.

    Each example counts by its place among all of the other kind (DeLong 1988): for examples that
    are drawn again, the value is right to first order.
    """
    check_counts(scores, references)
    values, right = np.asarray(scores, float), np.asarray(references, float) > 0.5
    positive, negative = int(right.sum()), int((~right).sum())
    if not positive or not negative:
        raise ValueError("an AUC needs examples of both kinds, all of these are of one")
    below = rank_values(scores)  # how many of the other kind are below
    for own in (right, ~right):
        below[own] -= rank_values(values[own])
    shares = np.where(right, below / negative, 1 - below / positive)
    whole = float(shares[right].mean())

    def finish(sums: Numbers) -> float:
        above, ones, beneath, zeros = sums
        return float(above / ones + (beneath / zeros - whole))

    counts = np.stack([shares * right, right, shares * ~right, ~right], 1)
    return Measured("roc_auc", counts, finish)


def correlate(x: Sequence[float] | Numbers, y: Sequence[float] | Numbers, name: str) -> Measured:
    check_counts(x, y)
    a, b = (standardize(np.asarray(one, float)) for one in (x, y))

    def finish(sums: Numbers) -> float:
        n, sa, sb, saa, sbb, sab = sums
        spread = (saa - sa * sa / n) * (sbb - sb * sb / n)
        return float((sab - sa * sb / n) / np.sqrt(spread)) if spread > 1e-12 else 0.0

    return Measured(name, np.stack([np.ones(len(a)), a, b, a * a, b * b, a * b], 1), finish)


def standardize(values: Numbers) -> Numbers:
    """Scale to mean 0 and deviation 1, so that sums of squares stay exact; 0 if all are equal."""
    apart = values - values.mean()
    spread = apart.std()
    # The differences of equal numbers to their mean are rounding errors.
    return apart / spread if spread > 1e-12 * np.abs(values).max() else np.zeros_like(apart)


def rank_values(values: Sequence[float] | Numbers) -> NDArray[np.float64]:
    """Rank the values from 1; ties share the mean rank: [30, 10, 30] -> [2.5, 1, 2.5]"""
    _, number, counts = np.unique(
        np.asarray(values, float), return_inverse=True, return_counts=True
    )
    return (counts.cumsum() - (counts - 1) / 2)[number]
