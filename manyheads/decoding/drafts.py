"""Speculative decoding: guess tokens ahead and check them in one pass, for the same text.

A drafter guesses the next tokens; one pass of the model tells which token it would choose after
each guess, and a guess is accepted if it is that token. A pass of several tokens rounds differently
than passes of one. If two tokens are so close that rounding might decide, the tokens are read again
one by one, as without a draft.

T new tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import takewhile
from random import Random
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, check_start
from manyheads.decoding.config import Sampling
from manyheads.decoding.greedy import Over, Paper, choose_likeliest
from manyheads.decoding.sample import as_keys, check_drawn, draw_key, make_noise, weigh_tokens
from manyheads.decoding.step import RewindableStep, to_log_probs
from manyheads.devices import send

AHEAD = 7  # the most tokens that are guessed
WORTH = 0.35  # tokens kept per guess, on average, for a pass of several tokens to pay off
RECENT = 0.2  # weight of the last guess in the running average
MOST_DRAFTED = 3  # up to this many sequences, a CPU is faster with guesses than with a batch
REST = 64  # the most tokens that are written without a guess before the next try
# The difference of the best two log-probabilities above which rounding cannot decide: some times
# the largest difference seen between reading tokens one by one and several at once.
MARGINS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 0.2, torch.float16: 0.03}
# If scores move by a margin, a sum of probabilities moves by at most a quarter of it.
SHARES = 4


class DraftCounts:
    """Statistics of speculative decoding, for `verify` and benchmarks."""

    def __init__(self) -> None:
        self.passes = self.tokens = 0
        self.drafted = 0  # passes with guesses
        self.unsure = 0  # tokens that were read again because of a near tie
        self.margin = math.inf  # the smallest margin of a token taken from a pass of several


class DraftPace:
    """Decide how often to guess: rarely if few recent guesses were right."""

    def __init__(self) -> None:
        self.kept = 1.0  # running average of tokens kept per guess
        self.resting, self.pause = 0, 1
        self.counts = DraftCounts()

    @property
    def ahead(self) -> int:
        """How many tokens are worth guessing, if each guess takes the same time."""
        return 1 + round(1.5 * self.kept)

    def note(self, guessed: int, kept: int) -> None:
        if not guessed:
            self.resting -= 1
            return
        self.kept += RECENT * (max(0, kept) - self.kept)
        self.pause = 1 if self.kept >= WORTH else min(REST, 2 * self.pause)
        self.resting = self.pause if self.pause > 1 else 0


# Tokens; or a tensor (T,), still on the device if the host has not waited for it.
Guesses = list[int] | Tensor


class Draft(Protocol):
    """The guesses for one sequence."""

    def propose(self, ids: Sequence[int], most: int) -> Guesses:
        """Guess the tokens after `ids`: as many as it is sure enough of, or none."""

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        """Tell the sequence so far, and what the model predicted `beyond` the first wrong guess;
        `after` counts the tokens of other sequences that the pass read after its own."""


class Drafter(Protocol):
    """Makes a draft for each sequence."""

    pace: DraftPace  # shared by all sequences

    def start(self, source: Sequence[int]) -> Draft:
        """Begin a new sequence, which is written from a source or a prompt."""


class DraftChoices(NamedTuple):
    """The chosen tokens, their log-probabilities, and the margin to the next best choice."""

    tokens: list[int]
    logs: list[float]
    margins: list[float]

    def part(self, begin: int, end: int) -> DraftChoices:
        return DraftChoices(self[0][begin:end], self[1][begin:end], self[2][begin:end])


# Log-probabilities (T, V) of consecutive tokens, and the place of the first -> the choices.
Chooser = Callable[[Tensor, int], DraftChoices]


def choose_greedily(logs: Tensor, written: int) -> DraftChoices:
    best = logs.topk(min(2, logs.shape[1]))
    tokens, values = best.indices[:, 0].tolist(), best.values.tolist()
    if len(logs) == 1 or logs.is_cuda:  # break ties as without a draft
        tokens = choose_likeliest(logs, [0]).tolist()
    margins = [first - second[0] if second else math.inf for first, *second in values]
    return DraftChoices(tokens, [first for first, *_ in values], margins)


class Drawn:
    """Sample with the same key at each place as without a draft."""

    def __init__(self, how: Sampling, number: int):
        check_drawn(how)
        self.how, self.chance = how, Random(f"{how.seed} {number}")
        self.keys: list[int] = []

    def __call__(self, logs: Tensor, written: int) -> DraftChoices:
        return self.choose(logs, self.draw(written, len(logs)))

    def draw(self, written: int, count: int) -> list[int]:
        """Return the keys of the next `count` places."""
        while len(self.keys) < written + count:
            self.keys.append(draw_key(self.chance))
        return self.keys[written : written + count]

    def choose(self, logs: Tensor, places: Sequence[int]) -> DraftChoices:
        weights = weigh_tokens(logs, self.how)
        noise = make_noise(as_keys(places, logs.device), logs.shape[1])
        tokens = (weights / noise).argmax(-1, keepdim=True)  # as `pick` does
        scaled = logs / self.how.temperature
        race = scaled - noise.log()
        behind = race.gather(1, tokens) - race
        if limits := self.find_limits(scaled):
            apart = reduce(torch.minimum, limits)
            # A token that is left out wins only if it is let in; the winner may be left out.
            behind = torch.where(weights > 0, behind, torch.maximum(behind, apart))
            behind.scatter_(1, tokens, apart.gather(1, tokens))
        else:
            behind.scatter_(1, tokens, math.inf)
        margins = self.how.temperature * behind.amin(-1)
        logs = logs.gather(1, tokens)[:, 0]
        return DraftChoices(tokens[:, 0].tolist(), logs.tolist(), margins.tolist())

    def find_limits(self, scaled: Tensor) -> list[Tensor]:
        """Return how far scores move before a token is let in or left out (B, V), for each reason:
        it changes places with another, the sum of top_p is reached or missed, or min_p is."""
        how, found = self.how, list[Tensor]()
        if how.top_k or how.top_p < 1:
            whole = weigh_tokens(scaled, Sampling(top_k=how.top_k))
            weights = weigh_tokens(scaled, Sampling(top_k=how.top_k, top_p=how.top_p))
            kept = weights > 0
            last = scaled.masked_fill(~kept, math.inf).amin(-1, keepdim=True)
            best = scaled.masked_fill(kept, -math.inf).amax(-1, keepdim=True)  # of those left out
            found.append(torch.where(kept, scaled - best, last - scaled))
            # A token is left out if the others that are kept suffice, and let in if all do not.
            share = weights.sum(-1, keepdim=True)
            spare = torch.where(kept, how.top_p - share + whole, share - how.top_p)
            if how.top_p < 1:
                found.append(SHARES * spare)
        if how.min_p:
            found.append((scaled - scaled.amax(-1, keepdim=True) - math.log(how.min_p)).abs())
        return found


class DraftedSequence:
    """One sequence of speculative decoding: guess its next tokens and keep the right ones."""

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
        """Guess the next tokens; the start has `before` tokens."""
        ids = self.paper.ids
        room = min(AHEAD, self.paper.limit - len(ids) - 1)
        # A long start is read without guesses, so that it need not be read again.
        if room < 1 or self.pace.resting > 0 or (not ids and before > 1):
            return []
        guess = self.draft.propose(ids, room)[:room]
        if isinstance(guess, Tensor):
            return guess
        # A guessed stop need not be read: the model chooses it itself, and nothing follows.
        return [*takewhile(lambda token: token not in self.paper.bounds.stop_set, guess)]

    def keep(
        self, choices: DraftChoices, guess: Sequence[int], bound: float | None, after: int = 0
    ) -> bool:
        """Append the model's choice after each right guess; return False if a choice was not sure.

        A choice is sure if its margin is above `bound`, or if that is None.
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
    """Generate one sequence, in each pass as far as its guesses are right."""

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
        self.read = self.exact = 0  # tokens read; how many of them as without a draft

    @torch.no_grad()
    def rounds(self, start: Tensor) -> Iterator[list[tuple[int, float]]]:
        """Continue `start` (1, T); yield after each pass the new tokens and log-probabilities."""
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
        """Return the tokens that are not read yet, followed by the guesses (1, T)."""
        told, parts = max(0, self.read - start.shape[1]), [start[:, self.read :]]
        new = [*self.paper.ids[told:], *(() if isinstance(guess, Tensor) else guess)]
        if new:
            parts.append(send(torch.tensor([new]), start.device))
        if isinstance(guess, Tensor):
            parts.append(send(guess[None], start.device))
        return torch.cat(parts, 1) if len(parts) > 1 else start[:, self.read :]

    def pass_over(self, ids: Tensor, guessed: int) -> Tensor:
        """Read new tokens (1, T), the last `guessed` of them guesses; return the logits after the
        last certain token and after each guess (1 + guessed, V)."""
        logits = self.step.read(ids)[0, -guessed - 1 :]
        exact = self.read == self.exact and not guessed and (ids.shape[1] == 1 or not self.read)
        self.read += ids.shape[1]
        alike = getattr(self.step, "alike", False)  # then any number of tokens may come at once
        self.exact = self.read if exact or alike else self.exact
        self.counts.passes += 1
        return logits

    def read_exactly(self, start: Tensor) -> Tensor:
        """Read again one by one what was read at once; return the next logits (1, V)."""
        self.counts.unsure += 1
        self.rewind(self.exact)
        ids = torch.cat([start, start.new_tensor([self.paper.ids])], 1)
        if not self.read:
            logits = self.pass_over(start, 0)
        while self.read < ids.shape[1]:
            logits = self.pass_over(ids[:, self.read : self.read + 1], 0)
        return logits

    def rewind(self, length: int) -> None:
        """Go back to `length` tokens; to 0 if a recurrent state cannot go back that far."""
        if length >= self.read:
            return
        try:
            self.step.crop(length)
        except ValueError:
            length = 0
            self.step.crop(length)
        self.read, self.exact = length, min(length, self.exact)

    def take(self, logits: Tensor, guess: Guesses) -> bool:
        """Append the model's choice after each right guess; return False if one was not sure."""
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
    """Return what `decode` would return for `start` (1, T), in fewer passes."""
    choose = choose_as(how, number)
    writing = DraftedWriting(step, bounds, choose, drafter, source, over=over, counts=counts)
    for _ in writing.rounds(start):
        pass
    return writing.paper.hypothesis()


def choose_as(how: Sampling, number: int) -> Chooser:
    return Drawn(how, number) if how.chosen == "sample" else choose_greedily
