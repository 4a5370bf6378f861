"""The command of an encoder, and its options."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from manyheads.config.declare import setting
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import InspectTextOptions, refuse_unwritable


@dataclass(frozen=True)
class EmbedOptions(Options):
    """Make a vector for each text. The dot product of two vectors says how similar the texts are.

    Example: manyheads embed --model runs/mlm < sentences.txt > vectors.npy
    """

    texts: tuple[str, ...] = setting((), "Texts; without any, the lines of stdin.", argument="TEXT")
    out: Path | None = setting(None, "The .npy file to write. Without it: stdout.")
    pooling: str | None = setting(
        None, "mean or first: the mean of all tokens, or the first token."
    )
    plain: bool = setting(False, "Do not scale the vectors to length 1.")
    as_json: bool = setting(False, "Print one JSON list of numbers per line.", flag="--json")

    def __post_init__(self) -> None:
        if self.pooling not in (None, "mean", "first"):
            raise ValueError(f"--pooling is mean or first, got {self.pooling!r}")
        if self.out is not None:
            refuse_unwritable("--out", self.out)
        if self.out is None and not self.as_json and sys.stdout.isatty():
            raise ValueError("vectors are no text; `> vectors.npy`, --out vectors.npy or --json")


VERBS = {
    "embed": Verb(EmbedOptions, "manyheads.tasks.masked.commands:embed"),
    "inspect": Verb(InspectTextOptions, "manyheads.cli.inspect:inspect_text"),
}
