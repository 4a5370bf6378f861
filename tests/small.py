"""A corpus of made-up pairs, and a run that learns a little from it within a second."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from designs import network_of

from manyheads.learn import open_task, prepare_run
from manyheads.tasks.seq2seq.settings import PairCodec, PairData, Seq2SeqRecipe
from manyheads.training.config import Training
from manyheads.training.distributed import World
from manyheads.training.run import METRICS, SAMPLES, WEIGHTS, Run
from manyheads.training.trainer import Callback, Trainer

SAME = (METRICS, SAMPLES, WEIGHTS)  # the files that do not know how often a run was stopped

WORDS = {"ba": "one", "du": "two", "ki": "three", "lo": "four", "me": "five", "nu": "six"}


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Sentences of two to seven words, and each word's translation in its place."""
    chance = random.Random(seed)
    sources = [chance.choices(list(WORDS), k=chance.randint(2, 7)) for _ in range(count)]
    return [(" ".join(source), " ".join(WORDS[word] for word in source)) for source in sources]


def recipe_in(
    folder: Path, layout: Any = "padded", network: Any = None, **training: Any
) -> Seq2SeqRecipe:
    """Two files of sentences in this folder, and what to learn from them."""
    folder.mkdir(parents=True, exist_ok=True)
    both = pairs(60)
    for name, side in (("source", 0), ("target", 1)):
        text = "".join(f"{pair[side]}\n" for pair in both)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    few: dict[str, Any] = {"steps": 40, "warmup_steps": 4, "tokens_per_batch": 64}
    often: dict[str, Any] = {"log_every": 3, "validate_every": 8, "checkpoint_every": 10}
    return Seq2SeqRecipe(
        "translation",
        PairData(folder / "source.txt", folder / "target.txt"),
        PairCodec("word", 40),
        network_of(
            **{
                "width": 16,
                "depth": 1,
                "heads": 2,
                "ffn_width": 32,
                "dropout": 0.1,
                **(network or {}),
            }
        ),
        Training(**{**few, **often, **training}),
        layout,
    )


def begun(recipe: Seq2SeqRecipe, folder: Path) -> Run:
    run = Run(folder)
    prepare_run(recipe, run)
    return run


def trainer_of(
    recipe: Seq2SeqRecipe, run: Run, world: World = World(), callback: Callback = Callback()
) -> Trainer:
    return Trainer(open_task(recipe, run), run, world, callback)


def copied(run: Run, folder: Path) -> Run:
    shutil.copytree(run.folder, folder)
    return Run(folder)


def contents(run: Run) -> dict[str, bytes]:
    """Every file of a run, by name."""
    files = sorted(path for path in run.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(run.folder)): path.read_bytes() for path in files}
