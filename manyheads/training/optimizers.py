"""What moves the weights: a table of optimizers, each made for a network and its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from manyheads.training.config import Training


def make_adam(kind: Any, network: nn.Module, training: Training) -> list[Optimizer]:
    """A norm's scale and a bias are not pulled towards zero: only what multiplies is.

    Of Adam the decay is part of the gradient: what hardly matters to the loss goes to zero at once.
    """
    matrices = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [kind(groups, training.learning_rate, training.betas, fused=True)]


class FusedMuon(torch.optim.Muon):
    """torch's, where a weight may be several matrices below each other, of so many rows (`sizes`):
    queries, keys and values. Each is made orthogonal by itself, which learns faster.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for weight in (p for p in group["params"] if p.grad is not None):
                if "momentum_buffer" not in self.state[weight]:
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
                kept = self.state[weight]["momentum_buffer"].lerp_(weight.grad, 1 - momentum)
                update = weight.grad.lerp(kept, momentum)  # Nesterov's look ahead
                weight.mul_(1 - rate * group["weight_decay"])
                sizes = group["sizes"] or (len(weight),)
                for part, turned in zip(weight.split(sizes), update.split(sizes), strict=True):
                    longer = max(1.0, len(part) / part.shape[1]) ** 0.5
                    part.sub_(orthogonalize(turned).to(part.dtype), alpha=rate * longer)


def orthogonalize(matrix: Tensor) -> Tensor:
    """The nearest matrix whose singular values are all about 1, by five steps of Newton-Schulz."""
    x = matrix.bfloat16() if matrix.is_cuda else matrix
    tall = len(x) > x.shape[1]
    x = x.mT if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.mT if tall else x


def muon(network: nn.Module, training: Training) -> list[Optimizer]:
    """Muon for the matrices of layers, AdamW for all else: tables, heads, norms, single numbers."""
    groups: dict[tuple[int, ...], list[Tensor]] = {}
    for name, module in network.named_modules():
        above, _, last = name.rpartition(".")
        if isinstance(module, nn.Linear) and "head" not in name.split("."):
            sizes = getattr(network.get_submodule(above), "sizes", ()) if last == "inward" else ()
            groups.setdefault(tuple(sizes), []).append(module.weight)
    if not groups:
        raise ValueError("muon moves the matrices of linear layers and this network has none")
    taken = {id(weight) for weights in groups.values() for weight in weights}
    others = [p for p in network.parameters() if id(p) not in taken]
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


# Several where one does not suit all weights. Each group's rate is that of the settings, or so many
# times it, as `lr` says before the first step.
OPTIMIZERS: dict[str, Callable[[nn.Module, Training], list[Optimizer]]] = {
    "adamw": partial(make_adam, torch.optim.AdamW),
    "adam": partial(make_adam, torch.optim.Adam),
    "muon": muon,
}


def find_optimizer(name: str) -> Callable[[nn.Module, Training], list[Optimizer]]:
    if name not in OPTIMIZERS:
        raise ValueError(f"there is no optimizer {name!r}; there are {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name]


def make_optimizers(network: nn.Module, training: Training) -> list[Optimizer]:
    """With all that they keep of each weight there from the first: it takes room."""
    made = find_optimizer(training.optimizer)(network, training)
    for optimizer in made:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
            group["lr"] = 0.0
            for weight in group["params"]:
                weight.grad = torch.zeros_like(weight)
        # A step of size zero makes what it keeps, then all is zero again.
        optimizer.step()
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for value in (one for kept in optimizer.state.values() for one in kept.values()):
            if isinstance(value, Tensor):
                value.zero_()
    return made
