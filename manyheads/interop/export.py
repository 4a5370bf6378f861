"""Export models to other formats."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from manyheads.interop.ctranslate2 import CTranslate2
from manyheads.interop.format import Exporter
from manyheads.interop.huggingface.exporter import HuggingFace
from manyheads.interop.onnx import Onnx
from manyheads.interop.parity import Parity
from manyheads.tasks.portable import require_portable

GROUP = "manyheads.exporters"  # entry points for formats of other packages: name = "module:class"
EXPORTERS: dict[str, Exporter] = {
    "huggingface": HuggingFace(),
    "ctranslate2": CTranslate2(),
    "onnx": Onnx(),
}

# The default texts on which an export is compared.
TEXTS = (
    "A dog runs across the wet grass.",
    "Ein Hund rennt \u00fcber das nasse Gras.",
    "Where is the nearest station, please?",
    "Ich habe heute keine Zeit.",
    "The film was long, but we liked the ending.",
    "Tom sagte, dass er morgen kommt.",
    "It costs 3.50 at most.",
    "She gave him the book that he had asked for.",
)


def find_exporters() -> dict[str, Exporter]:
    """Return the exporters of this package and of installed ones."""
    beside = {point.name: point for point in entry_points(group=GROUP)}
    return {name: point.load()() for name, point in beside.items()} | EXPORTERS


def export(
    model: Any, to: str, folder: Path, texts: Sequence[str] = TEXTS, quantization: str = ""
) -> Parity:
    """Write the model in a format, run it there, and compare the outputs."""
    formats = find_exporters()
    if to not in formats:
        raise ValueError(f"there is no way to {to!r}; there are {', '.join(formats)}")
    if quantization and not formats[to].quantizes:
        able = " and ".join(name for name, each in formats.items() if each.quantizes)
        raise ValueError(f"--quantization is for {able}, {to} was asked for")
    described = require_portable(model)
    described.network.cpu().float()
    formats[to].export(described, folder, quantization)
    return formats[to].compare(described, folder, texts)
