"""From the files of a task to its examples: what is read, and what is to be written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.config.declare import check, setting
from manyheads.data.filters import Filters
from manyheads.data.sources import Example, aligned, columns, lines
from manyheads.tasks.seq2seq.kinds import KINDS, Kind


@dataclass(frozen=True)
class Data:
    """Where examples come from, and which are left out.

    Two files of lines, or one of pairs: .tsv with a tab between, .jsonl with an object a line.
    """

    source: Path | None = setting(None, "Texts to read, one a line.")
    target: Path | None = setting(None, "What is to be written for each.")
    valid_source: Path | None = setting(None, "Texts to read, for validation.")
    valid_target: Path | None = setting(None, "What is wanted for each of those.")
    pairs: Path | None = setting(None, "Both in one file, .tsv or .jsonl.")
    valid_pairs: Path | None = setting(None, "Both in one file, for validation.")
    held_out: int = setting(
        500, "Pairs to validate on, where no files for it are given; a tenth at most.", least=1
    )
    longest_tokens: int = setting(
        512, "Pairs with a longer side are not learned from.", least=2, most=10**7
    )
    filters: Filters | None = setting(None, "Which pairs are left out; null: as suits the task.")
    capitals: float = setting(
        0.05,
        "Share of the pairs, drawn anew in each epoch, that are learned in ALL CAPS.",
        least=0,
        most=1,
    )
    imported: Path | None = setting(None, "Where a model came from that was not trained here.")

    def __post_init__(self) -> None:
        check(self, self.misfits())

    def misfits(self) -> Iterator[str]:
        yield from self.halves("source", "target", "pairs")
        yield from self.halves("valid_source", "valid_target", "valid_pairs")
        if not (self.pairs or self.source or self.target or self.imported):
            yield "nothing to learn from: give source and target, or pairs"

    def halves(self, source: str, target: str, pairs: str) -> Iterator[str]:
        """Two files that belong together, or one that holds both; not half of either."""
        one, other, both = (getattr(self, name) is not None for name in (source, target, pairs))
        if one != other:
            here, missing = (source, target) if one else (target, source)
            yield f"{here} was given without {missing}; they come together"
        elif one and both:
            yield f"{source} and {target} were given and {pairs} too; one of them is enough"

    def train(self, kind: Kind) -> Iterator[Example]:
        return read(kind, self.source, self.target, self.pairs)

    def valid(self, kind: Kind) -> Iterator[Example]:
        return read(kind, self.valid_source, self.valid_target, self.valid_pairs)

    @property
    def validated(self) -> bool:
        return bool(self.valid_source or self.valid_pairs)


def columns_left(path: Path | None) -> Iterator[str]:
    """What a file of more than two columns is told with: its first line is looked at."""
    if path is None or not is_table(path):
        return
    count = next((line.count("\t") + 1 for line in lines(path)), 0)
    if count > 2:
        yield f"{path} has {count} columns: 1 is read, 2 is written, the rest is left"


def is_table(path: Path) -> bool:
    return ".tsv" in (path.suffix, Path(path.stem).suffix)


def read(
    kind: Kind, source: Path | None, target: Path | None, pairs: Path | None
) -> Iterator[Example]:
    """The examples of a task, from whichever files were given."""
    if pairs is None:
        yield from aligned(Path(source or ""), Path(target or ""))
    elif is_table(pairs):
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
