"""Optimizers by name, each made for a network and its training settings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from manyheads.training.config import Training

AT_ONCE = 2**24  # numbers that Muon turns together: more would take memory and save no time


def make_adam(kind: Any, network: nn.Module, training: Training) -> list[Optimizer]:
    """Make Adam or AdamW, with weight decay for matrices only, not for biases and norms.

    In Adam the decay is part of the gradient: weights that hardly matter to the loss soon go to
    zero.
    """
    matrices = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [kind(groups, training.learning_rate, training.betas, fused=True)]


class FusedMuon(torch.optim.Muon):
    """torch's Muon, for weights that stack several matrices, of `sizes` rows each: queries, keys
    and values. Each matrix is made orthogonal alone, which learns faster.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            for weight in weights:
                if "momentum_buffer" not in self.state[weight]:
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
            for some in split_by_size(weights, AT_ONCE):
                self.move(some, group)

    def move(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Move some weights: parts of one shape are made orthogonal together."""
        rate, momentum = group["lr"], group["momentum"]
        grads = [cast(Tensor, weight.grad) for weight in weights]
        kept = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_lerp_(kept, grads, 1 - momentum)
        updates = torch._foreach_lerp(grads, kept, momentum)  # Nesterov's look ahead
        torch._foreach_mul_(weights, 1 - rate * group["weight_decay"])
        alike: dict[Any, list[tuple[Tensor, Tensor]]] = {}
        for weight, update in zip(weights, updates, strict=True):
            sizes = group["sizes"] or (len(weight),)
            for part in zip(weight.split(sizes), update.split(sizes), strict=True):
                alike.setdefault((part[0].shape, weight.dtype), []).append(part)
        for (shape, dtype), some in alike.items():
            longer = max(1.0, shape[0] / shape[1]) ** 0.5
            parts, turning = zip(*some, strict=True)
            turned = orthogonalize(torch.stack(turning)).to(dtype)
            torch._foreach_add_(parts, turned.unbind(), alpha=-rate * longer)


def split_by_size(weights: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    """Split a list into lists of at most `size` numbers in all, or of one larger weight."""
    some: list[Tensor] = []
    for weight in weights:
        if some and sum(one.numel() for one in some) + weight.numel() > size:
            yield some
            some = []
        some.append(weight)
    if some:
        yield some


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return the nearest matrices with all singular values about 1, by five Newton-Schulz steps.

    Those of one shape are computed together: a step is a few large products, not hundreds of small
    ones. (N, rows, columns) -> (N, rows, columns)
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.mT if tall else x


def muon(network: nn.Module, training: Training) -> list[Optimizer]:
    """Use Muon for the matrices of layers, AdamW for all else: embeddings, heads, norms, biases."""
    sizes_of: dict[Tensor, tuple[int, ...]] = {}  # each weight once, though layers may share it
    for name, module in network.named_modules():
        above, _, last = name.rpartition(".")
        if isinstance(module, nn.Linear) and "head" not in name.split("."):
            sizes = getattr(network.get_submodule(above), "sizes", ()) if last == "inward" else ()
            sizes_of.setdefault(module.weight, tuple(sizes))
    if not sizes_of:
        raise ValueError(
            "muon moves the matrices of linear layers and this network has none; "
            "training.optimizer: adamw would do"
        )
    groups: dict[tuple[int, ...], list[Tensor]] = {}
    for weight, sizes in sizes_of.items():
        groups.setdefault(sizes, []).append(weight)
    others = [p for p in network.parameters() if p not in sizes_of]
    made: list[Optimizer] = [
        FusedMuon(
            [{"params": weights, "sizes": sizes} for sizes, weights in groups.items()],
            training.matrix_rate,
            training.weight_decay,
            training.matrix_momentum,
        )
    ]
    if others:
        rate, betas = training.learning_rate, training.betas
        made.append(torch.optim.AdamW(others, rate, betas, weight_decay=0.0, fused=True))
    return made


# A list, because one optimizer may not suit all weights. The `lr` of a group before the first step
# is its peak learning rate.
OPTIMIZERS: dict[str, Callable[[nn.Module, Training], list[Optimizer]]] = {
    "adamw": partial(make_adam, torch.optim.AdamW),
    "adam": partial(make_adam, torch.optim.Adam),
    "muon": muon,
}


def find_optimizer(name: str) -> Callable[[nn.Module, Training], list[Optimizer]]:
    if name not in OPTIMIZERS:
        raise ValueError(f"there is no optimizer {name!r}; there are {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name]


# What they keep begins with zeros. Exactly these classes: others may begin with other numbers.
FROM_ZERO = (
    *(torch.optim.Adam, torch.optim.AdamW, torch.optim.RAdam, torch.optim.Adamax),
    *(torch.optim.Adadelta, torch.optim.RMSprop, FusedMuon),
)


def make_optimizers(network: nn.Module, training: Training) -> list[Optimizer]:
    """Make the optimizers. All that one of FROM_ZERO keeps is allocated, so that its memory is in
    use at once; others begin with their first step.
    """
    made = find_optimizer(training.optimizer)(network, training)
    if not isinstance(made, list | tuple) or not all(isinstance(one, Optimizer) for one in made):
        raise ValueError(
            f"optimizer {training.optimizer!r} makes a list of optimizers, as in "
            f"[AdamW(network.parameters())], got {type(made).__name__}"
        )
    for optimizer in made:
        before = copy.deepcopy([*optimizer.state.values()])
        weights = [*optimizer.state]
        allocate_state(optimizer)
        if type(optimizer) not in FROM_ZERO:
            optimizer.state.clear()
            optimizer.state.update(zip(weights, before, strict=True))
            continue
        for value in (one for kept in optimizer.state.values() for one in kept.values()):
            if isinstance(value, Tensor):
                value.zero_()
    return made


def allocate_state(optimizer: Optimizer) -> None:
    """Allocate what an optimizer keeps, by a step with learning rate zero."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["initial_lr"], group["lr"] = group.get("initial_lr", rate), 0.0
        for weight in group["params"]:
            weight.grad = torch.zeros_like(weight)
    optimizer.step()
    optimizer.zero_grad()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    for part, value in (one for kept in optimizer.state.values() for one in kept.items()):
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{type(optimizer).__name__} keeps {part!r} as {value!r}, and a checkpoint holds "
                "tensors; torch.tensor(...) would do"
            )
