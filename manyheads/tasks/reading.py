"""From the files of a task to its examples: what is read, and what is to be written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.data.corpus import Filters
from manyheads.data.sources import Example, aligned, columns
from manyheads.tasks.kinds import KINDS, Kind


@dataclass(frozen=True)
class Data:
    """Where examples come from, and which are left out.

    Two files of lines, or one of pairs: .tsv with a tab between, .jsonl with an object a line.
    """

    source: Path | None = None
    target: Path | None = None
    valid_source: Path | None = None
    valid_target: Path | None = None
    pairs: Path | None = None
    valid_pairs: Path | None = None
    held_out: int = 500  # for validation, where no files for it are given; a tenth at most
    longest_tokens: int = 512
    filters: Filters | None = None  # those of the task, unless given
    capitals: float = 0.05  # of the pairs, drawn anew in each epoch, are learned in ALL CAPS
    imported: Path | None = None  # where a model came from that was not trained here

    def __post_init__(self) -> None:
        for names in (
            ("source", "target", "pairs"),
            ("valid_source", "valid_target", "valid_pairs"),
        ):
            self.check(*names)
        if not (self.pairs or self.source or self.imported):
            raise ValueError("nothing to learn from: give source and target, or pairs")
        if self.longest_tokens < 2:
            raise ValueError(f"longest_tokens is 2 or more, got {self.longest_tokens}")
        if self.held_out < 1:
            raise ValueError(f"held_out is 1 or more, got {self.held_out}")
        if not 0 <= self.capitals < 1:
            raise ValueError(f"capitals is a share of the pairs, 0 to 1, got {self.capitals}")

    def check(self, source: str, target: str, pairs: str) -> None:
        """Two files that belong together, or one that holds both; not half of either."""
        one, other, both = (getattr(self, name) is not None for name in (source, target, pairs))
        if one != other:
            here, missing = (source, target) if one else (target, source)
            raise ValueError(f"{here} was given without {missing}; they come together")
        if one and both:
            raise ValueError(
                f"{source} and {target} were given and {pairs} too; one of them is enough"
            )

    def train(self, kind: Kind) -> Iterator[Example]:
        return read(kind, self.source, self.target, self.pairs)

    def valid(self, kind: Kind) -> Iterator[Example]:
        return read(kind, self.valid_source, self.valid_target, self.valid_pairs)

    @property
    def validated(self) -> bool:
        return bool(self.valid_source or self.valid_pairs)


def read(
    kind: Kind, source: Path | None, target: Path | None, pairs: Path | None
) -> Iterator[Example]:
    """The examples of a task, from whichever files were given."""
    if pairs is None:
        yield from aligned(Path(source or ""), Path(target or ""))
    elif pairs.name.removesuffix(pairs.suffix).endswith(".tsv") or pairs.suffix == ".tsv":
        yield from columns(pairs)
    else:
        yield from KINDS[kind].records.examples(pairs)


def hold_out(examples: list[Example], count: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Some at random for validation, where none were given: the rest, and those."""
    count = min(count, len(examples) // 10)
    chosen = set(np.random.default_rng([seed, 1]).permutation(len(examples))[:count].tolist())
    return (
        [example for i, example in enumerate(examples) if i not in chosen],
        [example for i, example in enumerate(examples) if i in chosen],
    )
