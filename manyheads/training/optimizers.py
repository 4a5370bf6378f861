"""What moves the weights: a table of optimizers, each made for a network and its settings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from manyheads.training.config import Training


def adamw(network: nn.Module, training: Training) -> list[Optimizer]:
    """A norm's scale and a bias are not pulled towards zero: only what multiplies is."""
    matrices = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [torch.optim.AdamW(groups, training.learning_rate, training.betas, fused=True)]


def muon(network: nn.Module, training: Training) -> list[Optimizer]:
    """Muon for the matrices of layers, AdamW for all else: tables, heads, norms, single numbers."""
    matrices = [
        module.weight
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and "head" not in name.split(".")
    ]
    if not matrices:
        raise ValueError("muon moves the matrices of linear layers and this network has none")
    taken = set(map(id, matrices))
    others = [p for p in network.parameters() if id(p) not in taken]
    return [
        torch.optim.Muon(
            matrices, training.matrix_rate, training.weight_decay, training.matrix_momentum
        ),
        torch.optim.AdamW(
            others, training.learning_rate, training.betas, weight_decay=0.0, fused=True
        ),
    ]


# Several where one does not suit all weights. Each group's rate is that of the settings, or so many
# times it, as `lr` says before the first step.
OPTIMIZERS: dict[str, Callable[[nn.Module, Training], list[Optimizer]]] = {
    "adamw": adamw,
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
        begin_state(optimizer)
    return made


def begin_state(optimizer: Optimizer) -> None:
    """What an optimizer keeps before its first gradient: a step of size zero makes it, then all is
    zero again.
    """
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    optimizer.zero_grad()
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"]
    for kept in optimizer.state.values():
        for value in kept.values():
            if isinstance(value, Tensor):
                value.zero_()
