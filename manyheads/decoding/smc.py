"""Tokens drawn around others that are given: what comes before knows of what comes after.

Drawn from left to right, a voice does not know how the melody goes on. So many particles are drawn
side by side, each weighted by how likely the given tokens were after what it wrote, and those that
did not foresee them give way to copies of those that did: sequential Monte Carlo.

K particles, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

import torch
from torch import Tensor

from manyheads.decoding.bounds import UNLIKELY, Hypothesis, forbid, nothing_left
from manyheads.decoding.config import Sampling
from manyheads.decoding.sample import choose_by_chance
from manyheads.decoding.step import Step, to_log_probs

FREE = -1  # a token that is not given


@torch.no_grad()
def sample_around(
    step: Step,
    start: Tensor,
    given: Sequence[int],
    how: Sampling = Sampling(),
    *,
    particles: int = 16,
    never: Sequence[int] = (),
    shown: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> Hypothesis:
    """Write on from `start` (1, T): at each turn the `given` token, or one drawn where it is FREE.

    The more particles, the nearer to what the model would write if it knew all that is given;
    one of them knows nothing of what is to come. `never` is not drawn, but may be given. `shown`
    hands on what is given, for whoever wants to see how far it is.
    """
    if particles < 1:
        raise ValueError(f"1 particle or more is drawn, got {particles}")
    if len(start) != 1:
        raise ValueError(f"tokens are drawn around one sequence at a time, {len(start)} came")
    choose, rows = choose_by_chance(how, range(particles)), range(particles)
    chance = Random(f"{how.seed} particles")
    ids = start.new_empty((particles, 0))
    logs = torch.empty((particles, 0), device=start.device)
    weights = torch.zeros(particles, dtype=torch.double)  # their logarithms, up to a common factor
    logits = step(start).repeat_interleave(particles, 0)  # the start is read once for all
    step.select(torch.zeros(particles, dtype=torch.long, device=start.device))
    for turn, known in enumerate(shown(given)):
        log_probs = to_log_probs(logits)  # (K, V)
        if known == FREE:
            forbid(log_probs, never)
        else:
            own = log_probs[:, known].clamp(min=UNLIKELY)
            weights += own.double().cpu()
            log_probs.fill_(-torch.inf)[:, known] = own
        token = choose(log_probs, rows)[:, None]  # (K, 1)
        log = log_probs.gather(1, token)
        if not log.isfinite().all():
            raise nothing_left(0, turn)
        ids, logs = torch.cat([ids, token], 1), torch.cat([logs, log], 1)
        if known != FREE and count_effective(weights) < particles / 2:
            kept = resample_systematically(weights, chance.random()).to(start.device)
            step.reorder(kept)
            ids, logs = ids[kept], logs[kept]
            weights.zero_()
        if turn + 1 < len(given):
            logits = step(ids[:, -1:])
    one = choose_one(weights, chance.random())
    return Hypothesis.of(ids[one].tolist(), logs[one].tolist(), ())


def count_effective(weights: Tensor) -> float:
    """How many particles of one weight would say as much, from logarithms (K,)."""
    shares = weights.softmax(0)
    return float(1 / (shares**2).sum())


def resample_systematically(weights: Tensor, share: float) -> Tensor:
    """Which go on, each about as often as its weight says: one chance for all, evenly apart."""
    count = len(weights)
    at = (torch.arange(count, dtype=torch.double) + share) / count
    return torch.searchsorted(accumulate(weights), at, right=True).clamp(max=count - 1)


def choose_one(weights: Tensor, share: float) -> int:
    found = torch.searchsorted(accumulate(weights), torch.tensor(share).double(), right=True)
    return min(int(found), len(weights) - 1)


def accumulate(weights: Tensor) -> Tensor:
    """Shares of all weight up to and with each particle."""
    return weights.softmax(0).cumsum(0)
