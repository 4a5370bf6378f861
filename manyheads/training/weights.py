"""Take the weights out of a network, load them, and average them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from manyheads.training.files import read_tensors

# Parts of one task alone: heads of a network, and embeddings of token types.
HEADS = (
    *("head.", "pooler.", "encoder.embedding.types."),
    *("upsample.", "length_head.", "reader.", "squeeze.", "spread.", "prior."),
)


def count_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name; a tensor that two parts share has one name."""
    met: set[int] = set()
    alone = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in met:
            met.add(id(tensor))
            alone[name] = tensor.detach()
    return alone


def load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Copy weights, as from `weights_of`, into a network of the same kind."""
    with torch.no_grad():
        for name, tensor in weights_of(network).items():
            tensor.copy_(weights[name])


def adopt(network: nn.Module, path: Path) -> bool:
    """Load the weights of a file into a network, those of an encoder also if it is part of one.
    Return whether nothing kept its initial weights, as a head of another size does; all else must
    fit.
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
    """The exponential moving average of a network's weights.

    The decay is lower at first, so that the start of training is soon forgotten.
    """

    def __init__(self, network: nn.Module, decay: float):
        self.network, self.decay = network, decay
        self.kept = {name: p.detach().clone() for name, p in network.named_parameters()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after this step, counted from 1."""
        decay = min(self.decay, step / (step + 10))
        now = [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(list(self.kept.values()), now, 1 - decay)

    def weights(self) -> dict[str, Tensor]:
        """Return all tensors of the network, with parameters replaced by their average."""
        return {**weights_of(self.network), **self.kept}

    def restore(self, kept: dict[str, Tensor]) -> None:
        for name, tensor in self.kept.items():
            tensor.copy_(kept[name])


def mean_of(several: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several sets of weights; whole numbers are taken from the first."""
    first, *_ = several
    return {
        name: torch.stack([weights[name] for weights in several]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in first.items()
    }
