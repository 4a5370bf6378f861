"""What a run looks like while it runs: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

from manyheads.metrics.report import format_report
from manyheads.tasks.task import Sample
from manyheads.training.trainer import Callback, StepLog

T = TypeVar("T")

EVERY_SECONDS = 10.0  # between the lines of a log that tell how far it is
NARROW = 80  # columns; with fewer there is no room for the speed


class Screen(Callback):
    """Speaks to whoever started the run."""

    def __init__(self, console: Console | None = None, shown: int = 2):
        self.console = console or Console(stderr=True)
        self.shown = shown
        terminal = self.console.is_terminal
        self.bar = Progress(
            *columns(self.console.width), console=self.console, disable=not terminal
        )
        self.line: Any = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def say(self, text: str, style: str = "") -> None:
        """As it stands: a long line is a long line, and [this] or :that: is no command."""
        self.console.print(
            text, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True
        )

    def on_start(self, step: int, steps: int) -> None:
        self.start(step, steps, dict.fromkeys(("loss", "speed", "left"), "…"))

    def start(self, step: int, steps: int, shown: Any) -> None:
        if self.line is None:
            self.line = self.bar.add_task("", total=steps, completed=step, **shown)
            self.bar.start()

    def on_log(self, note: StepLog) -> None:
        left = span(note.seconds_left)
        speed = f"{note.tokens_per_second:,.0f} {note.unit}/s"
        shown: Any = {"loss": f"{note.loss:.3f}", "speed": speed, "left": left}
        if not self.console.is_terminal:
            total = f"{note.steps:,}"
            self.say(
                f"step {note.step:>{len(total)},} of {total}  epoch {note.epoch}  "
                f"loss {note.loss:.3f}  rate {note.rate:.2e}  "
                f"{speed}  {span(note.seconds)}, {left} left"
            )
            return
        self.start(note.step, note.steps, shown)
        self.bar.update(self.line, completed=note.step, **shown)

    def on_validate(self, step: int, scores: dict[str, float], samples: Sequence[Sample]) -> None:
        named = "  ".join(f"{name} {value:.2f}" for name, value in scores.items())
        self.say(f"step {step:,} validated: {named}", "bold")
        room = self.console.width - 14 if self.console.is_terminal else 100
        for sample in samples[: self.shown]:
            self.say(f"    read     {cut(sample.source, room)}", "dim")
            self.say(f"    written  {cut(sample.output, room)}")


@contextmanager
def watching(first: bool = True) -> Iterator[Callback]:
    """A screen for the process that talks, silence for the others."""
    if not first:
        yield Callback()
        return
    with Screen() as screen:
        yield screen


def columns(width: int) -> list[ProgressColumn]:
    """What stands in the bar's line."""
    speed = TextColumn("{task.fields[speed]}")
    return [
        TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
        BarColumn(bar_width=24 if width >= NARROW else 8),
        TextColumn("loss {task.fields[loss]}"),
        *([speed] if width >= NARROW else []),
        TextColumn("{task.fields[left]} left"),
    ]


def count_items(
    items: Iterable[T], total: int, what: str = "", done: str = "written"
) -> Iterator[T]:
    """The items, counted while they pass: by a bar on a terminal, in a log by a line now and then.

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
    """The same of what comes little by little: for whoever is told how much."""
    console = Console(stderr=True)
    called = f"{what} {done}" if what else done
    if not console.is_terminal:
        yield Lines(total, called).more
        return
    with bar_of(called, console) as bar:
        line = bar.add_task("", total=total)
        yield lambda more: bar.advance(line, more)


class Lines:
    """How far it is, on a line every ten seconds."""

    def __init__(self, total: float, called: str):
        self.total, self.called, self.come, self.told = total, called, 0.0, time.monotonic()

    def more(self, more: float) -> None:
        self.come += more
        if time.monotonic() - self.told >= EVERY_SECONDS:
            self.told = time.monotonic()
            print(f"{self.come:,.0f} of {self.total:,.0f} {self.called}", file=sys.stderr)


def print_report(
    report: Mapping[str, Any],
    as_json: bool,
    as_table: Callable[[Mapping[str, Any]], str] = format_report,
) -> None:
    """What was measured, for a person or for a program."""
    print(json.dumps(report, ensure_ascii=False, indent=2) if as_json else as_table(report))


def print_json(value: Any) -> None:
    """On a line, at once."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def bar_of(called: str, console: Console) -> Progress:
    return Progress(
        TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {called}"),
        BarColumn(bar_width=24),
        console=console,
        transient=True,
    )


def span(seconds: float) -> str:
    """75 -> "1:15" """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def cut(text: str, most: int) -> str:
    """On one line, and no more than so many characters of it."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"
