"""The parts of a block beside attention: norms, feed-forward layers, and the way around them.

B batch, T tokens, D model width, F inner width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.modules.config import NormPosition
from manyheads.modules.init import init_linear


class FeedForward(nn.Module):
    """Each token by itself: wider, bent, back."""

    def __init__(
        self,
        width: int,
        inner: int,
        activation: Callable[..., Tensor] = F.relu,
        *,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        self.activation = activation
        self.inward, self.out = (
            nn.Linear(width, inner, bias=bias),
            nn.Linear(inner, width, bias=bias),
        )
        self.dropout = nn.Dropout(dropout)
        init_linear(self.inward, self.out)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.dropout(self.activation(self.inward(x))))


class GatedFeedForward(nn.Module):
    """The same with a gate: half of the channels decide how much of the other half passes."""

    def __init__(
        self,
        width: int,
        inner: int,
        activation: Callable[..., Tensor] = F.silu,
        *,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        self.activation = activation
        self.sizes = [inner, inner]  # rows of gate and content in one product
        self.inward, self.out = (
            nn.Linear(width, 2 * inner, bias=bias),
            nn.Linear(inner, width, bias=bias),
        )
        self.dropout = nn.Dropout(dropout)
        init_linear(self.inward, self.out)

    def forward(self, x: Tensor) -> Tensor:
        gate, content = self.inward(x).chunk(2, -1)
        return self.out(self.dropout(self.activation(gate) * content))


def relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


FEED_FORWARDS: dict[str, Callable[..., nn.Module]] = {
    "relu": FeedForward,
    "relu2": partial(FeedForward, activation=relu_squared),
    "gelu": partial(FeedForward, activation=F.gelu),
    "gelu-tanh": partial(FeedForward, activation=partial(F.gelu, approximate="tanh")),
    "silu": partial(FeedForward, activation=F.silu),
    "swiglu": GatedFeedForward,
    "geglu": partial(GatedFeedForward, activation=F.gelu),
}

# Made for a width, an epsilon, and whether there is a bias where there can be one.
NORMS: dict[str, Callable[[int, float, bool], nn.Module]] = {
    "layer": lambda width, epsilon, bias: nn.LayerNorm(width, epsilon, bias=bias),
    "rms": lambda width, epsilon, bias: nn.RMSNorm(width, epsilon),
}


class Sublayer(nn.Module):
    """A part with its norm, its dropout, and the residual way around it.

    pre: x + part(norm(x)), what trains when deep; post: norm(x + part(x)), as first published.
    Without the residual a block must carry everything itself: the lecture's experiment.
    """

    def __init__(
        self,
        part: nn.Module,
        norm: nn.Module,
        *,
        norm_position: NormPosition,
        dropout: float,
        residual: bool,
    ):
        super().__init__()
        if norm_position not in ("pre", "post"):
            raise ValueError(f"a norm stands 'pre' or 'post', got {norm_position!r}")
        self.part, self.norm, self.residual = part, norm, residual
        self.norm_position = norm_position
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        y = self.part(self.norm(x) if self.norm_position == "pre" else x, *args, **options)
        if self.training:  # elsewhere it does nothing, at each of many short steps
            y = self.dropout(y)
        if self.residual:
            y = x + y
        return self.norm(y) if self.norm_position == "post" else y

    def extra_repr(self) -> str:
        return f"norm_position={self.norm_position}, residual={self.residual}"
