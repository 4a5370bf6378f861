"""Beam search: for each sentence, keep the sequences with the best log-probabilities.

S sentences in the batch, W width of the beam, V vocabulary, N candidates of a sentence.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis, check_start, nothing_left
from manyheads.decoding.config import BEAM, DecodingConfig
from manyheads.decoding.step import Step, are_few, blockwise_topk, to_log_probs

LOOKED_AT_EVERY = 8  # tokens between two checks for a loop


def beam(
    step: Step, start: Tensor, bounds: Bounds, how: DecodingConfig = DecodingConfig(beam=BEAM)
) -> list[list[Hypothesis]]:
    """Continue `start` (B, T); return the best sequences for each, best first."""
    search = Search(start, bounds, how)
    search.run(step, start)
    return [search.rank(found)[: how.nbest] for found in search.found]


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first. Each (S, N)."""

    totals: Tensor
    rows: Tensor  # the row of the batch that it continues
    tokens: Tensor
    logs: Tensor  # of the token alone

    @staticmethod
    def of(totals: Tensor, logs: Tensor, many: int) -> Candidates:
        """Find the best `many` continuations of each sentence.

        totals (S, W) are log-probabilities so far, logs (S W, V) those of the next token; logs
        may have only the first sequence of each sentence, if the others are not alive yet.
        """
        (sentences, width), vocabulary = totals.shape, logs.shape[1]
        among = blockwise_topk(totals[:, : len(logs) // sentences], logs, many)
        alone = logs.view(sentences, -1).gather(1, among)
        total = alone + totals.gather(1, among // vocabulary)
        total, index = total.topk(min(many, total.shape[1]))
        found, alone = among.gather(1, index), alone.gather(1, index)
        first = torch.arange(0, sentences * width, width, device=total.device)[:, None]
        return Candidates(total, first + found // vocabulary, found % vocabulary, alone)

    def take(self, order: Tensor) -> Candidates:
        return Candidates(*(each.gather(1, order) for each in self))


class Search:
    """Open and finished sequences. Row `s * W + w` of the batch is sequence w of sentence s."""

    def __init__(self, start: Tensor, bounds: Bounds, how: DecodingConfig):
        self.bounds, self.how, self.count = bounds, how, 0
        limits, device = bounds.limits(len(check_start(start))), start.device
        self.found: list[list[Hypothesis]] = [
            [] if limit else [Hypothesis.of([], [], bounds.stops)] for limit in limits
        ]
        self.sentences = [*range(len(limits))]  # in the batch, by their number in the input
        able = [limit > 0 for limit in limits]
        self.going = torch.tensor(able, device=device, dtype=torch.bool)  # (S,)
        self.open = sum(able)  # number of unfinished sentences
        self.limits = torch.tensor(limits, device=device, dtype=torch.long)  # (S,)
        self.to_beat = torch.full((len(limits),), -torch.inf, device=device)  # (S,)
        # All beams begin equal: only the first is alive, so that no two are duplicates.
        self.totals = torch.full((len(limits), how.beam), -torch.inf, device=device)  # (S, W)
        self.totals[self.going, 0] = 0
        self.ids = start.new_empty((len(limits) * how.beam, 0))  # (S W, tokens so far)
        self.logs = torch.empty(self.ids.shape, device=device)

    @torch.no_grad()
    def run(self, step: Step, start: Tensor) -> None:
        width = self.how.beam
        if not self.open:
            return
        logits = step(start)  # read the start once for all beams
        # So many that enough continue even if every sequence can stop here, by each of its stops.
        many = (1 + max(1, len(self.bounds.stops))) * width
        alive = 1 if logits.shape[1] >= many else width
        logits = logits.repeat_interleave(alive, 0)
        step.select(torch.arange(len(start), device=start.device).repeat_interleave(width))
        while True:
            rows = [sentence for sentence in self.sentences for _ in range(alive)]
            logs = self.bounds.rule_out(to_log_probs(logits), self.count, rows)
            parents = self.advance(Candidates.of(self.totals, logs, many))
            if not self.open:
                return
            if are_few(self.open, len(self.sentences)):
                step.select(self.leave(parents))
            else:
                step.reorder(parents.flatten())
            logits, alive = step(self.ids[:, -1:]), width

    def advance(self, best: Candidates) -> Tensor:
        """Collect what stops and continue the best others; return the rows (S, W) they continue."""
        width = self.how.beam
        stops = torch.zeros_like(best.tokens, dtype=torch.bool)
        for stop in self.bounds.stops:
            stops |= best.tokens == stop
        ended = stops & best.totals.isfinite()
        ended[:, width:] = False  # only stops among the best `width` count
        order = stops.byte().argsort(stable=True, dim=1)[:, :width]
        live = best.take(order)
        totals = live.totals.masked_fill(stops.gather(1, order), -torch.inf)
        ids, logs = self.longer(live.rows, live.tokens, live.logs)
        self.count += 1
        full = (self.limits == self.count) | self.looping(ids)
        done = self.done(totals, full)
        # The only host sync of a step: mostly nothing ends.
        some_ended, some_done = torch.stack([ended.any(), done.any()]).tolist()
        if some_ended:
            self.finish(best, ended)
        self.totals, self.ids, self.logs = totals, ids, logs
        if some_ended or some_done:
            self.close(full)
        return live.rows

    def longer(self, rows: Tensor, tokens: Tensor, logs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens and log-probabilities of these rows with one more token each."""
        rows = rows.flatten()
        return (
            torch.cat([self.ids[rows], tokens.view(-1, 1)], 1),
            torch.cat([self.logs[rows], logs.view(-1, 1)], 1),
        )

    def finish(self, best: Candidates, ended: Tensor) -> None:
        rows, tokens, logs = (each[ended] for each in best[1:])
        sentences = ended.nonzero()[:, 0]
        self.add(sentences, *self.longer(rows, tokens, logs))
        for s in set(sentences.tolist()):
            self.to_beat[s] = self.score_to_beat(self.found[self.sentences[s]])

    def rank(self, found: list[Hypothesis]) -> list[Hypothesis]:
        penalty = self.how.length_penalty
        return sorted(found, key=lambda one: one.normalised_score(penalty), reverse=True)

    def score_to_beat(self, found: list[Hypothesis]) -> float:
        """Return the score that an open sequence must be able to beat for the search to go on."""
        if self.how.early_stopping:
            return torch.inf if len(found) >= self.how.beam else -torch.inf
        if len(found) < self.how.nbest:
            return -torch.inf
        last = self.rank(found)[self.how.nbest - 1]
        return last.normalised_score(self.how.length_penalty)

    def add(self, sentences: Tensor, ids: Tensor, logs: Tensor) -> None:
        each = sentences.tolist(), ids.tolist(), logs.tolist()
        for s, numbers, log_probs in zip(*each, strict=True):
            hypothesis = Hypothesis.of(numbers, log_probs, self.bounds.stops)
            self.found[self.sentences[s]].append(hypothesis)

    def done(self, totals: Tensor, full: Tensor) -> Tensor:
        """Mark sentences that reached their limit or cannot get a better score. (S,)"""
        # Log-probabilities only fall, and the longest sequence has the largest divisor.
        attainable = totals[:, 0] / self.limits**self.how.length_penalty
        return self.going & (full | ~(attainable > self.to_beat))

    def close(self, full: Tensor) -> None:
        """End finished sentences; if one is full, its open sequences become results."""
        done = self.done(self.totals, full)
        unfinished = full[:, None] & self.totals.isfinite()  # (S, W)
        rows = unfinished.flatten()
        self.add(unfinished.nonzero()[:, 0], self.ids[rows], self.logs[rows])
        for s in done.nonzero()[:, 0].tolist():
            if not self.found[self.sentences[s]]:
                raise nothing_left(self.sentences[s], self.count - 1)
        self.going = self.going & ~done
        self.open = int(self.going.sum())
        self.totals = self.totals.masked_fill(~self.going[:, None], -torch.inf)

    def looping(self, ids: Tensor) -> Tensor:
        """Mark sentences whose best sequence repeats itself: it would not get better. (S,)"""
        loop = self.bounds.loop
        if not loop or self.count < loop or self.count % LOOKED_AT_EVERY:
            return torch.zeros_like(self.going)
        best = ids[:: self.how.beam, -loop:].tolist()
        return torch.tensor([self.bounds.loops(one) for one in best], device=self.going.device)

    def leave(self, parents: Tensor) -> Tensor:
        """Drop finished sentences; return the rows that the others continue."""
        kept = self.going.nonzero()[:, 0]
        self.sentences = [self.sentences[s] for s in kept.tolist()]
        rows = torch.arange(len(self.ids), device=kept.device).view(parents.shape)[kept].flatten()
        self.ids, self.logs = self.ids[rows], self.logs[rows]
        self.totals, self.limits, self.to_beat, self.going = (
            each[kept] for each in (self.totals, self.limits, self.to_beat, self.going)
        )
        return parents[kept].flatten()
