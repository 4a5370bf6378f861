"""Sample the free tokens between given ones, so that earlier tokens fit the later given ones.

Sampled from left to right, a voice does not know how the melody goes on. So several particles are
sampled side by side, each weighted by the probability of the given tokens after what it wrote;
particles with small weights are replaced by copies of better ones: sequential Monte Carlo.

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
    """Continue `start` (1, T): write each `given` token, and sample a token where it is FREE.

    The more particles, the closer to the model's distribution given all `given` tokens; a single
    particle ignores what comes later. `never` tokens are not sampled, but may be given. `shown`
    wraps the iteration over `given`, for a progress bar.
    """
    if particles < 1:
        raise ValueError(f"1 particle or more is drawn, got {particles}")
    if len(start) != 1:
        raise ValueError(f"tokens are drawn around one sequence at a time, {len(start)} came")
    choose, rows = choose_by_chance(how, range(particles)), range(particles)
    chance = Random(f"{how.seed} particles")
    ids = start.new_empty((particles, 0))
    logs = torch.empty((particles, 0), device=start.device)
    weights = torch.zeros(particles, dtype=torch.double)  # log-weights, up to a common constant
    logits = step(start).repeat_interleave(particles, 0)  # read the start once for all particles
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
    """Return the effective sample size of log-weights (K,)."""
    shares = weights.softmax(0)
    return float(1 / (shares**2).sum())


def resample_systematically(weights: Tensor, share: float) -> Tensor:
    """Systematic resampling: return which particles to keep, from one random number `share`."""
    count = len(weights)
    at = (torch.arange(count, dtype=torch.double) + share) / count
    return torch.searchsorted(accumulate(weights), at, right=True).clamp(max=count - 1)


def choose_one(weights: Tensor, share: float) -> int:
    found = torch.searchsorted(accumulate(weights), torch.tensor(share).double(), right=True)
    return min(int(found), len(weights) - 1)


def accumulate(weights: Tensor) -> Tensor:
    """Return the cumulative sum of the normalized weights."""
    return weights.softmax(0).cumsum(0)
