"""The schedule, the notes a loop leaves, and a step that follows from a state alone."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toy_training import Progress, fit

from manyheads.training.config import Training
from manyheads.training.distributed import World
from manyheads.training.learner import Learner


def test_the_rate_rises_over_the_warm_up_and_falls_to_nothing() -> None:
    training = Training(steps=10, warmup_steps=4)
    assert [round(training.rate(step), 3) for step in range(11)] == [
        *(0.25, 0.5, 0.75, 1.0),
        *(1.0, 0.833, 0.667, 0.5, 0.333, 0.167, 0.0),
    ]


def test_every_step_is_noted_and_the_loss_falls() -> None:
    torch.manual_seed(0)
    network, notes = nn.Linear(4, 1), list[Progress]()
    batches = ((x, x.sum(1, keepdim=True)) for x in iter(lambda: torch.randn(16, 4), None))
    fit(
        network,
        batches,
        lambda net, batch: {"loss": (net(batch[0]) - batch[1]).square().mean()},
        Training(steps=200, learning_rate=0.1, warmup_steps=10),
        notes.append,
    )
    assert [note.step for note in notes] == list(range(1, 201))
    assert notes[-1].loss < 0.01 * notes[0].loss


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"steps": 0}, "steps is 1 or more, got 0"),
        ({"seed": -1}, "seed is 0 or more, got -1"),
        ({"log_every": 0}, "log_every is 1 or more, got 0"),
        ({"clip_norm": -1.0}, "clip_norm is 0 or more, got -1.0"),
        ({"learning_rate": 0.0}, "learning_rate is above 0, got 0.0"),
        ({"learning_rate": math.nan}, "learning_rate is above 0, got nan"),
        ({"ema": 1.0}, "ema is a share from 0 to below 1, got 1.0"),
        ({"label_smoothing": -0.1}, "label_smoothing is a share from 0 to below 1, got -0.1"),
        (
            {"best_by": "last", "patience": 3},
            "patience waits for better weights, and with best_by=last the last are always the "
            "best; best_by=score or loss, or patience=0 would do",
        ),
        (
            {"schedule": "steep"},
            "there is no schedule 'steep'; there are linear, inverse-square-root, cosine, stable",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        Training(**settings)
    assert str(error.value) == sentence


def squares(network: Any, batch: Tensor) -> dict[str, Tensor]:
    return {"loss": (network(batch) - 1).square().sum()}


def test_only_what_multiplies_is_pulled_towards_zero() -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    learner = Learner(network, squares, Training(weight_decay=0.5))
    decays = {
        p: group["weight_decay"]
        for group in learner.optimizers[0].param_groups
        for p in group["params"]
    }
    assert [decays[p] for p in network.parameters()] == [0.5, 0.0, 0.0, 0.0]


def test_any_seed_gives_each_step_and_process_a_number_of_its_own() -> None:
    for seed in (0, 1, 10**30):
        learner = Learner(nn.Linear(2, 2), squares, Training(seed=seed))
        other = Learner(nn.Linear(2, 2), squares, Training(seed=seed))
        other.world = World(rank=1, size=2)
        numbers = [one.seed_of(step) for one in (learner, other) for step in range(50)]
        assert len(set(numbers)) == 100
        torch.manual_seed(numbers[-1])


def test_a_learner_goes_on_from_its_state_as_if_it_were_the_same() -> None:
    training = Training(steps=9, warmup_steps=2, ema=0.9)
    batches = [torch.randn(4, 3) for _ in range(6)]
    make = lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1))  # noqa: E731
    one, other = (Learner(make(), squares, training) for _ in range(2))
    for batch in batches[:3]:
        one.step([batch], 4)
    held = {name: tensor.clone() for name, tensor in one.state().items()}
    other.restore(held, one.taken, Path("x"))
    for batch in batches[3:]:
        assert one.step([batch], 4) == other.step([batch], 4)
    assert one.state().keys() == other.state().keys()
    assert all(torch.equal(tensor, other.state()[name]) for name, tensor in one.state().items())


def test_a_weight_that_never_had_a_gradient_comes_back_too() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(3, 1), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    one, other = (Learner(Idle(), squares, Training()) for _ in range(2))
    one.step([torch.randn(4, 3)], 4)
    other.restore({name: tensor.clone() for name, tensor in one.state().items()}, 1, Path("x"))
    batch = torch.randn(4, 3)
    one.step([batch], 4)
    other.step([batch], 4)
    assert all(torch.equal(tensor, other.state()[name]) for name, tensor in one.state().items())


def test_a_rehearsal_changes_nothing() -> None:
    learner = Learner(nn.Linear(3, 1), squares, Training())
    before = {name: tensor.clone() for name, tensor in learner.state().items()}
    learner.probe_memory(torch.randn(4, 3))
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.state().items())
    assert all(p.grad is None for p in learner.network.parameters())
