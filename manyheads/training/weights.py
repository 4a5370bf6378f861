"""What a network keeps: taken out of it, put into one, and averaged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from manyheads.training.files import read_tensors

# What is of one task alone: stands on a network, or tells parts of what it reads apart.
HEADS = (
    *("head.", "pooler.", "encoder.embedding.types."),
    *("upsample.", "length_head.", "reader.", "squeeze.", "spread.", "prior."),
)


def count_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


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


def adopt(network: nn.Module, path: Path) -> bool:
    """Put the weights of a file into a network, those of an encoder also where it is part of one;
    whether none of it begins anew, as a head of another size does. All else has to fit.
    """
    (held, _), own = read_tensors(path), weights_of(network)
    taken: dict[str, Tensor] = {}
    for name, tensor in own.items():
        names = (name, name.removeprefix("encoder."), f"encoder.{name}")
        found = next((held[other] for other in names if other in held), None)
        if found is not None and found.shape == tensor.shape:
            taken[name] = found.to(tensor.dtype)
        elif not name.startswith(HEADS):
            there = "missing" if found is None else tuple(found.shape)
            raise ValueError(
                f"the weights to start from do not fit: {name} is {tuple(tensor.shape)} here and "
                f"{there} there; without network settings the network is the one it starts from"
            )
    load_weights(network, own | taken)
    return own.keys() == taken.keys()


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
