"""What a run looks like while it runs: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from manyheads.training.course import Note, Sample, Watch


class Screen(Watch):
    """Speaks to whoever started the run."""

    def __init__(self, console: Console | None = None, shown: int = 2):
        self.console = console or Console(stderr=True, highlight=False)
        self.shown = shown
        self.bar = Progress(
            TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(bar_width=24),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} tokens/s"),
            TextColumn("{task.fields[left]} left"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.line: Any = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.console.print(escape(text))

    def note(self, note: Note) -> None:
        left = span(note.seconds_left)
        shown: Any = {"loss": note.loss, "speed": note.tokens_per_second, "left": left}
        if not self.console.is_terminal:
            self.say(
                f"step {note.step:,} of {note.steps:,}  epoch {note.epoch}  loss {note.loss:.3f}  "
                f"rate {note.rate:.2e}  {note.tokens_per_second:,.0f} tokens/s  "
                f"{span(note.seconds)}, {left} left"
            )
            return
        if self.line is None:
            self.bar.start()
            self.line = self.bar.add_task("", total=note.steps, **shown)
        self.bar.update(self.line, completed=note.step, **shown)

    def validated(self, step: int, scores: dict[str, float], samples: Sequence[Sample]) -> None:
        named = "  ".join(f"{name} {value:.2f}" for name, value in scores.items())
        self.console.print(f"[bold]step {step:,}[/]  {named}")
        for sample in samples[: self.shown]:
            self.console.print(f"    [dim]{escape(cut(sample.source))}[/]")
            self.console.print(f"    {escape(cut(sample.output))}")


def span(seconds: float) -> str:
    """75 -> "1:15" """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def cut(text: str, most: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
