"""Tokens guessed ahead and checked together: fewer passes, the same text.

A drafter guesses what comes next; one pass of the model says what it would have written after each
guess. One rule accepts: would the model have chosen the same token? Several tokens at once are not
rounded as one by one. Where two tokens are so close that rounding might decide, what was read at
once is read again, one by one, as it is without a draft.

T new tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from random import Random
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, check_start
from manyheads.decoding.config import Sampling
from manyheads.decoding.greedy import Over, Paper, choose_likeliest
from manyheads.decoding.sample import check_drawn, pick, weigh_tokens
from manyheads.decoding.step import RewindableStep, to_log_probs
from manyheads.devices import send

AHEAD = 7  # tokens that are guessed at most
WORTH = 0.35  # tokens that are kept of a guess, for a pass of several to pay
RECENT = 0.2  # that the last guess counts among all before it
MOST_DRAFTED = 3  # sequences at most that a CPU writes sooner with guesses than together without
REST = 64  # tokens at most that are written without a guess, before another is tried
# How far apart the log-probabilities of the first and the second must be for rounding not to
# decide: some times what was seen between one token at a time and several.
MARGINS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 0.2, torch.float16: 0.03}
# Where scores move by that much, the border between two tokens moves by a quarter of it at most.
SHARES = 4


class DraftCounts:
    """How texts were written: what `verify` and a bench tell."""

    def __init__(self) -> None:
        self.passes = self.tokens = 0
        self.drafted = 0  # passes that had guesses in them
        self.unsure = 0  # tokens that were so near to others that they were read again
        self.margin = math.inf  # the smallest of a token that was taken from a pass of several


class DraftPace:
    """How often is guessed: rarely where little was kept lately, so that little is lost."""

    def __init__(self) -> None:
        self.kept = 1.0  # of a guess, of late
        self.resting, self.pause = 0, 1
        self.counts = DraftCounts()

    @property
    def ahead(self) -> int:
        """Tokens that are worth a guess each, where every one takes as long."""
        return 1 + round(1.5 * self.kept)

    def note(self, guessed: int, kept: int) -> None:
        if not guessed:
            self.resting -= 1
            return
        self.kept += RECENT * (max(0, kept) - self.kept)
        self.pause = 1 if self.kept >= WORTH else min(REST, 2 * self.pause)
        self.resting = self.pause if self.pause > 1 else 0


# Tokens; on the device (T,) where nobody has waited for them yet.
Guesses = list[int] | Tensor


class Draft(Protocol):
    """The guesses for one sequence."""

    def propose(self, ids: Sequence[int], most: int) -> Guesses:
        """What may follow these tokens: as many as it is sure enough of, or none."""

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        """What the sequence has come to, and what the model said after the first wrong guess;
        so many tokens of other sequences were read `after` its own."""


class Drafter(Protocol):
    """Who guesses."""

    pace: DraftPace  # over all sequences

    def start(self, source: Sequence[int]) -> Draft:
        """For a new sequence, and what it is written from: a source, or a prompt."""


class DraftChoices(NamedTuple):
    """Tokens, their log-probabilities, and how near another one came to each."""

    tokens: list[int]
    logs: list[float]
    margins: list[float]

    def part(self, begin: int, end: int) -> DraftChoices:
        return DraftChoices(self[0][begin:end], self[1][begin:end], self[2][begin:end])


# Log-probabilities (T, V) of the token after so many, after one more, ... -> the choices.
Chooser = Callable[[Tensor, int], DraftChoices]


def choose_greedily(logs: Tensor, written: int) -> DraftChoices:
    best = logs.topk(min(2, logs.shape[1]))
    tokens, values = best.indices[:, 0].tolist(), best.values.tolist()
    if len(logs) == 1 or logs.is_cuda:  # of equal ones the same as without a draft
        tokens = choose_likeliest(logs, [0]).tolist()
    margins = [first - second[0] if second else math.inf for first, *second in values]
    return DraftChoices(tokens, [first for first, *_ in values], margins)


class Drawn:
    """By chance: the share of a place is the one that plain sampling draws there."""

    def __init__(self, how: Sampling, number: int):
        check_drawn(how)
        self.how, self.chance = how, Random(f"{how.seed} {number}")
        self.shares: list[float] = []

    def __call__(self, logs: Tensor, written: int) -> DraftChoices:
        return self.choose(logs, self.draw(written, len(logs)))

    def draw(self, written: int, count: int) -> list[float]:
        """The shares of so many places after those that were written."""
        while len(self.shares) < written + count:
            self.shares.append(self.chance.random())
        return self.shares[written : written + count]

    def choose(self, logs: Tensor, shares: Sequence[float]) -> DraftChoices:
        weights = weigh_tokens(logs, self.how)
        tokens = pick(weights, shares)[:, None]
        behind = weights.double().cumsum(-1)
        whole, high = behind[:, -1], behind.gather(1, tokens)[:, 0]
        left = (1 - torch.tensor(shares, dtype=torch.double, device=logs.device)) * whole
        low = high - weights.gather(1, tokens)[:, 0]
        near = SHARES * torch.minimum(left - low, high - left) / whole
        margins = torch.minimum(near, self.find_edges(logs)).tolist()
        return DraftChoices(tokens[:, 0].tolist(), logs.gather(1, tokens)[:, 0].tolist(), margins)

    def find_edges(self, logs: Tensor) -> Tensor:
        """How near a token is to being let in or left out: then all that is drawn moves."""
        how, scaled = self.how, logs / self.how.temperature
        found = torch.full((len(logs),), math.inf, dtype=torch.double, device=logs.device)
        if 0 < how.top_k < logs.shape[1]:
            last, first = scaled.topk(how.top_k + 1).values[:, -2:].unbind(-1)
            found = torch.minimum(found, (last - first).double())
        if how.top_p < 1 or how.min_p:
            falling = scaled.softmax(-1).sort(descending=True).values.double()
        if how.top_p < 1:
            edge = (falling.cumsum(-1) - how.top_p).abs().amin(-1)
            found = torch.minimum(found, SHARES * edge)
        if how.min_p:
            edge = (falling / falling[:, :1] - how.min_p).abs().amin(-1)
            found = torch.minimum(found, edge / how.min_p)
        return found


class DraftedSequence:
    """What was written of one sequence: what is guessed for it, and what of that is kept."""

    def __init__(
        self,
        paper: Paper,
        drafter: Drafter,
        source: Sequence[int] = (),
        *,
        row: int = 0,
        over: Over | None = None,
        counts: DraftCounts | None = None,
    ):
        self.paper, self.row, self.over = paper, row, over
        self.draft, self.pace = drafter.start(source), drafter.pace
        self.counts = counts or drafter.pace.counts

    def guess(self, before: int) -> Guesses:
        """After a start of `before` tokens, and what was written."""
        ids = self.paper.ids
        room = min(AHEAD, self.paper.limit - len(ids) - 1)
        # A long start is read by itself, so that it need not be read again.
        if room < 1 or self.pace.resting > 0 or (not ids and before > 1):
            return []
        guess = self.draft.propose(ids, room)[:room]
        if isinstance(guess, Tensor):
            return guess
        # A stop that is guessed need not be read: the model says it itself, and nothing follows.
        return [*takewhile(lambda token: token not in self.paper.bounds.stop_set, guess)]

    def keep(
        self, choices: DraftChoices, guess: Sequence[int], bound: float | None, after: int = 0
    ) -> bool:
        """Write what the model chooses after each right guess; whether it was sure to the end.

        It is sure of margins over the `bound`, or, where that is None, of all.
        """
        paper, kept, sure = self.paper, 0, True
        for token, log, margin, guessed in zip(*choices, [*guess, None], strict=True):
            sure = bound is None or not margin <= bound
            if not sure:
                break
            if guess or bound is not None:
                self.counts.margin = min(self.counts.margin, margin)
            paper.take(self.row, [token], [log])
            kept += 1
            if paper.going and self.over is not None:
                paper.going = not self.over(self.row, token)
            if not paper.going or token != guessed:
                break
        self.counts.tokens += kept
        self.counts.drafted += bool(guess)
        self.pace.note(len(guess), kept - 1)
        self.draft.tell(paper.ids, choices.tokens[kept:], after)
        return sure


class DraftedWriting(DraftedSequence):
    """One sequence that is written as far at a time as its guesses are right."""

    def __init__(
        self,
        step: RewindableStep,
        bounds: Bounds,
        choose: Chooser,
        drafter: Drafter,
        source: Sequence[int] = (),
        *,
        over: Over | None = None,
        counts: DraftCounts | None = None,
    ):
        paper = Paper(bounds.limits(1)[0], bounds)
        super().__init__(paper, drafter, source, over=over, counts=counts)
        self.step, self.bounds, self.choose = step, bounds, choose
        self.read = self.exact = 0  # tokens that were read; of them those read as without a draft

    @torch.no_grad()
    def rounds(self, start: Tensor) -> Iterator[list[tuple[int, float]]]:
        """Write on from `start` (1, T): after each pass the tokens that are new, and their logs."""
        if len(start) != 1:
            raise ValueError(f"one sequence is drafted at a time, {len(start)} came")
        paper, before = self.paper, check_start(start).shape[1]
        while paper.going:
            had = len(paper.ids)
            guess = self.guess(before)
            ids = self.list_unread(start, guess)
            if not self.take(self.pass_over(ids, len(guess)), guess):
                self.take(self.read_exactly(start), [])
            elif paper.going:
                self.rewind(before + len(paper.ids) - 1)
            yield [*zip(paper.ids[had:], paper.logs[had:], strict=True)]

    def list_unread(self, start: Tensor, guess: Guesses) -> Tensor:
        """What was not read yet, and the guesses (1, T)."""
        told, parts = max(0, self.read - start.shape[1]), [start[:, self.read :]]
        new = [*self.paper.ids[told:], *(() if isinstance(guess, Tensor) else guess)]
        if new:
            parts.append(send(torch.tensor([new]), start.device))
        if isinstance(guess, Tensor):
            parts.append(send(guess[None], start.device))
        return torch.cat(parts, 1) if len(parts) > 1 else start[:, self.read :]

    def pass_over(self, ids: Tensor, guessed: int) -> Tensor:
        """One pass over new tokens (1, T) -> logits of what follows the last but guesses, and each
        of them (1 + guessed, V)."""
        logits = self.step.read(ids)[0, -guessed - 1 :]
        exact = self.read == self.exact and not guessed and (ids.shape[1] == 1 or not self.read)
        self.read += ids.shape[1]
        alike = getattr(self.step, "alike", False)  # then it is no matter how many come at once
        self.exact = self.read if exact or alike else self.exact
        self.counts.passes += 1
        return logits

    def read_exactly(self, start: Tensor) -> Tensor:
        """All that was read at once again, one by one -> logits of what follows (1, V)."""
        self.counts.unsure += 1
        self.rewind(self.exact)
        ids = torch.cat([start, start.new_tensor([self.paper.ids])], 1)
        if not self.read:
            logits = self.pass_over(start, 0)
        while self.read < ids.shape[1]:
            logits = self.pass_over(ids[:, self.read : self.read + 1], 0)
        return logits

    def rewind(self, length: int) -> None:
        """To so many tokens, or to none: one state goes back no farther than its last pass."""
        if length >= self.read:
            return
        try:
            self.step.crop(length)
        except ValueError:
            length = 0
            self.step.crop(length)
        self.read, self.exact = length, min(length, self.exact)

    def take(self, logits: Tensor, guess: Guesses) -> bool:
        """Write what the model chooses after each right guess; whether it was sure to the end."""
        had, exact = len(self.paper.ids), self.read == self.exact
        logs = self.bounds.rule_out_line(to_log_probs(logits.contiguous()), had)
        guess = guess.tolist() if isinstance(guess, Tensor) else guess
        return self.keep(self.choose(logs, had), guess, None if exact else MARGINS[logits.dtype])


def write_drafted(
    step: RewindableStep,
    start: Tensor,
    bounds: Bounds,
    how: Sampling,
    drafter: Drafter,
    source: Sequence[int] = (),
    number: int = 0,
    over: Over | None = None,
    counts: DraftCounts | None = None,
) -> Hypothesis:
    """What `decode` writes from `start` (1, T), in fewer passes."""
    choose = choose_as(how, number)
    writing = DraftedWriting(step, bounds, choose, drafter, source, over=over, counts=counts)
    for _ in writing.rounds(start):
        pass
    return writing.paper.hypothesis()


def choose_as(how: Sampling, number: int) -> Chooser:
    return Drawn(how, number) if how.chosen == "sample" else choose_greedily
