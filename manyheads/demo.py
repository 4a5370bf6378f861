"""A first minute: a Transformer that learns to write words backwards, and what it looks at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from manyheads.inspect.drawing import AttentionMap
from manyheads.inspect.record import recording
from manyheads.model.networks import EncoderDecoder
from manyheads.tasks.task import evaluate, train
from manyheads.tasks.toys import REVERSAL, Rewriting
from manyheads.training.loop import Progress as Note
from manyheads.training.loop import Training

WORDS = ("attention", "manyheads", "lecture", "piano", "abc")
SHOWN = "manyheads"


def run(out: Path, steps: int) -> None:
    """Train, decode, draw."""
    out.mkdir(parents=True, exist_ok=True)
    console, task = Console(), replace(REVERSAL, longest=10)
    console.print("A Transformer learns to write words backwards; it has never seen a real word.\n")
    network = trained(task, steps, console)
    score = evaluate(task, network)["exact"]
    console.print(f"{score:.1%} of 256 new random words are written right.\n")
    console.print(answers(task, network))
    attention = look(task, network, SHOWN)
    console.print(
        f"\nWhile it writes (downwards), head {attention.sharpest()} looks at the word:\n"
    )
    console.print(attention.head(attention.sharpest()), highlight=False)
    picture = out / "attention.png"
    attention.save(picture)
    console.print(f"\nall heads: {picture}")


def trained(task: Rewriting, steps: int, console: Console) -> EncoderDecoder:
    columns = (
        TextColumn("step {task.completed:4.0f} of {task.total:.0f}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        line = bar.add_task("", total=steps, loss=float("nan"))
        quiet = not console.is_terminal

        def note(at: Note) -> None:
            bar.update(line, completed=at.step, loss=at.loss)
            if quiet and (at.step % 100 == 0 or at.step == steps):
                console.print(f"step {at.step} of {steps}  loss {at.loss:.3f}  {at.seconds:.0f} s")

        bar.disable = quiet
        training = Training(steps=steps, learning_rate=3e-3, warmup_steps=min(100, steps))
        network: Any = train(task, training, note=note)
    return network


def answers(task: Rewriting, network: EncoderDecoder) -> Table:
    table = Table("word", "written", "")
    for word, output in zip(WORDS, task.decode(network, task.batch(WORDS)), strict=True):
        right = output == task.rule(word)
        table.add_row(word, output, "[green]right[/]" if right else "[red]wrong[/]")
    return table


@torch.no_grad()
def look(task: Rewriting, network: EncoderDecoder, word: str) -> AttentionMap:
    """Where each letter that is written was read."""
    batch = task.batch([word])
    with recording(network) as seen:
        network(batch.source, batch.target)
    across = next(each for each in reversed(seen) if each.layer.endswith("cross_attention"))
    written = [*task.rule(word), "■"]
    return AttentionMap(across.weights[0], written, [*word, "■"], f"writing {word!r} backwards")
