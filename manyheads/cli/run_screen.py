"""Show the progress of a run: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

from manyheads.tasks.task import Sample
from manyheads.training.trainer import Callback, StepLog

NARROW = 80  # columns; with fewer there is no room for the speed


class Screen(Callback, AbstractContextManager["Screen"]):
    """Prints the progress of a run for the user who started it."""

    def __init__(self, console: Console | None = None, shown: int = 2):
        self.console = console or Console(stderr=True)
        self.shown = shown
        terminal = self.console.is_terminal
        wide = self.console.width >= NARROW
        columns: list[ProgressColumn] = [
            TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(bar_width=24 if wide else 8),
            TextColumn("loss {task.fields[loss]}"),
            *([TextColumn("{task.fields[speed]}")] if wide else []),
            TextColumn("{task.fields[left]} left"),
        ]
        self.bar = Progress(*columns, console=self.console, disable=not terminal)
        self.line: Any = None

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def say(self, text: str, style: str = "") -> None:
        """Print the text as it is: no line breaks are added, and [this] or :that: is no markup."""
        self.console.print(
            text, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True
        )

    def on_start(self, step: int, steps: int) -> None:
        if self.line is None:
            shown: Any = dict.fromkeys(("loss", "speed", "left"), "…")
            self.line = self.bar.add_task("", total=steps, completed=step, **shown)
            self.bar.start()

    def on_log(self, note: StepLog) -> None:
        left = format_duration(note.seconds_left)
        speed = f"{note.tokens_per_second:,.0f} {note.unit}/s"
        shown: Any = {"loss": f"{note.loss:.3f}", "speed": speed, "left": left}
        if not self.console.is_terminal:
            total = f"{note.steps:,}"
            self.say(
                f"step {note.step:>{len(total)},} of {total}  epoch {note.epoch}  "
                f"loss {note.loss:.3f}  rate {note.rate:.2e}  "
                f"{speed}  {format_duration(note.seconds)}, {left} left"
            )
            return
        self.on_start(note.step, note.steps)
        self.bar.update(self.line, completed=note.step, **shown)

    def on_validate(self, step: int, scores: dict[str, float], samples: Sequence[Sample]) -> None:
        named = "  ".join(f"{name} {value:.2f}" for name, value in scores.items())
        self.say(f"step {step:,} validated: {named}", "bold")
        room = self.console.width - 14 if self.console.is_terminal else 100
        for sample in samples[: self.shown]:
            self.say(f"    read     {shorten_line(sample.source, room)}", "dim")
            self.say(f"    written  {shorten_line(sample.output, room)}")


def show_progress(first: bool) -> AbstractContextManager[Callback]:
    """Return a screen for the first process, and a silent callback for the others."""
    return Screen() if first else nullcontext(Callback())


def format_duration(seconds: float) -> str:
    """75 -> "1:15" """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def shorten_line(text: str, most: int) -> str:
    """Put a text on one line, cut to this many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"
