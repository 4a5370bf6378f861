"""How weights begin, of every kind of layer but attention's own (attention/layer.py).

A layer made alone begins by Xavier's rule, which keeps the size of what passes through it; a whole
network begins as `init` of its config says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

SMALL = 0.02  # the deviation that GPT-2 begins with, whatever the width


def init_linear(*linears: nn.Linear) -> None:
    """Xavier's rule; biases of zero."""
    for linear in linears:
        nn.init.xavier_uniform_(linear.weight)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


def init_fused(linear: nn.Linear, rows: int) -> None:
    """Several layers of so many rows in one: each by itself."""
    for weight in linear.weight.split(rows):
        nn.init.xavier_uniform_(weight)
    nn.init.zeros_(linear.bias)


def init_cells(cells: nn.LSTM | nn.GRU) -> None:
    """Gate by gate; what a state becomes keeps its length."""
    hidden = cells.hidden_size
    with torch.no_grad():
        for name, parameter in cells.named_parameters():
            if "bias" in name:
                parameter.zero_()
                if isinstance(cells, nn.LSTM) and "bias_ih" in name:
                    parameter[hidden : 2 * hidden] = 1  # remember, until told to forget
                continue
            for gate in parameter.split(hidden):
                (nn.init.orthogonal_ if "weight_hh" in name else nn.init.xavier_uniform_)(gate)


def init_convolution(convolution: nn.Conv1d, dropout: float) -> None:
    """Gates halve what passes and dropout thins what comes: these keep its size (ConvS2S, A.1)."""
    reached = convolution.kernel_size[0] * convolution.in_channels
    nn.init.normal_(convolution.weight, std=math.sqrt(4 * (1 - dropout) / reached))
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)


def init_table(table: nn.Embedding, scaled: bool = False) -> None:
    """Small, or so that a vector times the root of its width is as large as sinusoids are."""
    nn.init.normal_(table.weight, std=table.embedding_dim**-0.5 if scaled else SMALL)


def init_normal(*linears: nn.Linear, std: float = SMALL) -> None:
    """As GPT-2; biases of zero."""
    for linear in linears:
        nn.init.normal_(linear.weight, std=std)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


def init_parts(parts: Iterable[Any], init: str, residual: bool) -> None:
    """The parts of a stack's blocks, each with its `inward` and its `out`.

    What is added to a residual stream is made smaller the more parts add to it, or begins at zero.
    """
    parts = list(parts)
    with torch.no_grad():
        for part in parts:
            if init != "xavier":
                init_normal(part.inward, part.out)
            if init == "zero":
                part.out.weight.zero_()
            elif residual:
                part.out.weight.mul_(len(parts) ** -0.5)


def init_head(head: nn.Linear, init: str) -> None:
    """What scores words and is no table that reads them; as torch has it unless a rule is named."""
    if init != "xavier":
        init_normal(head, std=0.0 if init == "zero" else SMALL)
