"""Labels of texts: the names of classes or tags, or the scale of numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.data.labelled import Labelled, Tagged
from manyheads.tasks.classification.settings import LabelKind
from manyheads.training.files import write_text

LABELS = "labels.json"

LabelledExample = Labelled | Tagged


@dataclass(frozen=True)
class Labels:
    """The sorted names of the classes; or, for numbers, their mean and standard deviation. `pairs`:
    whether a label may be of two texts.
    """

    names: tuple[str, ...] = ()
    mean: float = 0.0
    spread: float = 1.0
    pairs: bool = True

    @staticmethod
    def of(kind: LabelKind, examples: Sequence[LabelledExample], source: Path | str) -> Labels:
        """Collect the labels of the training examples."""
        check_examples(kind, examples)
        pairs = any(getattr(one, "second", "") for one in examples)
        if kind == "regression":
            values = np.array(
                [parse_number(one.tags[0], f"{source}:{one.line}") for one in examples]
            )
            if np.ptp(values) == 0:
                raise ValueError(
                    f"{source}: every text has the number {values[0]:g}; nothing can be learned "
                    "where nothing changes"
                )
            return Labels((), float(values.mean()), float(values.std()), pairs)
        names = {tag for one in examples for tag in one.tags}
        if len(names) < 2:
            raise ValueError(
                f"{source}: {', '.join(map(repr, names))} is the only label; two or more are needed"
            )
        return Labels(tuple(sorted(names)), pairs=pairs)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def number(self, label: str, where: str) -> int:
        """Return the number of the class with this name."""
        if label not in self.numbers:
            raise ValueError(
                f"{where}: label {label!r} was never seen in training; "
                f"there are {', '.join(self.names)}"
            )
        return self.numbers[label]

    def scale_number(self, label: str, where: str) -> float:
        """Scale a number for the network."""
        return (parse_number(label, where) - self.mean) / self.spread

    def value(self, scaled: float) -> float:
        """Scale an output of the network back to a number."""
        return scaled * self.spread + self.mean

    def save(self, path: Path) -> None:
        held: dict[str, Any] = {"mean": self.mean, "spread": self.spread}
        held = {**({"names": self.names} if self.names else held), "pairs": self.pairs}
        write_text(path, json.dumps(held, ensure_ascii=False, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Labels:
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            pairs = bool(held.get("pairs", True))
            if "names" in held:
                return Labels(tuple(str(name) for name in held["names"]), pairs=pairs)
            return Labels((), float(held["mean"]), float(held["spread"]), pairs)
        except FileNotFoundError:
            raise ValueError(f"there is no {path}: it says what the labels are") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{path} does not say what the labels are") from None


def parse_number(label: str, where: str) -> float:
    try:
        value = math.nan if "_" in label else float(label)  # Python reads 18_24 as 1824
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: a number was asked for, {label!r} is here")
    return value


def check_examples(kind: LabelKind, examples: Sequence[LabelledExample]) -> None:
    for one in examples:
        if isinstance(one, Tagged) != (kind == "labelling"):
            asked = "words with a tag each" if kind == "labelling" else "texts with one label each"
            raise ValueError(f"{kind} is learned from {asked}, a {type(one).__name__} arrived")
