"""The six verbs of a task, and what they make together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Generator, Tensor, nn

from manyheads.tasks.task import sum_terms
from manyheads.training.config import Training
from manyheads.training.learner import Learner, Loss

E = TypeVar("E")


class Task(Protocol[E]):
    """examples -> batch -> network -> loss -> decode -> measure"""

    def examples(self, count: int, generator: Generator) -> list[E]: ...
    def batch(self, examples: Sequence[E]) -> Any: ...
    def network(self) -> nn.Module: ...
    def loss(self, network: Any, batch: Any) -> dict[str, Tensor]: ...
    def decode(self, network: Any, batch: Any) -> list[Any]: ...
    def measure(self, outputs: list[Any], examples: Sequence[E]) -> dict[str, float]: ...


@dataclass(frozen=True)
class Progress:
    """Where training stands after a step."""

    step: int
    steps: int
    loss: float
    seconds: float


def fit(
    network: nn.Module,
    batches: Iterable[Any],
    loss_of: Loss[Any],
    training: Training,
    note: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Train the network in place on `training.steps` batches, each of equal weight."""
    learner, start = Learner(network, loss_of, training), time.perf_counter()
    for step, batch in zip(range(training.steps), batches, strict=False):
        if step == 0:
            learner.refuse_leaks(batch)
        loss = sum_terms(learner.step([batch], count=1)).item()
        note(Progress(step + 1, training.steps, loss, time.perf_counter() - start))


def train(
    task: Task[E],
    training: Training,
    *,
    batch_size: int = 64,
    seed: int = 0,
    note: Callable[[Progress], None] = lambda progress: None,
) -> nn.Module:
    """A network for the task, trained; the same seed gives the same network."""
    generator = Generator().manual_seed(seed)

    def batches() -> Iterator[Any]:
        while True:
            yield task.batch(task.examples(batch_size, generator))

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = task.network()
        fit(network, batches(), task.loss, training, note)
    return network.eval()


@torch.no_grad()
def evaluate(
    task: Task[E], network: nn.Module, *, count: int = 256, seed: int = 1
) -> dict[str, float]:
    """What the network makes of examples it was not trained on."""
    examples = task.examples(count, Generator().manual_seed(seed))
    return task.measure(task.decode(network.eval(), task.batch(examples)), examples)
