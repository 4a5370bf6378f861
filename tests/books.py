"""A book, texts with labels, and runs that learn a little from them within a second."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from typed import trained

WORDS = ["the", "old", "dog", "cat", "sees", "runs", "sleeps", "and", "a", "small", "red", "near"]
SMALL = [
    "network.width=16",
    "network.heads=2",
    "network.depth=1",
    "network.ffn_width=32",
    "training.steps=6",
    "training.warmup_steps=2",
    "training.tokens_per_batch=128",
    "training.validate_every=3",
    "training.checkpoint_every=4",
    "training.log_every=2",
]
LANGUAGE = [*SMALL, "codec.kind=character", "data.context=32"]
MASKED = [*SMALL, "codec.kind=word", "data.context=32"]
JUDGING = [*SMALL, "codec.kind=word"]
BY_HEART = [  # it comes to tell the classes apart
    *JUDGING,
    "network.dropout=0",
    "training.steps=60",
    "training.learning_rate=0.02",
    "training.label_smoothing=0",
    "training.ema=0.5",
    "training.validate_every=60",
]


def book(folder: Path) -> Path:
    """Lines of a few words each."""
    chance = random.Random(0)
    lines = [" ".join(chance.choices(WORDS, k=chance.randint(4, 9))) for _ in range(80)]
    path = folder / "book.txt"
    path.write_text("".join(f"{line}.\n" for line in lines), encoding="utf-8")
    return path


def judged(folder: Path) -> Path:
    """Texts that are good where they hold a fine word, and poor where they hold a bad one."""
    chance = random.Random(0)
    rows = []
    for i in range(60):
        words = chance.choices(WORDS, k=4)
        words.insert(chance.randint(0, 4), "bad" if i % 2 else "fine")
        rows.append(f"{' '.join(words)}\t{'poor' if i % 2 else 'good'}\n")
    path = folder / "judged.tsv"
    path.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return path


def numbered(folder: Path) -> Path:
    """Texts, and how many words each has."""
    rows = [f"{' '.join(WORDS[: 2 + i % 7])}\t{2 + i % 7}\n" for i in range(30)]
    path = folder / "numbered.tsv"
    path.write_text("text\tscore\n" + "".join(rows), encoding="utf-8")
    return path


def tagged(folder: Path) -> Path:
    """Words with a tag each: whether they are long."""
    words = [WORDS[i : i + 4] for i in range(10)] * 2
    lines = ["".join(f"{w} {'LONG' if len(w) > 3 else 'O'}\n" for w in some) for some in words]
    path = folder / "tagged.conll"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


# The runs that all tests ask and none may change; what they learned from is beside them.


@cache
def language(base: Path) -> Path:
    folder = fresh(base / "language")
    return trained(folder / "run", "language", "--text", book(folder), settings=LANGUAGE)


@cache
def masked(base: Path) -> Path:
    folder = fresh(base / "masked")
    return trained(folder / "run", "masked", "--text", book(folder), settings=MASKED)


@cache
def classification(base: Path) -> Path:
    folder = fresh(base / "classification")
    given = ("classification", "--data", judged(folder))
    return trained(folder / "run", *given, settings=BY_HEART)


@cache
def regression(base: Path) -> Path:
    folder = fresh(base / "regression")
    return trained(folder / "run", "regression", "--data", numbered(folder), settings=JUDGING)


@cache
def labelling(base: Path) -> Path:
    folder = fresh(base / "labelling")
    return trained(folder / "run", "labelling", "--data", tagged(folder), settings=JUDGING)


def fresh(folder: Path) -> Path:
    folder.mkdir()
    return folder
