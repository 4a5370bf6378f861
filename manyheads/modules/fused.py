"""The sublayers of a decoding step with two programs for all but attention.

A step of a small batch is bound by the number of programs, not by what they compute. In place of a
norm, a linear layer, an activation and an addition there is one Triton program, which rounds where
the modules round.

B batch, T tokens, D input width, N output width, M rows: all tokens of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.layer import ALL, Attention, JointLinear
from manyheads.modules.layers import ACTIVATIONS, FeedForward, GatedFeedForward, Sublayer
from manyheads.modules.stack import Block, Stack

TRITON = find_spec("triton") is not None
PRODUCTS = torch.float32, torch.bfloat16, torch.float16  # sums have 32 bits
MOST_ROWS = 64  # with more, libraries compute products faster


class FusedLinear(NamedTuple):
    """A linear layer, the norm of its input, and what is done with its output."""

    weight: Tensor  # (N, D), or (2 N, D) if gated
    bias: Tensor | None = None
    norm: nn.LayerNorm | nn.RMSNorm | None = None
    activation: str = ""  # one of ACTIVATIONS; "" is none
    gated: bool = False  # the first N outputs, activated, are factors of the last N

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, N); `residual` (B, T, N) is added."""
        if not (TRITON and x.is_cuda):
            return compute_plainly(self, x, residual)
        from manyheads.modules.triton_linear import launch

        added = None if residual is None else residual.flatten(0, 1).contiguous()
        return launch(x.flatten(0, 1).contiguous(), self, added).unflatten(0, x.shape[:2])


def compute_plainly(layer: FusedLinear, x: Tensor, residual: Tensor | None) -> Tensor:
    """Compute what the modules compute: the definition of what the program does."""
    y = F.linear(x if layer.norm is None else layer.norm(x), layer.weight, layer.bias)
    if layer.activation:
        activate = ACTIVATIONS[layer.activation]
        gate, *content = y.chunk(2, -1) if layer.gated else (y,)
        y = activate(gate) * content[0] if content else activate(gate)
    return y if residual is None else residual + y


class FusedSublayer:
    """A sublayer whose norm and residual connection are computed with its products."""

    def __init__(self, sublayer: Sublayer):
        part, norm = cast(Any, sublayer.part), cast(Any, sublayer.norm)
        activation = "" if isinstance(part, Attention) else cast(str, find_activation(part))
        gated = isinstance(part, GatedFeedForward)
        inward, out = part.inward, part.out
        self.part = part
        self.into = FusedLinear(inward.weight, inward.bias, norm, activation, gated)
        self.back = FusedLinear(out.weight, out.bias)
        self.x: Tensor | None = None

    def forward(self, x: Tensor, *told: Any, **options: Any) -> Tensor:
        if not isinstance(self.part, Attention):
            return self.back(self.into(x), x)
        self.x = x  # what `project_out` adds
        inward, out = cast(Any, self.part.inward), cast(Any, self.part.out)
        inward.forward, out.forward = self.project_in, self.project_out
        try:
            return cast(Tensor, self.part(x, *told, **options))
        finally:  # other sublayers may have the same part
            del inward.forward, out.forward

    def project_in(self, x: Tensor, rows: slice = ALL) -> Tensor:
        """Compute these rows of an attention layer's queries, keys and values."""
        if rows.start:
            raise ValueError("the keys and values of a memory are not computed in a fused step")
        weight, bias = self.into.weight[rows], self.into.bias
        some = self.into._replace(weight=weight, bias=None if bias is None else bias[rows])
        return some(x)

    def project_out(self, x: Tensor) -> Tensor:
        return self.back(x, self.x)


def is_fused(network: nn.Module, rows: int) -> bool:
    """Whether this network computes steps of so many tokens by fewer programs."""
    stack = getattr(network, "stack", None)
    return isinstance(stack, Stack) and stack.fused and rows <= MOST_ROWS


@contextmanager
def fuse_sublayers(network: nn.Module, rows: int) -> Iterator[None]:
    """If the network's stack is `fused`, compute its sublayers by fewer programs in steps of `rows`
    tokens; those that they cannot compute, plainly.

    For steps without gradients. The memory of cross-attention is not read meanwhile: its keys and
    values are in the cache.
    """
    changed: list[Any] = []
    blocks = cast(Any, network).stack.blocks if is_fused(network, rows) else ()
    try:
        for block in cast(list[Block], blocks):
            for sublayer in (cast(Any, part) for part in block.children() if can_fuse(part)):
                sublayer.forward = FusedSublayer(sublayer).forward
                changed.append(sublayer)
        yield
    finally:
        for sublayer in changed:
            del sublayer.forward


def can_fuse(sublayer: nn.Module) -> bool:
    """Whether the programs compute this sublayer: normalized first, with a residual connection and
    plain weights in the dtype that is computed in.

    The classes are these exactly: a subclass may compute something else.
    """
    if type(sublayer) is not Sublayer or sublayer.norm_position != "pre":
        return False
    part: Any = sublayer.part
    fed = type(part) in (FeedForward, GatedFeedForward) and find_activation(part) is not None
    if not (fed or type(part) is Attention) or not sublayer.residual or sublayer.training:
        return False
    changed = any(
        one._forward_hooks or one._forward_pre_hooks or "forward" in vars(one)
        for one in sublayer.modules()
    )
    cast_to = torch.is_autocast_enabled(part.out.weight.device.type)
    plain = is_plain(part.inward) and is_plain(part.out)
    return plain and not changed and not cast_to and is_known_norm(sublayer.norm)


def is_plain(linear: nn.Module) -> bool:
    """Whether this is a linear layer whose weight the programs can read."""
    if type(linear) not in (nn.Linear, JointLinear):
        return False
    weight = cast(Tensor, linear.weight)
    return weight.dtype in PRODUCTS and weight.is_contiguous()


def is_known_norm(norm: nn.Module) -> bool:
    if type(norm) not in (nn.LayerNorm, nn.RMSNorm):
        return False
    known = cast(nn.LayerNorm | nn.RMSNorm, norm)
    return len(known.normalized_shape) == 1 and known.weight is not None and bool(known.eps)


def find_activation(part: Any) -> str | None:
    """Return the name of a feed-forward layer's activation, None if it has another."""
    return next((name for name, one in ACTIVATIONS.items() if one is part.activation), None)
