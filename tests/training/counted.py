"""A job so small that a run of it takes milliseconds: weigh four numbers, some of them dropped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.tasks.task import Sample, Task, Validation
from manyheads.training.config import Training
from manyheads.training.distributed import World
from manyheads.training.run import Run
from manyheads.training.trainer import Callback, Trainer


class Numbers:
    """Twelve examples in batches of three, in another order each epoch."""

    def epoch(self, number: int) -> list[list[int]]:
        return np.random.default_rng(number).permutation(12).reshape(4, 3).tolist()

    def count(self, rows: list[int]) -> int:
        return len(rows)

    def area(self, rows: list[int]) -> int:
        return len(rows)

    def share(self, rows: list[int], part: int, parts: int) -> list[int]:
        return rows[part::parts]

    def batch(self, rows: list[int]) -> Tensor:
        return torch.tensor(rows)[:, None] + torch.arange(4.0)


class Weighing:
    """The score goes up and down with the weights, so that the best is not the last."""

    plan = Numbers()

    def __init__(self, dropout: float = 0.3):
        self.dropout = dropout

    def network(self) -> nn.Module:
        return nn.Sequential(nn.Dropout(self.dropout), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def loss(self, network: Any, batch: Tensor, smoothing: float) -> Tensor:
        return (network(batch / 10) - batch.mean(1, keepdim=True) / 10).square().sum()

    @torch.no_grad()
    def judge(self, network: Any) -> tuple[dict[str, float], list[Sample]]:
        network.eval()
        said = network(torch.ones(1, 4)).item()
        return {"score": float(np.sin(40 * said)), "loss": said}, [Sample("1", "2", f"{said}")]


OFTEN = Training(
    steps=25,  # no multiple of what is done often
    learning_rate=0.05,
    warmup_steps=3,
    log_every=3,
    validate_every=4,
    checkpoint_every=5,
    ema=0.9,
    average=2,
)


class Toy(Task):
    """What a job here has, as a task."""

    def __init__(self, job: Any, training: Training):
        super().__init__(SimpleNamespace(training=training))
        self.job = job

    choose = gather = prepare = model = classmethod(lambda cls, *_: None)

    def network(self) -> nn.Module:
        return self.job.network()

    def batches(self) -> Any:
        return self.job.plan

    def loss(self, network: Any, batch: Any) -> dict[str, Tensor]:
        return {"loss": self.job.loss(network, batch, self.recipe.training.label_smoothing)}

    def validate(self, network: Any) -> Validation:
        return Validation(*self.job.judge(network))


def trainer_of(
    job: Any, training: Training, run: Run, world: World = World(), callback: Callback = Callback()
) -> Trainer:
    return Trainer(Toy(job, training), run, world, callback)


def weighing(run: Run, training: Training = OFTEN, callback: Callback = Callback()) -> Trainer:
    run.folder.mkdir(exist_ok=True)
    return trainer_of(Weighing(), training, run, callback=callback)
