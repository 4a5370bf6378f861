"""What moves the weights: one line of a table, from anywhere."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from counted import OFTEN, weighing
from small import SAME, begun, contents, recipe_in
from torch import nn

from manyheads.training.config import Training
from manyheads.training.optimizers import OPTIMIZERS, make_optimizers
from manyheads.training.run import Run


def two_of_them(network: nn.Module, training: Training) -> list[torch.optim.Optimizer]:
    """Momentum for matrices at twice the rate, the rest by another."""
    matrices = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    rate = training.learning_rate
    return [torch.optim.SGD(matrices, 2 * rate, momentum=0.9), torch.optim.RMSprop(others, rate)]


def test_an_optimizer_from_outside_trains_and_goes_on_as_if_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIMIZERS, "two", two_of_them)
    training = replace(OFTEN, optimizer="two")
    whole, broken = Run(tmp_path / "whole"), Run(tmp_path / "broken")
    assert weighing(whole, training).fit()
    while not weighing(broken, training).fit(lambda: True):
        pass  # stopped after every step
    ours, theirs = contents(broken), contents(whole)
    assert [name for name in SAME if ours[name] != theirs[name]] == []


def test_what_an_optimizer_keeps_is_there_before_the_first_step_and_empty() -> None:
    network = nn.Linear(3, 2)
    before = [p.clone() for p in network.parameters()]
    (optimizer,) = make_optimizers(network, Training())
    assert set(optimizer.state) == set(network.parameters())
    assert not any(kept.any() for of in optimizer.state.values() for kept in of.values())
    assert all(map(torch.equal, before, network.parameters()))


def test_an_optimizer_that_there_is_not_is_refused_before_the_run_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no optimizer 'lion'; there are adamw"):
        begun(recipe_in(tmp_path, optimizer="lion"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
