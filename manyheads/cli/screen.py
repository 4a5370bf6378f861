"""Print the progress and the results of a command."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from manyheads.metrics.report import format_report

T = TypeVar("T")

EVERY_SECONDS = 10.0  # between two lines of progress in a log


def count_items(
    items: Iterable[T], total: int, what: str = "", done: str = "written"
) -> Iterator[T]:
    """Yield the items and show progress: a bar on a terminal, a line now and then in a log.

    "120 of 500 pieces written"
    """
    with count_amount(total, what, done) as told:
        for item in items:
            yield item
            told(1)


@contextmanager
def count_amount(
    total: float, what: str, done: str = "written"
) -> Iterator[Callable[[float], None]]:
    """Show progress of an amount: gives a function to call with each increase."""
    console = Console(stderr=True)
    called = f"{what} {done}" if what else done
    if not console.is_terminal:
        yield Lines(total, called).add
        return
    words = TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {called}")
    with Progress(words, BarColumn(bar_width=24), console=console, transient=True) as bar:
        line = bar.add_task("", total=total)
        yield lambda more: bar.advance(line, more)


class Lines:
    """Prints progress as a line every ten seconds."""

    def __init__(self, total: float, called: str):
        self.total, self.called, self.come, self.told = total, called, 0.0, time.monotonic()

    def add(self, more: float) -> None:
        self.come += more
        if time.monotonic() - self.told >= EVERY_SECONDS:
            self.told = time.monotonic()
            print(f"{self.come:,.0f} of {self.total:,.0f} {self.called}", file=sys.stderr)


def print_report(
    report: Mapping[str, Any],
    as_json: bool,
    as_table: Callable[[Mapping[str, Any]], str] = format_report,
) -> None:
    """Print what was measured, for a person or for a program."""
    print(json.dumps(report, ensure_ascii=False, indent=2) if as_json else as_table(report))


def print_picture(view: object, out: Path | None, save: Callable[[Path], object]) -> None:
    """Print a picture as text, and save it where a file was asked for."""
    print(view)
    if out is not None:
        save(out)
        print(f"\npicture: {out}")


def print_json(value: Any) -> None:
    """Print a value as one line of JSON, at once."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


@contextmanager
def tell_warnings() -> Iterator[None]:
    """Print each warning of the `with` block as one line."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in told:
        print(f"manyheads: {one.message}", file=sys.stderr)
