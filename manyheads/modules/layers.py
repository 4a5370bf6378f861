"""The parts of a block beside attention: norms, feed-forward layers and residual connections.

B batch, T tokens, D model width, F inner width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.modules.config import NormPosition

SMALL = 0.02  # GPT-2's initial standard deviation, for any width


def init_linear(*linears: nn.Linear) -> None:
    """Initialise weights by Xavier's rule and biases with 0."""
    for linear in linears:
        nn.init.xavier_uniform_(linear.weight)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


def init_fused(linear: nn.Linear, rows: int) -> None:
    """Initialise a layer made of several layers of `rows` rows, each by Xavier's rule."""
    for weight in linear.weight.split(rows):
        nn.init.xavier_uniform_(weight)
    nn.init.zeros_(linear.bias)


def init_cells(cells: nn.LSTM | nn.GRU) -> None:
    """Initialise gate by gate; orthogonal recurrent weights keep the length of a state."""
    hidden = cells.hidden_size
    with torch.no_grad():
        for name, parameter in cells.named_parameters():
            if "bias" in name:
                parameter.zero_()
                if isinstance(cells, nn.LSTM) and "bias_ih" in name:
                    parameter[hidden : 2 * hidden] = 1  # forget gate: remember at first
                continue
            for gate in parameter.split(hidden):
                (nn.init.orthogonal_ if "weight_hh" in name else nn.init.xavier_uniform_)(gate)


def init_convolution(convolution: nn.Conv1d, dropout: float) -> None:
    """Initialise so that activations keep their size after gates and dropout (ConvS2S, A.1)."""
    reached = convolution.kernel_size[0] * convolution.in_channels
    nn.init.normal_(convolution.weight, std=math.sqrt(4 * (1 - dropout) / reached))
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)


def init_table(table: nn.Embedding, scaled: bool = False) -> None:
    """Initialise small; or, if `scaled`, so that a vector times sqrt(width) has unit variance."""
    nn.init.normal_(table.weight, std=table.embedding_dim**-0.5 if scaled else SMALL)


def init_normal(*linears: nn.Linear, std: float = SMALL) -> None:
    """Initialise weights as GPT-2 does and biases with 0."""
    for linear in linears:
        nn.init.normal_(linear.weight, std=std)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


def init_parts(parts: Sequence[Any], init: str, residual: bool) -> None:
    """Initialise the parts of a stack's blocks, each with its `inward` and its `out` layer.

    Outputs that are added to the residual stream are scaled down by the number of parts, or zero.
    """
    with torch.no_grad():
        for part in parts:
            if init != "xavier":
                init_normal(part.inward, part.out)
            if init == "zero":
                part.out.weight.zero_()
            elif residual:
                part.out.weight.mul_(len(parts) ** -0.5)


class FeedForward(nn.Module):
    """The feed-forward layer: expand, activate, project back, for each token."""

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
    """A gated feed-forward layer (GLU): half of the channels are the gate of the other half."""

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
        self.sizes = [inner, inner]  # rows of gate and content in one matrix
        self.inward, self.out = (
            nn.Linear(width, 2 * inner, bias=bias),
            nn.Linear(inner, width, bias=bias),
        )
        self.dropout = nn.Dropout(dropout)
        init_linear(self.inward, self.out)

    def forward(self, x: Tensor) -> Tensor:
        gate, content = self.inward(x).chunk(2, -1)
        return self.out(self.dropout(self.activation(gate) * content))


def relu2(x: Tensor) -> Tensor:
    return F.relu(x).square()


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu2": relu2,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
}

FEED_FORWARDS: dict[str, Callable[..., nn.Module]] = {
    **{name: partial(FeedForward, activation=one) for name, one in ACTIVATIONS.items()},
    "swiglu": GatedFeedForward,
    "geglu": partial(GatedFeedForward, activation=F.gelu),
}

# Each takes a width, an epsilon, and whether to have a bias (RMSNorm has none).
NORMS: dict[str, Callable[[int, float, bool], nn.Module]] = {
    "layer": lambda width, epsilon, bias: nn.LayerNorm(width, epsilon, bias=bias),
    "rms": lambda width, epsilon, bias: nn.RMSNorm(width, epsilon),
}


class Sublayer(nn.Module):
    """A part with its norm, dropout and residual connection.

    pre: x + part(norm(x)), which trains deep networks; post: norm(x + part(x)), as first published.
    Without the residual connection a part must pass on everything itself: an experiment of the lab.
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
        if self.training:  # saves a call in each of many short decoding steps
            y = self.dropout(y)
        if self.residual:
            y = x + y
        return self.norm(y) if self.norm_position == "post" else y

    def extra_repr(self) -> str:
        return f"norm_position={self.norm_position}, residual={self.residual}"
