"""Sampling: draw tokens at random.

B batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import torch
from torch import Tensor

from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.config import Sampling
from manyheads.decoding.greedy import ChooseToken, Over, number_rows, write_each
from manyheads.decoding.step import Step
from manyheads.devices import send

FEW = 1000  # tokens
# A step in this direction leads from a token to the next one; then two rounds of a known hash of 32
# bits, each a shift and a factor.
STRIDE, ROUNDS = -1640531527, ((16, 0x21F0AAAD), (15, 0x735A2D97))


def sample(
    step: Step,
    start: Tensor,
    bounds: Bounds,
    how: Sampling = Sampling(),
    numbers: Sequence[int] | None = None,
    over: Over | None = None,
) -> list[Hypothesis]:
    """Continue `start` (B, T) by sampling; log-probabilities are the model's own, before top_p etc.

    Each sequence has its own random generator, seeded by the seed and its number in the whole
    input, so that its tokens do not depend on the batch. It draws a key for each token.
    """
    choose = choose_by_chance(how, number_rows(numbers, len(start)))
    return write_each(step, start, bounds, choose, over)


def choose_by_chance(how: Sampling, numbers: Sequence[int]) -> ChooseToken:
    """Return a function that draws a token for each sequence; `numbers` seed their generators."""
    check_drawn(how)
    chance = [Random(f"{how.seed} {number}") for number in numbers]

    def choose(logs: Tensor, rows: Sequence[int]) -> Tensor:
        keys = [draw_key(chance[row]) for row in rows]
        return pick(weigh_tokens(logs, how), as_keys(keys, logs.device))

    return choose


def check_drawn(how: Sampling) -> None:
    if not how.temperature:
        raise ValueError("tokens are drawn at a temperature over 0, got 0, whose limit is greedy")


def keep_top_p(weights: Tensor, share: float) -> Tensor:
    """Keep the largest weights of each row, until they sum up to this share."""
    # Mostly a few are enough, and sorting a whole vocabulary takes as long as a small network.
    falling, order = weights.topk(min(FEW, weights.shape[1]))
    if (falling.sum(-1) < share).any():
        falling, order = weights.sort(-1, descending=True)
    return drop_spare(weights, falling, order, share)


def drop_spare(weights: Tensor, falling: Tensor, order: Tensor, share: float) -> Tensor:
    """The same, given the largest weights of each row in descending order and their ids (B, N)."""
    spare = falling.cumsum(-1) - falling >= share  # the tokens before it already have this share
    return torch.zeros_like(weights).scatter(1, order, falling.masked_fill(spare, 0))


def weigh_tokens(
    logs: Tensor, how: Sampling, keep: Callable[[Tensor, float], Tensor] = keep_top_p
) -> Tensor:
    """Turn log-probabilities (B, V) into sampling weights, which need not sum to 1.

    [.5, .3, .2] with top_p=.6 -> [.5, .3, 0]
    """
    logs = logs / how.temperature
    if 0 < how.top_k < logs.shape[1]:
        logs = logs.masked_fill(logs < logs.topk(how.top_k).values[:, -1:], -torch.inf)
    weights = logs.softmax(-1)
    if how.top_p < 1:
        weights = keep(weights, how.top_p)
    if how.min_p > 0:
        enough = how.min_p * weights.amax(-1, keepdim=True)
        weights = weights.masked_fill(weights < enough, 0)
    return weights


def draw_key(chance: Random) -> int:
    """Draw a whole number of 32 bits, the key of one token."""
    return chance.getrandbits(32) - 2**31


def as_keys(values: Sequence[int] | Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return send(torch.tensor(values, dtype=torch.int32), device)


def make_noise(keys: Tensor, size: int) -> Tensor:
    """Make a row of exponential noise for each key: (B,) -> (B, size).

    The noise of a token depends on its key and its id alone: not on the batch, nor on the device
    beyond rounding.
    """
    ids = torch.arange(size, dtype=torch.int32, device=keys.device)
    mixed = keys[:, None] + ids * STRIDE  # (B, size), modulo 2 ** 32 like all that follows
    for shift, factor in ROUNDS:
        mixed ^= (mixed >> shift) & ((1 << (32 - shift)) - 1)
        mixed *= factor
    # In (0, 1); small numbers are the exact ones, and they decide.
    share = (mixed & (2**31 - 1)).float().add_(0.5).mul_(2.0**-31).clamp_(max=1 - 2.0**-24)
    return -torch.log1p(-share)


def pick(weights: Tensor, keys: Tensor) -> Tensor:
    """Pick a token of each row, with a probability in proportion to its weight: (B, V) -> (B,)

    Each token waits for a time that is its noise divided by its weight, and the first wins. This is
    the Gumbel-max trick: small errors of the weights matter only if two tokens are about to win.
    """
    return pick_first(weights, make_noise(keys, weights.shape[1]))


def pick_first(weights: Tensor, noise: Tensor) -> Tensor:
    """Pick the token that waits least, given a row of noise for each sequence."""
    return (weights / noise).argmax(-1)
