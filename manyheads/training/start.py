"""How a network begins with weights that were trained before."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from manyheads.training.averages import load_weights, weights_of
from manyheads.training.files import read_tensors

HEADS = ("head.", "pooler.")  # what stands on a network and is of one task alone


def adopt(network: nn.Module, path: Path) -> bool:
    """Put the weights of a file into a network; whether none of it begins anew."""
    held, _ = read_tensors(path)
    own, taken = weights_of(network), adopted(network, held)
    load_weights(network, {**own, **taken})
    return own.keys() == taken.keys()


def adopted(network: nn.Module, held: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights held, by their names here: an encoder's also where it is part of a network.

    A head of another size begins anew; all else has to fit.
    """
    taken = {}
    for name, own in weights_of(network).items():
        names = (name, name.removeprefix("encoder."), f"encoder.{name}")
        found = next((held[other] for other in names if other in held), None)
        if found is not None and found.shape == own.shape:
            taken[name] = found.to(own.dtype)
        elif not name.startswith(HEADS):
            there = "missing" if found is None else tuple(found.shape)
            raise ValueError(
                f"the weights to start from do not fit: {name} is {tuple(own.shape)} here and "
                f"{there} there; without network settings the network is the one it starts from"
            )
    return taken
