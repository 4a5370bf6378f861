"""Tokens guessed ahead and checked together: fewer passes, the same text.

A drafter guesses what comes next; one pass of the model says what it would have written after each
guess. One rule accepts: would the model have chosen the same token? Where two tokens are so close
that rounding might decide, which is not the same for one token and for several, the plain step of
one token is taken instead.

B rows, T new tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, check_start
from manyheads.decoding.config import Sampling
from manyheads.decoding.greedy import Over, Paper, choose_likeliest
from manyheads.decoding.sample import check_drawn, weigh_tokens
from manyheads.decoding.step import RewindableStep, to_log_probs

AHEAD = 4  # tokens that are guessed at most
# How far apart the first and the second must be for rounding not to decide: of log-probabilities,
# and of probabilities where tokens are drawn.
MARGINS = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.03}


class Drafter(Protocol):
    """Who guesses."""

    def start(self, source: Sequence[int]) -> None:
        """A new sequence, and what it is written from: a source, or a prompt."""

    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        """What may follow these tokens: as many as it is sure enough of, or none."""

    def tell(self, ids: Sequence[int], beyond: Sequence[int]) -> None:
        """What the sequence has come to, and what the model said after the first wrong guess."""


class DraftChoice(NamedTuple):
    """A token, its log-probability, and how near another one came."""

    token: int
    log: float
    margin: float


# Log-probabilities (V,) of the token after so many -> the choice.
Chooser = Callable[[Tensor, int], DraftChoice]


def choose_greedily(logs: Tensor, written: int) -> DraftChoice:
    first, *second = logs.topk(min(2, len(logs))).values.tolist()
    token = int(choose_likeliest(logs[None], [0]))  # of equal ones the same as without a draft
    return DraftChoice(token, float(logs[token]), first - second[0] if second else math.inf)


class Drawn:
    """By chance: the share of a place is the one that plain sampling draws there."""

    def __init__(self, how: Sampling, number: int):
        check_drawn(how)
        self.how, self.chance = how, Random(f"{how.seed} {number}")
        self.shares: list[float] = []

    def __call__(self, logs: Tensor, written: int) -> DraftChoice:
        while len(self.shares) <= written:
            self.shares.append(self.chance.random())
        weights = weigh_tokens(logs[None], self.how)[0].double()
        behind = weights.cumsum(0)
        left = (1 - self.shares[written]) * behind[-1]
        token = min(int(torch.searchsorted(behind, left)), len(weights) - 1)
        low, high = behind[token] - weights[token], behind[token]
        near = float(torch.minimum(left - low, high - left) / behind[-1])
        return DraftChoice(token, float(logs[token]), min(near, self.edge(logs)))

    def edge(self, logs: Tensor) -> float:
        """How near a token is to being let in or left out: then all that is drawn moves."""
        how, scaled = self.how, logs / self.how.temperature
        found = math.inf
        if 0 < how.top_k < len(logs):
            last, first = scaled.topk(how.top_k + 1).values[-2:].tolist()
            found = min(found, last - first)
        falling = scaled.softmax(-1).sort(descending=True).values
        if how.top_p < 1:
            found = min(found, float((falling.cumsum(0) - how.top_p).abs().min()))
        if how.min_p:
            found = min(found, float((falling / falling[0] - how.min_p).abs().min()))
        return found


class DraftCounts:
    """How a text was written: what `verify` and a bench tell."""

    def __init__(self) -> None:
        self.passes = self.tokens = 0
        self.margin = math.inf  # the smallest of a token that was taken from a pass of several


class DraftedWriting:
    """One sequence that is written as far at a time as its guesses are right."""

    def __init__(
        self,
        step: RewindableStep,
        bounds: Bounds,
        choose: Chooser,
        drafter: Drafter,
        *,
        over: Over | None = None,
        counts: DraftCounts | None = None,
    ):
        self.step, self.bounds, self.choose, self.drafter = step, bounds, choose, drafter
        self.over, self.counts = over, counts or DraftCounts()
        self.paper = Paper(bounds.limits(1)[0], bounds)
        self.unsure = False  # whether the next pass is of one token

    @torch.no_grad()
    def run(self, start: Tensor) -> Hypothesis:
        """Write on from `start` (1, T)."""
        paper, new, read = self.paper, check_start(start), 0
        while paper.going:
            guess = self.guess()
            ids = torch.cat([new, new.new_tensor([guess])], 1) if guess else new
            logits = self.step.read(ids)[0, new.shape[1] - 1 :]  # (1 + guesses, V)
            self.counts.passes += 1
            stay = read + self.keep(logits, guess) + new.shape[1]
            read += ids.shape[1]
            if paper.going and stay < read:
                self.step.crop(stay)
                read = stay
            new = start.new_tensor([paper.ids[-1:]])
        return paper.hypothesis()

    def guess(self) -> list[int]:
        ids, unsure = self.paper.ids, self.unsure
        self.unsure = False
        room = min(AHEAD, self.paper.limit - len(ids) - 1)
        if unsure or not ids or room < 1:
            return []
        return self.drafter.propose(ids, room)[:room]

    def keep(self, logits: Tensor, guess: list[int]) -> int:
        """Write what the model chooses after each right guess; how many guesses stay read: -1 where
        the token before them is to be read again, by itself.
        """
        for i in range(len(guess) + 1):
            choice = self.choose_next(logits[i])
            if guess and choice.margin <= MARGINS[logits.dtype]:
                self.unsure = True
                return i - 1
            if guess:
                self.counts.margin = min(self.counts.margin, choice.margin)
            self.write(choice)
            right = i < len(guess) and choice.token == guess[i]
            if not right or not self.paper.going:
                break
        self.drafter.tell(self.paper.ids, logits[i + 1 :].argmax(-1).tolist())
        return i

    def choose_next(self, logits: Tensor) -> DraftChoice:
        written = len(self.paper.ids)
        logs = self.bounds.rule_out(to_log_probs(logits[None].clone()), written, [0])
        return self.choose(logs[0], written)

    def write(self, choice: DraftChoice) -> None:
        self.paper.take(0, [choice.token], [choice.log])
        if self.paper.going and self.over is not None:
            self.paper.going = not self.over(0, choice.token)
        self.counts.tokens += 1


def write_drafted(
    step: RewindableStep,
    start: Tensor,
    bounds: Bounds,
    how: Sampling,
    drafter: Drafter,
    number: int = 0,
    over: Over | None = None,
) -> Hypothesis:
    """What `decode` writes from `start` (1, T) in fewer passes; the drafter has been started."""
    if len(start) != 1:
        raise ValueError(f"one sequence is drafted at a time, {len(start)} came")
    choose: Chooser = Drawn(how, number) if how.chosen == "sample" else choose_greedily
    return DraftedWriting(step, bounds, choose, drafter, over=over).run(start)
