"""Means of weights are what their formulas say."""

import torch
from torch import nn

from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.training.weights import Average, load_weights, mean_of, weights_of


class Shared(nn.Module):
    """One weight under two names, and a number that is no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight
        self.register_buffer("met", torch.tensor(5))


def test_a_running_average_is_the_plain_formula() -> None:
    network = nn.Linear(2, 3)
    average = Average(network, 0.8)
    expected = {name: p.detach().double() for name, p in network.named_parameters()}
    for step in range(1, 60):
        with torch.no_grad():
            for p in network.parameters():
                p.add_(torch.randn_like(p))
        average.update(step)
        decay = min(0.8, step / (step + 10))
        for name, p in network.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * p.detach().double()
    for name, tensor in average.weights().items():
        torch.testing.assert_close(tensor.double(), expected[name], atol=1e-5, rtol=1e-5)
    assert average.weights().keys() == network.state_dict().keys()


def test_a_shared_weight_is_one_tensor() -> None:
    network = Shared()
    assert set(weights_of(network)) == {"one.weight", "one.bias", "other.bias", "met"}
    average = Average(network, 0.5)
    assert average.weights().keys() == weights_of(network).keys()
    tied = build_encoder_decoder(TransformerConfig(width=8, heads=2, depth=1), 11, 11, joint=True)
    tables = [name for name, tensor in weights_of(tied).items() if tensor.shape == (11, 8)]
    assert tables == ["encoder.embedding.table.weight"]


def test_weights_go_into_another_network_of_the_kind() -> None:
    one, other = Shared(), Shared()
    load_weights(other, weights_of(one))
    assert torch.equal(one.one.weight, other.one.weight)
    assert other.other.weight is other.one.weight
    assert torch.equal(one.other.bias, other.other.bias)


def test_the_mean_of_several_moments_leaves_whole_numbers_alone() -> None:
    several = [{"a": torch.tensor([float(i), 2.0]), "met": torch.tensor(i)} for i in (1, 2, 6)]
    mean = mean_of(several)
    assert mean["a"].tolist() == [3.0, 2.0]
    assert mean["met"].item() == 1


def test_the_mean_of_one_is_that_one() -> None:
    weights = weights_of(nn.Linear(5, 5))
    assert all(torch.equal(tensor, weights[name]) for name, tensor in mean_of([weights]).items())
