"""The demo: a trained model translates, then a small one is trained on screen."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from manyheads.catalog import BUILT_IN
from manyheads.cli.run_screen import Screen
from manyheads.learn import prepare_run, resume_run
from manyheads.models import load
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.settings import PairCodec, PairData, Seq2SeqRecipe
from manyheads.training.config import Training
from manyheads.training.run import Run

CORPUS = BUILT_IN / "tatoeba-short.tsv.gz"
BEAM = 5
LONG = ["Kannst du mir bitte sagen, wo der Bahnhof ist?", "Wenn es regnet, bleiben wir zu Hause."]
SHORT = [
    "Ich bin müde.",
    "Wo ist mein Buch?",
    "Er kommt heute nicht.",
    "Tom will nach Hause gehen.",
    "Was hast du heute gemacht?",
]
SHOWN = "Ich habe gestern ein neues Buch gekauft."

# Small enough for two cores and a minute.
NETWORK = TransformerConfig(width=128, depth=2, heads=4, ffn_width=256, dropout=0.1)
TRAINING = Training(
    steps=400,
    tokens_per_batch=1024,
    learning_rate=4e-3,
    schedule="linear",
    warmup_steps=50,
    label_smoothing=0.1,
    validate_every=100,
    checkpoint_every=400,
    log_every=5,
)


def run(out: Path, steps: int | None = None) -> None:
    """Translate with the built-in model, train a small one, compare them, and draw attention."""
    began, console = time.perf_counter(), Console(highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    model = load("de-en", "cpu")
    console.print("The built-in model de-en translates:\n")
    for source, target in zip(LONG, model.translate(LONG, beam=BEAM), strict=True):
        console.print(f"  [dim]{source}[/]\n  {target}\n")
    console.print("A small Transformer learns the same from nothing, on short sentences:\n")
    learned = train_small(find_free_folder(out), console, steps)
    console.print(side_by_side(model, learned))
    picture = out / "attention.png"
    attention = model.attention(SHOWN)
    attention.save(picture)
    console.print(
        f"\nWhile the built-in model writes (downwards), head {attention.sharpest()} of its last "
        "layer reads (across):\n"
    )
    console.print(attention.head(attention.sharpest()), soft_wrap=True)
    page = out / "attention.html"
    model.inspect(SHOWN).save(page)
    console.print(f"\nall heads: {picture}")
    console.print(f"the same to walk through, in a browser: {page}")
    console.print(f"the run: {learned.name}, with its recipe, samples and curves")
    console.print(f"{time.perf_counter() - began:.0f} s; on your own text: manyheads train --help")


def train_small(run: Run, console: Console, steps: int | None) -> Translator:
    training = TRAINING if steps is None else replace(TRAINING, steps=steps)
    recipe = Seq2SeqRecipe(
        "translation",
        PairData(pairs=CORPUS, held_out=200),
        codec=PairCodec(size=1500),
        network=NETWORK,
        training=training,
        layout="padded",
    )
    prepare_run(recipe, run)
    with Screen(console, shown=1) as screen:
        resume_run(run, callback=screen)
    learned = load(run.folder, "cpu")
    assert isinstance(learned, Translator)
    return learned


def side_by_side(model: Translator, learned: Translator) -> Table:
    table = Table("German", "built-in de-en", "learned just now")
    outputs = (one.translate(SHORT, beam=BEAM) for one in (model, learned))
    for row in zip(SHORT, *outputs, strict=True):
        table.add_row(*row)
    return table


def find_free_folder(out: Path) -> Run:
    """Return a run in a folder that does not exist yet: run, run-2, run-3"""
    number = 1
    while (folder := out / ("run" if number == 1 else f"run-{number}")).exists():
        number += 1
    return Run(folder)
