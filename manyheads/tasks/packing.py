"""Lossless compression with the probabilities of a model: the part that all tasks share.

Both directions compute the same numbers: with the same weights, batch size and kind of device, and
with one thread for each part. A checksum finds any difference.

B sequences in a batch, S symbols, V values of a symbol.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from manyheads.data.packed import PackedPart, read_packed
from manyheads.decoding.range_coding import RangeDecoder, RangeEncoder, count_symbols
from manyheads.devices import map_in_threads
from manyheads.tasks.model import Model
from manyheads.training.files import WEIGHTS

Made = TypeVar("Made")
AT_ONCE = 8  # more threads would wait for each other
Told = Callable[[float], None]  # is called with the amount of work done


class CodeSymbols(Protocol):
    """Encodes or decodes the next symbol of each sequence."""

    def __call__(self, logs: Tensor) -> Tensor:
        """Log-probabilities (B, V) -> symbols (B,)"""


class SymbolWriter:
    """Encodes known symbols (B, S), one place per call."""

    def __init__(self, symbols: Tensor):
        self.symbols, self.place, self.coder = symbols, 0, RangeEncoder()

    def __call__(self, logs: Tensor) -> Tensor:
        symbols = self.symbols[: len(logs), self.place]
        self.place += 1
        self.coder.encode(count_symbols(logs), symbols)
        return symbols


class SymbolReader:
    """Decodes symbols from bytes."""

    def __init__(self, data: bytes):
        self.coder = RangeDecoder(data)

    def __call__(self, logs: Tensor) -> Tensor:
        return self.coder.decode(count_symbols(logs)).to(logs.device)


def map_parts(
    model: Model,
    work: Callable[[int, Told], Made],
    numbers: Sequence[int],
    told: Told,
    at_once: int = AT_ONCE,
) -> list[Made]:
    """Return the work on each part, in order; on a CPU, up to `at_once` of them side by side.

    After an error or Ctrl-C, the other parts end when they next tell of their progress.
    """
    stopped = Event()

    def tell(more: float) -> None:
        if stopped.is_set():
            raise CancelledError
        told(more)

    workers = at_once if model.device.type == "cpu" else 1
    return map_in_threads(lambda number: work(number, tell), numbers, workers, stopped)


# ---- what must be equal in both directions ----------------------------------------------------


def describe_machine(model: Model) -> dict[str, Any]:
    """Return the header of a file: the model, device and torch version that compressed it."""
    weight = next(model.network.parameters())
    weights = (model.task.held_in() / WEIGHTS).read_bytes()
    return {
        "model": model.name,
        "weights": hashlib.sha256(weights).hexdigest(),
        "device": "cpu" if weight.is_cpu else torch.cuda.get_device_name(weight.device),
        "dtype": str(weight.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability() if weight.is_cpu else "",
    }


def open_packed(model: Model, path: Path) -> tuple[dict[str, Any], list[PackedPart]]:
    """Read the header and the parts of a file; refuse one that is not of this model and device."""
    head, parts = read_packed(path)
    here = describe_machine(model)
    if here["weights"] != head["weights"]:
        raise ValueError(
            f"this was compressed by another model, {head['model']}, and not by {model.name}: "
            "their weights differ"
        )
    for what in ("device", "dtype"):
        if here[what] != head[what]:
            raise ValueError(
                f"this was compressed with {what} {head[what]} and comes out with no other, "
                f"here it is {here[what]}"
            )
    return head, parts


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files; write none and raise if one would replace a file with other content."""
    for path, data in files.items():
        if path.exists() and (path.is_dir() or path.read_bytes() != data):
            raise ValueError(
                f"{path} is there already and holds something else; nothing is written, another "
                "folder would do"
            )
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def note_payoff(model: Model, saved: int, count: int, what: str) -> list[str]:
    """Say how many items save more bytes than the weights take, if `count` items save `saved`."""
    if saved <= 0:
        return []
    weights = (model.task.held_in() / WEIGHTS).stat().st_size
    enough = math.ceil(weights * count / saved)
    return [f"  from {enough:,} {what} on, the weights ({weights:,} bytes) are paid for"]


def explain_damage(head: dict[str, Any], what: str) -> str:
    here = torch.__version__, torch.backends.cpu.get_cpu_capability()
    there = head["torch"], head.get("instructions") or here[1]
    why = "the file is damaged"
    for name, ours, theirs in zip(("torch", "a CPU with"), here, there, strict=True):
        if ours != theirs:
            why += (
                f", or {name} {ours} computes otherwise than {name} {theirs}, which compressed it"
            )
    return f"{what} does not come out as it went in: {why}; nothing is written"
