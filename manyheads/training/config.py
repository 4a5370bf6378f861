"""How a run trains: the settings of a recipe's `training:`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from manyheads.config.declare import Settings, setting

Schedule = Literal["linear", "inverse-square-root", "cosine", "stable"]
Precision = Literal["float32", "bfloat16"]
Fall = Callable[[int, int, int], float]  # step, warm-up steps, all steps -> factor

COOLDOWN = 0.2  # the share of all steps in which a stable schedule falls


def linear(step: int, warmup: int, steps: int) -> float:
    """Fall in a straight line, to zero at the last step."""
    return (steps - step) / max(1, steps - warmup)


def inverse_square_root(step: int, warmup: int, steps: int) -> float:
    """Fall with the square root of the step, never to zero: needs no last step."""
    return math.sqrt(max(1, warmup) / max(1, step))


def cosine(step: int, warmup: int, steps: int) -> float:
    """Fall to zero: slowly at first, quickly in the middle, slowly at the end."""
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def stable(step: int, warmup: int, steps: int) -> float:
    """Stay level, then fall in a line to zero over the last fifth: warm-up, stable, decay."""
    return min(1.0, (steps - step) / max(1.0, COOLDOWN * steps))


SCHEDULES: dict[str, Fall] = {
    "linear": linear,
    "inverse-square-root": inverse_square_root,
    "cosine": cosine,
    "stable": stable,
}


@dataclass(frozen=True)
class Training(Settings):
    """How long, how fast and on how much at a time to learn."""

    steps: int = setting(1000, "Number of optimizer steps, one batch each.", least=1)
    tokens_per_batch: int = setting(
        4096,
        "Batch size in tokens: of the longer side, with padding, over all processes.",
        least=1,
        most=10**9,
    )
    accumulate: int = setting(
        1,
        "Gradient accumulation: parts that a batch is cut into to fit into memory.",
        least=1,
        most=10**6,
    )

    optimizer: str = setting(
        "adamw",
        "Optimizer: adamw; adam, with weight decay in the gradient; or muon for the matrices of "
        "layers and adamw for the rest.",
    )
    matrix_rate: float = setting(
        0.02, "Learning rate of muon; learning_rate is for all other weights.", above=0
    )
    matrix_momentum: float = setting(0.95, "Momentum of muon.", least=0, below=1)
    learning_rate: float = setting(
        2e-3,
        "Peak learning rate, after the warm-up; a preset has one for each kind of network.",
        above=0,
    )
    schedule: Schedule = setting(
        "linear",
        "Learning rate schedule after the warm-up: linear or cosine to zero, inverse square "
        "root, or stable until the last fifth of the steps and then linear to zero.",
    )
    warmup_steps: int = setting(
        100,
        "Warm-up steps, in which the learning rate grows from zero; at most half of all steps.",
        least=0,
    )
    weight_decay: float = setting(0.01, "Weight decay, for matrices only.", least=0)
    betas: tuple[float, float] = setting((0.9, 0.98), "Betas of AdamW.", least=0, below=1)
    clip_norm: float = setting(1.0, "Clip gradients to this norm; 0: no clipping.", least=0)
    label_smoothing: float = setting(
        0.0, "Label smoothing: probability that is spread over all classes.", least=0, below=1
    )

    precision: Precision = setting(
        "float32", "Precision of the computation (mixed precision); weights stay float32."
    )
    compile: bool = setting(False, "Compile the network block by block with torch.compile.")
    cuda_graph: bool = setting(
        False,
        "On CUDA, record a step as a CUDA graph and replay it for batches of the same shape.",
    )
    seed: int = setting(0, "Random seed: weights, order of the data, dropout.", least=0)

    validate_every: int = setting(500, "Steps between validations.", least=1)
    checkpoint_every: int = setting(500, "Steps between checkpoints.", least=1)
    log_every: int = setting(50, "Steps between log lines.", least=1)
    best_by: Literal["score", "loss", "last"] = setting(
        "score",
        "Metric that chooses the best weights: the score or the loss of validation; last: take "
        "the last weights.",
    )
    patience: int = setting(
        0,
        "Early stopping: stop after this many validations without improvement; 0: never.",
        least=0,
    )
    ema: float = setting(
        0.0,
        "Decay of the exponential moving average of the weights, which becomes the result; 0: "
        "none.",
        least=0,
        below=1,
    )
    average: int = setting(
        1, "Average this many of the best checkpoints as the result.", least=1, most=1000
    )

    def misfits(self) -> Iterator[str]:
        if self.schedule not in SCHEDULES:
            yield f"there is no schedule {self.schedule!r}; there are {', '.join(SCHEDULES)}"
        if self.patience and self.best_by == "last":
            yield (
                "patience waits for better weights, and with best_by=last the last are always the "
                "best; best_by=score or loss, or patience=0 would do"
            )

    def rate(self, step: int) -> float:
        """Return the factor of the learning rate: it grows in the warm-up, at most half of all
        steps, then follows the schedule.
        """
        warmup = min(self.warmup_steps, self.steps // 2)
        if step < warmup:
            return (step + 1) / warmup
        return max(0.0, SCHEDULES[self.schedule](step, warmup, self.steps))

    def judge(self, scores: Mapping[str, float], step: int) -> float:
        """Return how good the weights of a step are: higher is better."""
        by = {"loss": -scores["loss"], "last": float(step)}
        return by.get(self.best_by, next(iter(scores.values())))
