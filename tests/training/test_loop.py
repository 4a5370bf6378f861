"""The schedule, and the notes a loop leaves."""

import torch
from torch import nn

from manyheads.training.loop import Progress, Training, fit


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
        lambda net, batch: (net(batch[0]) - batch[1]).square().mean(),
        Training(steps=200, learning_rate=0.1, warmup_steps=10),
        notes.append,
    )
    assert [note.step for note in notes] == list(range(1, 201))
    assert notes[-1].loss < 0.01 * notes[0].loss
