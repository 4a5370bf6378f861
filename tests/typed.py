"""A corpus of made-up pairs, and a run trained on it in a second, as a person types it."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from manyheads.cli.app import main

WORDS = {"ba": "one", "du": "two", "ki": "three", "lo": "four", "me": "five", "nu": "six"}
SETTINGS = [
    "codec.kind=word",
    "codec.size=40",
    "network.width=16",
    "network.heads=2",
    "network.depth=1",
    "network.ffn_width=32",
    "training.steps=20",
    "training.warmup_steps=4",
    "training.tokens_per_batch=64",
    "training.validate_every=10",
    "training.checkpoint_every=10",
    "training.log_every=5",
]
LONGER = [  # it comes to know its pairs by heart
    *SETTINGS,
    "network.width=32",
    "network.dropout=0",
    "training.steps=120",
    "training.tokens_per_batch=256",
    "training.learning_rate=0.01",
    "training.label_smoothing=0",
    "training.ema=0.9",
    "training.validate_every=120",
    "training.log_every=60",
]


class Done(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Done]
Refuses = Callable[..., None]
Files = tuple[Path, Path]


def texts(folder: Path, count: int = 60) -> tuple[Path, Path]:
    """Sentences of two words, no two alike up to 36, and the translation of each word."""
    names = list(WORDS)
    pairs = [(names[i % 6], names[i // 6 % 6], *names[: i // 36]) for i in range(count)]
    source, target = folder / "source.txt", folder / "target.txt"
    source.write_text("".join(f"{' '.join(pair)}\n" for pair in pairs), encoding="utf-8")
    target.write_text(
        "".join(f"{' '.join(WORDS[word] for word in pair)}\n" for pair in pairs), encoding="utf-8"
    )
    return source, target


def trained(folder: Path, *given: object, settings: list[str] = SETTINGS) -> Path:
    """A run in this folder."""
    before = sys.argv
    what = ["manyheads", "train", *map(str, given)]
    sys.argv = [*what, "--device", "cpu", "--out", str(folder), *settings]
    with pytest.raises(SystemExit) as ended:
        main()
    sys.argv = before
    assert ended.value.code == 0
    return folder


@cache
def learned(base: Path) -> Path:
    """The one run that all tests ask and none may change; its texts are beside it."""
    folder = base / "learned"
    folder.mkdir()
    source, target = texts(folder)
    given = ("translation", "--source", source, "--target", target)
    return trained(folder / "run", *given, settings=LONGER)
