"""What moves the weights: one line of a table, from anywhere."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from counted import OFTEN, Weighing, trainer_of, weighing
from small import SAME, begun, contents, recipe_in
from torch import nn

from manyheads.modules.build import build_decoder
from manyheads.modules.config import TransformerConfig
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


def test_muon_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    training = replace(OFTEN, optimizer="muon")
    whole, broken = Run(tmp_path / "whole"), Run(tmp_path / "broken")
    assert weighing(whole, training).fit()
    while not weighing(broken, training).fit(lambda: True):
        pass  # stopped after every step
    ours, theirs = contents(broken), contents(whole)
    assert [name for name in SAME if ours[name] != theirs[name]] == []


def test_muon_moves_the_matrices_of_layers_and_adamw_all_else() -> None:
    config = TransformerConfig(
        width=8, depth=2, heads=2, tied=False, residual_scalars=True, value_embeddings=1
    )
    network = build_decoder(config, 20)
    training = Training(optimizer="muon", learning_rate=0.004, matrix_rate=0.03, weight_decay=0.1)
    first, second = make_optimizers(network, training)
    names = {parameter: name for name, parameter in network.named_parameters()}
    moved = [names[p] for group in first.param_groups for p in group["params"]]
    ends = ("inward.weight", "out.weight")
    assert sorted(moved) == sorted(name for name in names.values() if name.endswith(ends))
    rest = {names[p] for p in second.param_groups[0]["params"]}
    assert {*moved} | rest == {*names.values()}
    assert not {*moved} & rest
    assert [one.param_groups[0]["lr"] for one in (first, second)] == [0.03, 0.004]
    assert [one.param_groups[0]["weight_decay"] for one in (first, second)] == [0.1, 0.0]


def test_muon_is_torchs_but_for_layers_that_are_several_in_one() -> None:
    class Layer(nn.Module):
        def __init__(self, *sizes: int) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inward, self.sizes = nn.Linear(8, 24, bias=False), sizes

    def step(layer: Layer, optimizer: torch.optim.Optimizer, parts: int) -> list[torch.Tensor]:
        before = layer.inward.weight.detach().clone()
        for _ in range(3):
            layer.inward.weight.grad = before.clone()
            optimizer.step()
        return [*(layer.inward.weight.detach() - before).chunk(parts)]

    training = Training(optimizer="muon", weight_decay=0.0)
    whole, split, theirs = Layer(), Layer(8, 8, 8), Layer()
    rate, momentum = training.matrix_rate, training.matrix_momentum
    (expected,) = step(
        theirs, torch.optim.Muon([theirs.inward.weight], rate, 0.0, momentum), parts=1
    )
    (found,) = step(whole, make_optimizers(whole, training)[0], parts=1)
    torch.testing.assert_close(found, expected, atol=0.002, rtol=0)  # theirs counts in 16 bits
    for part in step(split, make_optimizers(split, training)[0], parts=3):
        sizes = torch.linalg.svdvals(part) / (3 * rate)
        assert sizes.min() > 0.4
        assert sizes.max() < 1.3


def test_muon_moves_a_weight_that_two_layers_share_once() -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    layers[1].weight = layers[0].weight
    first, second = make_optimizers(layers, Training(optimizer="muon"))
    moved = [*first.param_groups[0]["params"], *second.param_groups[0]["params"]]
    assert len(moved) == len({*moved}) == len([*layers.parameters()])


def test_muon_without_a_linear_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has none; training\.optimizer: adamw would do"):
        make_optimizers(nn.Embedding(3, 2), Training(optimizer="muon"))


def test_what_an_optimizer_keeps_is_there_before_the_first_step_and_empty() -> None:
    network = nn.Linear(3, 2)
    before = [p.clone() for p in network.parameters()]
    (optimizer,) = make_optimizers(network, Training())
    assert set(optimizer.state) == set(network.parameters())
    assert not any(kept.any() for of in optimizer.state.values() for kept in of.values())
    assert all(map(torch.equal, before, network.parameters()))


OTHERS = {
    "nadam": torch.optim.NAdam,
    "rprop": torch.optim.Rprop,
    "asgd": torch.optim.ASGD,
    "sgd": partial(torch.optim.SGD, momentum=0.9, dampening=0.5),
    "adagrad": partial(torch.optim.Adagrad, initial_accumulator_value=0.5),
    "radam": torch.optim.RAdam,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
    "rmsprop": partial(torch.optim.RMSprop, centered=True, momentum=0.5),
}


@pytest.mark.parametrize("kind", OTHERS.values(), ids=OTHERS)
def test_an_optimizer_begins_with_what_it_keeps_by_itself(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for made in (True, False):
        torch.manual_seed(0)
        network, x = nn.Linear(3, 3), torch.randn(8, 3)
        monkeypatch.setitem(OPTIMIZERS, "own", lambda one, _: [kind(one.parameters(), lr=0.01)])
        training = Training(optimizer="own")
        (optimizer,) = (make_optimizers if made else OPTIMIZERS["own"])(network, training)
        for _ in range(5):
            optimizer.zero_grad()
            network(x).square().mean().backward()
            optimizer.step()
        found.append(network.weight.detach())
    assert torch.equal(*found)


@pytest.mark.parametrize("kind", ["nadam", "rprop", "sgd", "adagrad"])
def test_an_optimizer_that_begins_by_itself_goes_on_as_if_never_stopped(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = OTHERS[kind]
    monkeypatch.setitem(
        OPTIMIZERS, "own", lambda one, training: [make(one.parameters(), training.learning_rate)]
    )
    training = replace(OFTEN, optimizer="own")
    whole, broken = Run(tmp_path / "whole"), Run(tmp_path / "broken")
    assert weighing(whole, training).fit()
    while not weighing(broken, training).fit(lambda: True):
        pass  # stopped after every step
    ours, theirs = contents(broken), contents(whole)
    assert [name for name in SAME if ours[name] != theirs[name]] == []


class Idle(Weighing):
    """A job with a weight that never has a gradient."""

    def network(self) -> nn.Module:
        network = super().network()
        network.register_parameter("idle", nn.Parameter(torch.ones(2)))
        return network


def test_a_weight_without_a_gradient_keeps_no_run_from_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        OPTIMIZERS, "own", lambda one, _: [torch.optim.SGD(one.parameters(), 0.1, momentum=0.9)]
    )
    training, run = replace(OFTEN, optimizer="own"), Run(tmp_path)
    assert not trainer_of(Idle(), training, run).fit(lambda: True)
    assert trainer_of(Idle(), training, run).fit()


class Counting(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step(closure)
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight]["seen"] = 1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (torch.optim.AdamW, "'own' makes a list of optimizers, as in .*, got AdamW"),
        (
            lambda weights: [Counting(weights)],
            "Counting keeps 'seen' as 1, and a checkpoint holds te",
        ),
    ],
    ids=["one", "number"],
)
def test_what_cannot_be_kept_in_a_checkpoint_is_no_optimizer(
    make: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIMIZERS, "own", lambda network, _: make(network.parameters()))
    with pytest.raises(ValueError, match=sentence):
        make_optimizers(nn.Linear(3, 2), Training(optimizer="own"))


def test_an_optimizer_that_there_is_not_is_refused_before_the_run_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no optimizer 'lion'; there are adamw"):
        begun(recipe_in(tmp_path, optimizer="lion"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
