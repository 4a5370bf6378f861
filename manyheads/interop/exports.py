"""What every export keeps to: a folder of its own, written whole, and checked against ours."""

from __future__ import annotations

import importlib
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.codecs.text import Text

EXTRA = "pip install 'manyheads[export]'"


class Parity(NamedTuple):
    """How far an export is from the network it was made of."""

    largest: float  # difference between two log-probabilities of one token
    different: int  # texts of which greedy decoding wrote other tokens
    texts: int
    by: str = ""  # by what it was found, where not by what it was written for


def worst(differences: Iterable[float]) -> float:
    """The largest; NaN where one of them is, which is larger than nothing and so passed over."""
    each = list(differences)
    return next((one for one in each if math.isnan(one)), max(each))


def needed(name: str) -> Any:
    """A library that only exports need."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        raise ValueError(f"an export needs {missing.name}; `{EXTRA}` brings it") from None


def new_or_empty(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what = "is not empty" if folder.is_dir() else "is a file"
        raise ValueError(f"{folder} {what}; an export goes into a folder that is new or empty")


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder beside this one to write to, moved here once all of it is there."""
    new_or_empty(folder)
    beside = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
    except OSError as error:  # by the name that was asked for
        raise OSError(error.errno, error.strerror, str(folder)) from None
    try:
        yield beside
        beside.replace(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def save_codecs(codecs: Sequence[Text], folder: Path) -> None:
    """One tokenizer.json, or source.json and target.json where they are two: as a run has them."""
    source, target = codecs[0], codecs[-1]
    if source is target:
        source.save(folder / "tokenizer.json")
    else:
        source.save(folder / "source.json")
        target.save(folder / "target.json")
