"""Speculative decoding of several sequences: each pass reads the last token and the guesses of
every sequence, and keeps the guesses that are right.

B sequences, T tokens, N tokens of all sequences in a pass, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, check_start, forbid
from manyheads.decoding.config import Sampling
from manyheads.decoding.drafts import (
    MARGINS,
    DraftChoices,
    DraftCounts,
    DraftedSequence,
    Drafter,
    Drawn,
    choose_greedily,
)
from manyheads.decoding.greedy import Over, Paper
from manyheads.decoding.packed import PackedStep
from manyheads.decoding.step import CachedStep, to_log_probs


class DraftedBatch:
    """Each sequence has its own length; a finished one is no longer read."""

    def __init__(
        self,
        step: PackedStep,
        start: Tensor,
        bounds: Bounds,
        how: Sampling,
        drafter: Drafter,
        sources: Sequence[Sequence[int]],
        numbers: Sequence[int],
        over: Over | None = None,
        counts: DraftCounts | None = None,
    ):
        self.step, self.bounds, self.device = step, bounds, start.device
        self.start = check_start(start).tolist()
        self.counts = counts or drafter.pace.counts
        papers = [Paper(limit, bounds) for limit in bounds.limits(len(start))]
        self.every = [
            DraftedSequence(paper, drafter, source, row=row, over=over, counts=self.counts)
            for row, (paper, source) in enumerate(zip(papers, sources, strict=True))
        ]
        self.drawn = [Drawn(how, number) for number in numbers if how.chosen == "sample"]
        self.alone: dict[int, CachedStep] = {}  # steps for sequences with a near tie between tokens

    def write(self) -> list[Hypothesis]:
        while going := [one for one in self.every if one.paper.going]:
            self.go_on(going)
        return [one.paper.hypothesis() for one in self.every]

    def go_on(self, going: Sequence[DraftedSequence]) -> None:
        """Run one pass over all unfinished sequences."""
        guesses = [self.guess(one) for one in going]
        pairs = [*zip(going, guesses, strict=True)]
        new = {one.row: [*self.list_unread(one), *guess] for one, guess in pairs}
        logits = self.step.read(new)
        self.counts.passes += 1
        ends = [*accumulate(map(len, new.values()))]
        # Keep the logits after the last certain token and after each guess.
        first = [end - 1 - len(guess) for end, guess in zip(ends, guesses, strict=True)]
        asked = [at for ask in zip(first, ends, strict=True) for at in range(*ask)]
        logits = logits if len(asked) == len(logits) else logits[asked]
        choices = self.choose(to_log_probs(logits.contiguous()), pairs)
        unsure = [
            one
            for (one, guess), chosen, end in zip(pairs, choices, ends, strict=True)
            if not one.keep(chosen, guess, MARGINS[logits.dtype], ends[-1] - end)
        ]
        for one in unsure:  # only now: a drafter may read the states of the last pass
            self.read_alone(one)
        for one in going:
            if one.paper.going:
                self.step.crop(one.row, len(self.start[one.row]) + len(one.paper.ids) - 1)

    def guess(self, one: DraftedSequence) -> list[int]:
        guess = one.guess(len(self.start[one.row]))
        return guess.tolist() if isinstance(guess, Tensor) else guess

    def list_unread(self, one: DraftedSequence) -> list[int]:
        """Return its start if nothing is written yet, otherwise the last token."""
        return one.paper.ids[-1:] or self.start[one.row]

    def choose(
        self, logs: Tensor, pairs: Sequence[tuple[DraftedSequence, list[int]]]
    ) -> list[DraftChoices]:
        """Choose each sequence's tokens after its guesses, from the log-probs of all (N, V)."""
        bounds, written = self.bounds, [len(one.paper.ids) for one, _ in pairs]
        parts = [*pairwise(accumulate((1 + len(guess) for _, guess in pairs), initial=0))]
        each = [*zip([one.row for one, _ in pairs], written, parts, strict=True)]
        if min(written) and bounds.is_free(min(written)):
            forbid(logs, bounds.never)
        else:
            for row, had, (begin, end) in each:
                bounds.rule_out_line(logs[begin:end], had, row)
        if not self.drawn:
            found = choose_greedily(logs, 0)
        else:
            keys = [self.drawn[row].draw(had, end - begin) for row, had, (begin, end) in each]
            found = self.drawn[0].choose(logs, [*chain.from_iterable(keys)])
        return [found.part(begin, end) for begin, end in parts]

    def read_alone(self, one: DraftedSequence) -> None:
        """Decide a near tie: read the sequence again token by token, as without a draft."""
        self.counts.unsure += 1
        start, had = self.start[one.row], len(one.paper.ids)
        if one.row not in self.alone:
            self.alone[one.row] = self.step.separate(one.row)
        step, ids = self.alone[one.row], [*start, *one.paper.ids]
        while step.length < len(ids):
            new = ids[step.length : step.length + 1] if step.length else start
            logits = step(torch.tensor([new], device=self.device))
        logs = self.bounds.rule_out_line(to_log_probs(logits.contiguous()), had, one.row)
        choose = self.drawn[one.row] if self.drawn else choose_greedily
        one.keep(choose(logs, had), [], None)
