"""Results of metrics as plain values, and as a text report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from manyheads.metrics.measured import Measured

SMALL = ("bits_per_byte", "loss", "notes", "spearman", "pearson", "rmse")  # shown with 4 digits


def plain_scores(measured: Mapping[str, Measured], places: int) -> dict[str, Any]:
    """{"bleu": {"value": 34.5, "signature": "..."}}"""
    return {
        name: {"value": round(one.value, places), "signature": one.signature}
        for name, one in measured.items()
    }


def sign_values(values: Mapping[str, float], signature: str = "") -> dict[str, Any]:
    """{"loss": 1.42}, "context:256" -> {"loss": {"value": 1.42, "signature": "context:256"}}"""
    return {n: {"value": round(value, 4), "signature": signature} for n, value in values.items()}


def make_report(
    model: str, examples: int, began: float, scores: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """Return what was measured; it `began` at this time.perf_counter()."""
    seconds = round(time.perf_counter() - began, 2)
    return {"model": model, "examples": examples, "seconds": seconds, "scores": scores, **more}


def format_report(told: Mapping[str, Any]) -> str:
    """Format an evaluation as text."""
    lines = [f"{told['model']}: {told['examples']:,} examples in {told['seconds']:.1f} s"]
    for name, score in told["scores"].items():
        places = 4 if name in SMALL else 2
        lines.append(f"  {name:<13} {score['value']:7.{places}f}   {score['signature']}")
    if "by_length" in told:
        lines.append(f"\n  {'words read':<12} {told['by_length']['measure']:>7}   examples")
        for bucket in told["by_length"]["buckets"]:
            lines.append(
                f"  {bucket['words']:<12} {bucket['value']:7.2f}   {bucket['examples']:8,}"
            )
    if "against" in told:
        other = told["against"]
        lines.append(f"\n  against {other['model']}")
        for name, d in other["difference"].items():
            lines.append(
                f"  {name:<12} {other['scores'][name]:7.2f}   ours {d['difference']:+.2f}, "
                f"95% within {d['low']:+.2f} and {d['high']:+.2f}, p = {d['p']:.3f}"
            )
    return "\n".join(lines)


def format_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Format rows, given as {column title: cell}, as a Markdown table."""
    titles = [*rows[0]]
    lines = [titles, *([row[title] for title in titles] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)
