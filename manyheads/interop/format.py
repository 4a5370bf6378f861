"""The base class of export formats: what it needs, how it writes and compares a model."""

from __future__ import annotations

import copy
import importlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from manyheads.codecs.text import Text
from manyheads.interop.parity import Parity, Runtime, compare
from manyheads.tasks.portable import Portable

EXTRA = "pip install 'manyheads[export]'"


class Exporter(ABC):
    """A format in which another library runs the model."""

    needs: tuple[str, ...] = ()  # libraries
    quantizes = False  # whether weights can be written in fewer bits

    @abstractmethod
    def write(self, model: Portable, folder: Path, quantization: str) -> None:
        """Write into an existing empty folder; refuse a model that the format cannot hold."""

    @abstractmethod
    def open(self, model: Portable, folder: Path) -> Runtime:
        """Load the written model with the library of the format."""

    def find_missing(self) -> str:
        """Return the first library that is not installed; empty if all are."""
        return next((name for name in self.needs if find_spec(name) is None), "")

    def export(self, model: Portable, folder: Path, quantization: str = "") -> None:
        """Write into a new or empty folder, completely or not at all, by a temporary folder."""
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            what = "is not empty" if folder.is_dir() else "is a file"
            raise ValueError(f"{folder} {what}; an export goes into a folder that is new or empty")
        beside = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        try:
            beside.mkdir(parents=True)
        except OSError as error:  # name the folder that the user gave
            raise OSError(error.errno, error.strerror, str(folder)) from None
        try:
            self.write(scale_outputs(model), beside, quantization)
            beside.replace(folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def compare(self, model: Portable, folder: Path, texts: Sequence[str]) -> Parity:
        return compare(self.open(model, folder), model.rows(texts))


@torch.no_grad()
def scale_outputs(model: Portable) -> Portable:
    """Return the model with the scale of its numbers in its last layer: no format has a place for
    it.
    """
    if (model.mean, model.spread) == (0, 1):
        return model
    network = copy.deepcopy(model.network)
    network.head.weight.mul_(model.spread)
    network.head.bias.mul_(model.spread).add_(model.mean)
    return replace(model, network=network)


def require(name: str) -> Any:
    """Import a library that only exports need."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        raise ValueError(f"an export needs {missing.name}; `{EXTRA}` brings it") from None


def save_codecs(codecs: Sequence[Text], folder: Path) -> None:
    """Save one tokenizer.json, or source.json and target.json if there are two, as a run does."""
    names = ["tokenizer.json"] if len(codecs) == 1 else ["source.json", "target.json"]
    for codec, name in zip(codecs, names, strict=True):
        codec.save(folder / name)
