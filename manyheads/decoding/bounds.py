"""Which tokens may be generated, when a sequence ends, and the finished sequence.

B batch, V vocabulary.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from manyheads.attention.positions import Learned
from manyheads.attention.rules import Every

UNLIKELY = -1e4  # log-probability of a forced token that the model gives -inf


class Hypothesis(NamedTuple):
    """One generated sequence and its log-probabilities."""

    ids: list[int]  # without the stop
    log_prob: float  # the sum of logs
    logs: list[float]  # the log-probability of each token, and of the stop if it was reached
    finished: bool  # ended by the stop, not by its maximum length

    @staticmethod
    def of(ids: list[int], logs: list[float], stops: Sequence[int]) -> Hypothesis:
        """[5, 6, 2] with 2 as a stop -> [5, 6], finished"""
        finished = bool(ids) and ids[-1] in stops
        return Hypothesis(ids[:-1] if finished else ids, math.fsum(logs), logs, finished)

    def normalised_score(self, length_penalty: float) -> float:
        """Score for ranking sequences of different lengths; the stop counts as a token."""
        return self.log_prob / max(len(self.logs), 1) ** length_penalty


@dataclass(frozen=True)
class Bounds:
    """A sequence ends with `stop`, or unfinished once it has `longest` tokens: the step that would
    tell whether the stop comes next is not run. Nothing here depends on the rest of the batch.

    Probabilities are not renormalized: a forced token keeps the model's log-probability.
    """

    # None if only the length ends a sequence, as in an image; a tuple if each of several ends it
    stop: int | tuple[int, ...] | None
    longest: int | Sequence[int]  # tokens, one for all or one per sequence
    shortest: int = 0  # tokens before the stop is allowed
    prefix: Sequence[Sequence[int]] = ()  # the tokens that each sequence must begin with
    never: tuple[int, ...] = ()  # tokens never generated: padding, the start
    forced: Mapping[int, int] = field(default_factory=dict)  # place -> its token, in all sequences
    forbidden: Mapping[int, Sequence[int]] = field(default_factory=dict)  # not at this place
    loop: int = 0  # end if the last `loop` tokens repeat with a period of a quarter of it or less

    def __post_init__(self) -> None:
        if not all(hasattr(tokens, "__len__") for tokens in self.prefix):
            raise ValueError(f"a prefix is a list for each sequence, [[3, 4]], got {self.prefix}")
        longest = [self.longest] if isinstance(self.longest, int) else list(self.longest)
        if (first := min([0, *self.forced, *self.forbidden])) < 0:
            raise ValueError(f"places of forced and forbidden tokens are 0 or more, got {first}")
        if min([*longest, self.shortest]) < 0:
            raise ValueError(
                f"longest and shortest count tokens, got {self.longest} and {self.shortest}"
            )
        if self.shortest > min(longest, default=self.shortest):
            raise ValueError(
                f"a sequence has at least {self.shortest} tokens and at most {min(longest)}; "
                "shortest may not be over longest"
            )
        for stop in self.stops:
            if stop in self.never:
                raise ValueError(f"{stop} is the stop and among what is never written")
            for row, tokens in enumerate(self.prefix):
                if stop in tokens:
                    raise ValueError(
                        f"the prefix of sequence {row} holds the stop {stop}; leave it out"
                    )

    @property
    def stops(self) -> tuple[int, ...]:
        """() without a stop, (2,) with one."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, int) else self.stop

    @cached_property
    def stop_set(self) -> frozenset[int]:
        return frozenset(self.stops)

    def limits(self, batch: int) -> list[int]:
        """Return the maximum length of each sequence of a batch."""
        limits = [self.longest] * batch if isinstance(self.longest, int) else [*self.longest]
        prefix = self.prefix or [()] * batch
        for what, given in (("longest", limits), ("prefix", prefix)):
            if len(given) != batch:
                raise ValueError(f"{what} is given for {len(given)} sequences, {batch} came")
        for row, (tokens, limit) in enumerate(zip(prefix, limits, strict=True)):
            if len(tokens) > limit:
                raise ValueError(
                    f"sequence {row} must begin with {len(tokens)} tokens and may have {limit}"
                )
        return limits

    def loops(self, ids: Sequence[int]) -> bool:
        """Whether these tokens end in a loop: [7, 5, 6, 5, 6, 5, 6, 5, 6] does, with loop=8."""
        tail = list(ids[len(ids) - self.loop :])
        periods = range(1, self.loop // 4 + 1 if len(ids) >= self.loop else 1)
        return any(tail[period:] == tail[:-period] for period in periods)

    def rule_out(self, logs: Tensor, written: int, rows: Sequence[int]) -> Tensor:
        """Set forbidden tokens to -inf, in place, for sequences that have `written` tokens.

        logs (B, V) are their log-probabilities, `rows` their numbers in the input.
        """
        if written == 0:
            self.check(logs.shape[1])
        early = () if written >= self.shortest else self.stops
        early = (*early, *self.forbidden.get(written, ()))
        forced = [
            (i, self.prefix[row][written])
            for i, row in enumerate(rows if self.prefix else ())
            if written < len(self.prefix[row])
        ]
        if written in self.forced:
            forced = [(i, self.forced[written]) for i in range(len(rows))]
        if not forced:
            return forbid(logs, (*self.never, *early))
        at, token = torch.tensor(forced, device=logs.device).T
        own = logs[at, token].clamp(min=UNLIKELY)
        forbid(logs, (*self.never, *early))[at] = -torch.inf
        logs[at, token] = own
        return logs

    def rule_out_line(self, logs: Tensor, written: int, row: int = 0) -> Tensor:
        """The same for consecutive tokens of one sequence, logs (T, V), the first at `written`."""
        if self.is_free(written):
            if not written:
                self.check(logs.shape[1])
            return forbid(logs, self.never)
        for i in range(len(logs)):
            self.rule_out(logs[i : i + 1], written + i, [row])
        return logs

    def is_free(self, written: int) -> bool:
        """Whether the same tokens are allowed at all places from `written` on, in all sequences."""
        placed = self.forced or self.forbidden or any(self.prefix)
        return written >= self.shortest and not placed

    def check(self, vocabulary: int) -> None:
        named = {"stop": self.stops, "never": self.never}
        named |= {f"place {at}": (one,) for at, one in self.forced.items()}
        named |= {f"place {at}": (*some,) for at, some in self.forbidden.items()}
        named |= {f"the prefix of sequence {row}": (*ids,) for row, ids in enumerate(self.prefix)}
        for what, tokens in named.items():
            for token in tokens:
                if not 0 <= token < vocabulary:
                    raise ValueError(
                        f"{what} names token {token}; they are numbered 0 to {vocabulary - 1}"
                    )


def forbid(logs: Tensor, tokens: Sequence[int]) -> Tensor:
    for token in tokens:
        logs[:, token] = -torch.inf
    return logs


def check_start(start: Tensor) -> Tensor:
    """Return the start (B, T); raise an error if it has no token."""
    if start.dim() != 2 or not start.shape[1]:
        shape = " x ".join(map(str, start.shape))
        raise ValueError(
            f"writing goes on from one token or more a sequence, {shape} came; "
            "the sign that a sequence starts with would do"
        )
    return start


def fit_context(
    ids: Sequence[int], context: int, truncate: bool, what: str, beat: int = 1
) -> list[int]:
    """Return all tokens if they fit the context, otherwise the last whole beats that fit."""
    spare = max(0, len(ids) - context)
    if spare and not truncate:
        raise ValueError(
            f"the {what} has {len(ids)} tokens and the context {context}; shorten it, or "
            "read its end alone: --truncate, truncate=True"
        )
    return list(ids[-(-spare // beat) * beat :])


def nothing_left(row: int, written: int) -> ValueError:
    return ValueError(
        f"sequence {row} can write nothing after {written} tokens: "
        "each token is forbidden, or scored -inf or not a number"
    )


def find_room(side: nn.Module | None) -> int:
    """Return how many tokens a network can read or write: learned positions end, as do the relative
    ones that have an entry for every distance.
    """
    position = getattr(getattr(side, "stack", None), "position", None)
    rooms = [position.sizes[0]] if isinstance(position, Learned) else []
    rules = (getattr(part, "rule", None) for part in (side.modules() if side is not None else ()))
    rooms += [rule.length for rule in rules if isinstance(rule, Every)]
    return min(rooms, default=sys.maxsize)
