"""The result of a metric: a value, its signature, and the counts of each example.

Every metric is a function of outputs and references; output i is compared with reference i, which
may be one text or several. Since the counts of examples add up, the value of some examples, or of
resampled ones, can be computed without measuring again.

N examples, K counts of an example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Reference = str | Sequence[str]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """A measured value; two values can be compared only if their signatures are equal."""

    signature: str
    counts: Numbers = field(repr=False)  # (N, K)
    finish: Callable[[Numbers], float] = field(repr=False)  # sums of counts (K) to the value

    @property
    def value(self) -> float:
        return self.over(np.ones(len(self.counts)))

    def over(self, times: Numbers) -> float:
        """Return the value if example i occurred times[i] times."""
        return float(self.finish(times @ self.counts))

    def __str__(self) -> str:
        return f"{self.value:.2f} {self.signature}"


def percent(values: Sequence[float], signature: str) -> Measured:
    """The mean of values between 0 and 1, times 100."""
    counts = np.stack([np.asarray(values, dtype=np.float64), np.ones(len(values))], axis=1)
    return Measured(signature, counts, lambda sums: 100 * sums[0] / sums[1])


def best_of_references(
    agree: Callable[[str, str], float],
    outputs: Sequence[str],
    references: Sequence[Reference],
    signature: str,
) -> Measured:
    """The mean agreement in percent; of several references the best one counts.

    "ROUGE-L|nrefs:{}|f1" -> "ROUGE-L|nrefs:1|f1"
    """
    texts = list_references(outputs, references)
    values = [
        max(agree(one, text) for text in row) for one, row in zip(outputs, texts, strict=True)
    ]
    return percent(values, signature.format(how_many(references)))


def list_references(outputs: Sequence[str], references: Sequence[Reference]) -> list[list[str]]:
    """Return a list of references for each output; raise an error if inputs do not fit."""
    for name, texts in (("outputs", outputs), ("references", references)):
        if isinstance(texts, str):
            raise ValueError(f"{name} must be a list of texts, got one text; [text] would do")
    check_counts(outputs, references)
    for i, output in enumerate(outputs):
        if not isinstance(output, str):
            raise ValueError(f"output {i} must be a text, got a {type(output).__name__}")
    rows = [[one] if isinstance(one, str) else list(one) for one in references]
    for i, row in enumerate(rows):
        if not row or not all(isinstance(text, str) for text in row):
            raise ValueError(
                f"output {i} needs one text or several as its reference, got {references[i]!r}"
            )
    return rows


def check_counts(outputs: Sized, references: Sized) -> None:
    if len(outputs) != len(references):
        raise ValueError(
            f"{len(outputs)} outputs cannot be held against {len(references)} references; "
            "each output needs its own"
        )
    if not len(outputs):
        raise ValueError("nothing can be measured on 0 outputs; at least one is needed")


def f1(shared: float, ours: float, theirs: float) -> float:
    """Return the F1 of two sets of `ours` and `theirs` items, with `shared` in common."""
    return 2 * shared / (ours + theirs) if shared else 0.0


def how_many(references: Sequence[Reference]) -> str:
    """Return the number of references per output, as sacrebleu writes it in signatures."""
    counts = {1 if isinstance(one, str) else len(one) for one in references}
    return str(counts.pop()) if len(counts) == 1 else "var"
