"""Batch, loss, backward, step, note."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

B = TypeVar("B")


@dataclass(frozen=True)
class Training:
    """How long and how fast to learn."""

    steps: int = 1000
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    weight_decay: float = 0.01
    clip_norm: float = 1.0

    def rate(self, step: int) -> float:
        """Up over the warm-up, then straight down to zero: a factor of the learning rate."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        return (self.steps - step) / max(1, self.steps - self.warmup_steps)


@dataclass(frozen=True)
class Progress:
    """Where training stands after a step."""

    step: int
    steps: int
    loss: float
    seconds: float


def fit(
    network: nn.Module,
    batches: Iterable[B],
    loss_of: Callable[[nn.Module, B], Tensor],
    training: Training,
    note: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Train the network in place on `training.steps` batches."""
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=training.learning_rate,
        weight_decay=training.weight_decay,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, training.rate)
    start = time.perf_counter()
    network.train()
    for step, batch in zip(range(training.steps), batches, strict=False):
        loss = loss_of(network, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), training.clip_norm)
        optimizer.step()
        schedule.step()
        note(Progress(step + 1, training.steps, loss.item(), time.perf_counter() - start))
