"""Steps that wrap another step: beyond the context, fewer repetitions, no stop inside a beat.

B batch, T new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from manyheads.decoding.step import RewindableStep, check_length


class Wrapped:
    """Wrap a step; `change` may edit its logits, given the tokens read so far."""

    def __init__(self, step: RewindableStep):
        self.step = step
        self.ids: Tensor | None = None  # (B, tokens), all tokens read

    @property
    def alike(self) -> bool:
        """Whether a token gets bitwise equal logits if it is read alone or with others."""
        return getattr(self.step, "alike", False)

    def change(self, logits: Tensor, ids: Tensor) -> Tensor:
        """Return changed logits (B, V), given all tokens read (B, T); it may write in place."""
        return logits

    def __call__(self, ids: Tensor) -> Tensor:
        logits = self.step(ids)
        return self.change(logits, self.remember(ids))

    def read(self, ids: Tensor) -> Tensor:
        """Read new tokens (B, T); return the logits after each of them (B, T, V)."""
        logits, known = self.step.read(ids), self.remember(ids)
        before = known.shape[1] - ids.shape[1] + 1
        each = [self.change(logits[:, t], known[:, : before + t]) for t in range(ids.shape[1])]
        return torch.stack(each, 1)

    def remember(self, ids: Tensor) -> Tensor:
        self.ids = ids if self.ids is None else torch.cat([self.ids, ids], 1)
        return self.ids

    def crop(self, length: int) -> None:
        """Go back to the first `length` tokens, as if the others had never been read."""
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
    """Generate beyond the `context` that a network was trained on.

    When one more token would not fit, the cache is emptied and the last `context // 2` tokens are
    read again: every token sees at least half of the context, and only one step in that many reads
    more than one token. The new window begins with a whole `beat` of tokens, since a network may
    tell voices apart by their turn.
    """

    def __init__(self, make: Callable[[], RewindableStep], context: int, beat: int = 1):
        """`make` returns a step that has read nothing."""
        if context < 1:
            raise ValueError(f"a context has 1 token or more, got {context}")
        if beat > 1 and (context % beat or context < 2 * beat):
            raise ValueError(
                f"a context that moves by {beat} tokens has {2 * beat}, {3 * beat} or another "
                f"multiple of them, got {context}"
            )
        super().__init__(make())
        self.make, self.context, self.beat = make, context, beat
        # (number of tokens from which a window is used, its first token); the last one is in use.
        self.windows = [(0, 0)]

    def __call__(self, ids: Tensor) -> Tensor:
        return self.read(ids)[:, -1]

    def read(self, ids: Tensor) -> Tensor:
        """Return the logits after each token (B, T, V), as if they were read one by one."""
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
        """Go back to the window that was in use at that length."""
        windows = [window for window in self.windows if window[0] <= length]
        first = windows[-1][1]
        if len(windows) == len(self.windows):
            self.step.crop(length - first)
            return
        self.windows, self.step = windows, self.make()
        if self.ids is not None and length > first:
            self.step.read(self.ids[:, first:length])


class Repeats(Wrapped):
    """Repetition penalty: for tokens already read or written, divide logits above 0 by the penalty
    and multiply those below 0 by it.

    `spared` tokens are not penalized: the stop, if texts begin with the same token.
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
    """Allow the stop only after whole beats: after 1, 5, 9, ... tokens for a beat of 4."""

    def __init__(self, step: RewindableStep, stop: int, beat: int):
        super().__init__(step)
        self.stop, self.beat = stop, beat

    def change(self, logits: Tensor, ids: Tensor) -> Tensor:
        if (ids.shape[1] - 1) % self.beat:
            logits[:, self.stop] = -torch.inf
        return logits
