"""Linear layers in 8 bits on a CPU: weights are quantized once, inputs row by row (dynamic).

M rows, K inputs, N outputs.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.kernels.padded import Padded
from manyheads.attention.layer import ALL
from manyheads.devices import keep_freed_memory
from manyheads.modules.stack import Stack
from manyheads.modules.transformer import Tied

HIGHEST = 127  # -128 is not used, so that rounding is symmetric around 0
SMALLEST = 1e-30  # lower bound of a row's largest number, so that a row of zeros has a step
AT_ONCE = 2**20  # outputs computed at once, which stay in a core's cache until they are scaled
FAST = torch.cpu._is_vnni_supported()

Network = TypeVar("Network", bound=nn.Module)


class Linear8(nn.Linear):
    """A linear layer that multiplies in 8 bits; it saves and exports its original weights."""

    levels: Tensor
    steps: Tensor

    def __init__(self, linear: nn.Linear):
        nn.Module.__init__(self)
        self.weight, self.bias = linear.weight, linear.bias
        self.out_features, self.in_features = self.weight.shape
        self.hold()

    def hold(self) -> None:
        store_int8(self, self.weight)

    def forward(self, x: Tensor, rows: slice = ALL) -> Tensor:
        if rows == ALL:
            return multiply_int8(x, self.levels, self.steps, self.bias)
        bias = None if self.bias is None else self.bias[rows]
        return multiply_int8(x, self.levels[rows], self.steps[rows], bias)


class Tied8(Tied):
    """The same for an output layer that is tied to the embedding."""

    levels: Tensor
    steps: Tensor

    def __init__(self, tied: Tied):
        nn.Module.__init__(self)
        self.read_backwards, self.bias = tied.read_backwards, tied.bias
        self.hold()

    def hold(self) -> None:
        store_int8(self, self.read_backwards[0].table.weight)

    def forward(self, states: Tensor) -> Tensor:
        return multiply_int8(states, self.levels, self.steps, self.bias)


def store_int8(module: nn.Module, weight: Tensor) -> None:
    """Store weights (N, K) in 8 bits, with a scale (step) for each row."""
    levels, steps = round_rows(weight.detach())
    module.register_buffer("levels", levels, persistent=False)
    module.register_buffer("steps", steps.flatten(), persistent=False)


def round_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize each row with its own step: [[2., -4.]] -> [[64, -127]], [[4 / 127]]"""
    steps = x.abs().amax(-1, keepdim=True).clamp_(min=SMALLEST).div_(HIGHEST)
    return (x / steps).round_().to(torch.int8), steps


def multiply_int8(x: Tensor, levels: Tensor, steps: Tensor, bias: Tensor | None) -> Tensor:
    """(..., K) -> (..., N); integer sums are exact, so that no row depends on its batch."""
    rows, some = x.detach().reshape(-1, x.shape[-1]), max(AT_ONCE // len(levels), 1)
    if len(rows) <= some:
        return multiply_rows(rows, levels, steps, bias).view(*x.shape[:-1], len(levels))
    found = rows.new_empty(len(rows), len(levels))
    for part, out in zip(rows.split(some), found.split(some), strict=True):
        multiply_rows(part, levels, steps, bias, out)
    return found.view(*x.shape[:-1], len(levels))


def multiply_rows(
    x: Tensor, levels: Tensor, steps: Tensor, bias: Tensor | None, out: Tensor | None = None
) -> Tensor:
    rounded, own = round_rows(x)
    sums = add_up(rounded, levels)
    found = (sums.float() if out is None else out.copy_(sums)).mul_(steps)
    return found.mul_(own) if bias is None else torch.addcmul(bias.detach(), found, own, out=found)


def add_up(x: Tensor, levels: Tensor) -> Tensor:
    if FAST and x.is_cpu:
        return torch._int_mm(x, levels.t())
    return F.linear(x.float(), levels.float())  # exact for up to 1,040 inputs


def quantize(network: Network) -> Network:
    """Replace the linear layers of a network by 8-bit ones, in place."""
    keep_freed_memory()
    for module in list(network.modules()):
        if isinstance(module, Stack):
            module.kernel = Padded(module.kernel)
        for name, part in module.named_children():
            if type(part) is Tied:
                setattr(module, name, Tied8(part))
            elif isinstance(part, nn.Linear) and not isinstance(part, Linear8):
                setattr(module, name, Linear8(part))
    network.register_load_state_dict_post_hook(hold_again)
    return network


def hold_again(network: nn.Module, *_: Any) -> None:
    """Quantize again after new weights were loaded."""
    for part in network.modules():
        if isinstance(part, Linear8 | Tied8):
            part.hold()
