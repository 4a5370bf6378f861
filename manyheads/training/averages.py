"""Weights that are means of weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Everything a network keeps, what two of its parts share under one name alone."""
    met: set[int] = set()
    alone = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in met:
            met.add(id(tensor))
            alone[name] = tensor.detach()
    return alone


def load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Put `weights_of` a network back into one of its kind."""
    with torch.no_grad():
        for name, tensor in weights_of(network).items():
            tensor.copy_(weights[name])


class Average:
    """A running mean of a network's weights, in which old ones fade.

    At first it fades faster, so that the start of training is soon forgotten.
    """

    def __init__(self, network: nn.Module, decay: float):
        self.network, self.decay = network, decay
        self.kept = {name: p.detach().clone() for name, p in network.named_parameters()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after this step, counted from 1."""
        decay = min(self.decay, step / (step + 10))
        now = [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(list(self.kept.values()), now, 1 - decay)

    def weights(self) -> dict[str, Tensor]:
        """Everything a network holds, its weights replaced by their mean."""
        return {**weights_of(self.network), **self.kept}

    def restore(self, kept: dict[str, Tensor]) -> None:
        for name, tensor in self.kept.items():
            tensor.copy_(kept[name])


def mean_of(several: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of the weights of several moments; whole numbers are taken from the first."""
    first, *_ = several
    return {
        name: torch.stack([weights[name] for weights in several]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in first.items()
    }
