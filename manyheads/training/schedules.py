"""How fast to learn at each step, as a factor of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable

Fall = Callable[[int, int, int], float]  # step, warm-up steps, all steps -> factor

COOLDOWN = 0.2  # the share of all steps in which a stable schedule comes down


def linear(step: int, warmup: int, steps: int) -> float:
    """Straight down to zero at the end."""
    return (steps - step) / max(1, steps - warmup)


def inverse_square_root(step: int, warmup: int, steps: int) -> float:
    """Down with the square root of time, and never to zero: knows no end."""
    return math.sqrt(max(1, warmup) / max(1, step))


def cosine(step: int, warmup: int, steps: int) -> float:
    """Slowly at first, quickly in the middle, slowly to zero."""
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def stable(step: int, warmup: int, steps: int) -> float:
    """Level, then straight down to zero over the last fifth: warm-up, stable, decay."""
    return min(1.0, (steps - step) / max(1.0, COOLDOWN * steps))


SCHEDULES: dict[str, Fall] = {
    "linear": linear,
    "inverse-square-root": inverse_square_root,
    "cosine": cosine,
    "stable": stable,
}


def factor(schedule: str, step: int, warmup: int, steps: int) -> float:
    """Up over the warm-up, then as the schedule says."""
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, SCHEDULES[schedule](step, warmup, steps))
