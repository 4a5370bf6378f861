"""Steps around another step: beyond the context, fewer repetitions, no stop inside a beat.

B batch, T new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from manyheads.decoding.step import RewindableStep, check_length


class Wrapped:
    """Another step, whose logits may be changed by what was read so far."""

    def __init__(self, step: RewindableStep):
        self.step = step
        self.ids: Tensor | None = None  # (B, tokens), all that were read

    @property
    def alike(self) -> bool:
        """Whether a token is scored to the bit alike, by itself and among others."""
        return getattr(self.step, "alike", False)

    def change(self, logits: Tensor, ids: Tensor) -> Tensor:
        """Logits (B, V) of what follows these tokens (B, all that were read), to write over."""
        return logits

    def __call__(self, ids: Tensor) -> Tensor:
        logits = self.step(ids)
        return self.change(logits, self.remember(ids))

    def read(self, ids: Tensor) -> Tensor:
        """New tokens (B, T) -> logits of what follows each of them (B, T, V)."""
        logits, known = self.step.read(ids), self.remember(ids)
        before = known.shape[1] - ids.shape[1] + 1
        each = [self.change(logits[:, t], known[:, : before + t]) for t in range(ids.shape[1])]
        return torch.stack(each, 1)

    def remember(self, ids: Tensor) -> Tensor:
        self.ids = ids if self.ids is None else torch.cat([self.ids, ids], 1)
        return self.ids

    def crop(self, length: int) -> None:
        """Go back to the first `length` tokens, as if the rest had never been read."""
        check_length(length, 0 if self.ids is None else self.ids.shape[1])
        self.crop_step(length)
        self.ids = None if self.ids is None else self.ids[:, :length]

    def crop_step(self, length: int) -> None:
        self.step.crop(length)

    def select(self, rows: Tensor) -> None:
        self.step.select(rows)
        self.ids = None if self.ids is None else self.ids[rows]

    def reorder(self, rows: Tensor) -> None:
        self.step.reorder(rows)
        self.ids = None if self.ids is None else self.ids[rows]


class Moving(Wrapped):
    """Writes on past the `context` that a network was trained on.

    When one token more would not fit, the network forgets all it has read and reads the last
    `context // 2` tokens anew: half of the context lies behind every token at least, and one step
    in so many costs more than one token. What is read anew begins with a whole `beat` of tokens:
    a network may tell voices apart by their turn.
    """

    def __init__(self, make: Callable[[], RewindableStep], context: int, beat: int = 1):
        """`make` gives a step that has read nothing."""
        if context < 1:
            raise ValueError(f"a context has 1 token or more, got {context}")
        if beat > 1 and (context % beat or context < 2 * beat):
            raise ValueError(
                f"a context that moves by {beat} tokens has {2 * beat}, {3 * beat} or another "
                f"multiple of them, got {context}"
            )
        super().__init__(make())
        self.make, self.context, self.beat = make, context, beat
        # From how many tokens on, the first that the step has read of them; the last is in force.
        self.windows = [(0, 0)]

    def __call__(self, ids: Tensor) -> Tensor:
        return self.read(ids)[:, -1]

    def read(self, ids: Tensor) -> Tensor:
        """As if one by one: logits of what follows each (B, T, V)."""
        if ids.shape[1] > self.context:
            raise ValueError(
                f"a context of {self.context} tokens does not hold the {ids.shape[1]} that came"
            )
        known = self.remember(ids)
        found, total = [], known.shape[1]
        done = total - ids.shape[1]
        while done < total:
            first = self.windows[-1][1]
            if done - first < self.context:
                until = min(total, first + self.context)
                found.append(self.step.read(known[:, done:until]))
            else:
                until = done + 1
                first = (until - max(self.context // 2, 1)) // self.beat * self.beat
                self.windows.append((until, first))
                self.step = self.make()
                found.append(self.step.read(known[:, first:until])[:, -1:])
            done = until
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    def crop_step(self, length: int) -> None:
        """To the window that was in force then."""
        windows = [window for window in self.windows if window[0] <= length]
        first = windows[-1][1]
        if len(windows) == len(self.windows):
            self.step.crop(length - first)
            return
        self.windows, self.step = windows, self.make()
        if self.ids is not None and length > first:
            self.step.read(self.ids[:, first:length])


class Repeats(Wrapped):
    """Tokens that were read or written cost more: their logits are divided by the penalty where
    they are over 0 and multiplied by it where they are under, before they are probabilities.

    `spared` are never dearer: the stop, where a text begins with the same sign.
    """

    def __init__(self, step: RewindableStep, penalty: float, spared: Sequence[int] = ()):
        if not penalty > 0:
            raise ValueError(
                f"a repetition penalty is over 0, and 1 changes nothing, got {penalty}"
            )
        super().__init__(step)
        self.penalty, self.spared = penalty, list(spared)

    def change(self, logits: Tensor, ids: Tensor) -> Tensor:
        met = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, ids, True)
        met[:, self.spared] = False
        dearer = torch.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return torch.where(met, dearer, logits)


class WholeBeats(Wrapped):
    """The stop comes only where a beat is whole: after 1, 5, 9, ... tokens for a beat of 4."""

    def __init__(self, step: RewindableStep, stop: int, beat: int):
        super().__init__(step)
        self.stop, self.beat = stop, beat

    def change(self, logits: Tensor, ids: Tensor) -> Tensor:
        if (ids.shape[1] - 1) % self.beat:
            logits[:, self.stop] = -torch.inf
        return logits
