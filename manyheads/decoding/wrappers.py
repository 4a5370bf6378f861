"""Steps around another step: beyond the context, fewer repetitions, no stop inside a beat.

B batch, T new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from manyheads.decoding.step import Step


class Moving:
    """Writes on past the `context` that a network was trained on.

    When one token more would not fit, the network forgets all it has read and reads the last
    `context // 2` tokens anew: half of the context lies behind every token at least, and one step
    in so many costs more than one token. What is read anew begins with a whole `beat` of tokens:
    a network may tell voices apart by their turn.
    """

    def __init__(self, make: Callable[[], Step], context: int, beat: int = 1):
        """`make` gives a step that has read nothing."""
        if context < 1:
            raise ValueError(f"a context has 1 token or more, got {context}")
        if beat > 1 and (context % beat or context < 2 * beat):
            raise ValueError(
                f"a context that moves by {beat} tokens has {2 * beat}, {3 * beat} or another "
                f"multiple of them, got {context}"
            )
        self.make, self.context, self.beat, self.step = make, context, beat, make()
        self.read: Tensor | None = None  # (B, tokens), what the step has read

    def __call__(self, ids: Tensor) -> Tensor:
        if ids.shape[1] > self.context:
            raise ValueError(
                f"a context of {self.context} tokens does not hold the {ids.shape[1]} that came"
            )
        new = ids
        self.read = ids if self.read is None else torch.cat([self.read, ids], 1)
        if self.read.shape[1] > self.context:
            self.step = self.make()
            spare = self.read.shape[1] - max(self.context // 2, ids.shape[1])
            new = self.read = self.read[:, spare // self.beat * self.beat :]
        return self.step(new)

    def select(self, rows: Tensor) -> None:
        self.step.select(rows)
        self.read = None if self.read is None else self.read[rows]

    def reorder(self, rows: Tensor) -> None:
        self.step.reorder(rows)
        self.read = None if self.read is None else self.read[rows]


class Repeats:
    """Tokens that were read or written cost more: their logits are divided by the penalty where
    they are over 0 and multiplied by it where they are under, before they are probabilities.

    `spared` are never dearer: the stop, where a text begins with the same sign.
    """

    def __init__(self, step: Step, penalty: float, spared: Sequence[int] = ()):
        if not penalty > 0:
            raise ValueError(
                f"a repetition penalty is over 0, and 1 changes nothing, got {penalty}"
            )
        self.step, self.penalty, self.spared = step, penalty, list(spared)
        self.met: Tensor | None = None  # (B, V)

    def __call__(self, ids: Tensor) -> Tensor:
        logits = self.step(ids)  # (B, V)
        if self.met is None:
            self.met = torch.zeros_like(logits, dtype=torch.bool)
        self.met.scatter_(1, ids, True)
        self.met[:, self.spared] = False
        dearer = torch.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return torch.where(self.met, dearer, logits)

    def select(self, rows: Tensor) -> None:
        self.step.select(rows)
        self.met = None if self.met is None else self.met[rows]

    def reorder(self, rows: Tensor) -> None:
        self.step.reorder(rows)
        self.met = None if self.met is None else self.met[rows]


class WholeBeats:
    """The stop comes only where a beat is whole: after 1, 5, 9, ... tokens for a beat of 4."""

    def __init__(self, step: Step, stop: int, beat: int):
        self.step, self.stop, self.beat = step, stop, beat
        self.read = 0  # tokens, from the sign that starts them or another beat's first on

    def __call__(self, ids: Tensor) -> Tensor:
        logits = self.step(ids)  # (B, V)
        self.read += ids.shape[1]
        if (self.read - 1) % self.beat:
            logits[:, self.stop] = -torch.inf
        return logits

    def select(self, rows: Tensor) -> None:
        self.step.select(rows)

    def reorder(self, rows: Tensor) -> None:
        self.step.reorder(rows)
