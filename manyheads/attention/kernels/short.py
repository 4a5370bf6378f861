"""Attention over packed rows that are so short that a row is one tile.

Flash attention gives each document its own tiles of 128 tokens; sentences have 15. Here a row of
128 tokens is one tile for all its documents, and their numbers give the mask. The plan needs
nothing from the host, so that a training step can be recorded once as a CUDA graph for all batches.

B batch, H heads, Q queries, K keys, C channels of one head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.biases import Feature
from manyheads.attention.kernels.base import (
    Plan,
    Scoring,
    Work,
    find_missing_feature,
    lacks_triton,
    repeat_heads,
)
from manyheads.attention.kernels.relative import as_tokens
from manyheads.attention.kernels.varlen import refuse_pattern, segments_of
from manyheads.attention.patterns import Causal

ABLE: frozenset[Feature] = frozenset({"gradient", "dropout"})
TILE = 128  # tokens of a row


@dataclass(frozen=True, eq=False)
class RowDocuments:
    """The document number of each query and of each key."""

    ids: Tensor  # (B, Q) int32
    key_ids: Tensor  # (B, K) int32
    causal: bool


class Short:
    """A Triton kernel on CUDA: one program for each head of each row, forward and backward."""

    name = "short"
    cuda_only = True

    def refuses(self, work: Work) -> str:
        return self.unfit(work) or lacks_triton(work)

    def unfit(self, work: Work) -> str:
        """Say why this kernel cannot do this work on any device; empty if it can."""
        if reason := find_missing_feature(work, ABLE) or refuse_pattern(work):
            return reason
        if max(len(work.pairs.queries), len(work.pairs.keys)) > TILE:
            return f"its rows have {TILE} tokens at most"
        if work.dtype not in (torch.float16, torch.bfloat16):
            return f"it computes in 16 bits, {work.dtype} was asked for"
        return "" if work.channels <= TILE else f"it takes heads of {TILE} channels at most"

    def cost(self, work: Work) -> float:
        return 0.2

    def prepare(self, work: Work) -> RowDocuments:
        segments = segments_of(work)
        other = segments.ids if segments.keys is None else segments.keys
        rows = work.pairs.shape[0], -1
        ids, key_ids = (x.expand(rows).int().contiguous() for x in (segments.ids, other))
        return RowDocuments(ids, key_ids, Causal() in work.pattern.parts())

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        form, scale = plan.form, how.score.scale(key.shape[-1])
        key, value = repeat_heads(key, plan.groups), repeat_heads(value, plan.groups)
        # From torch's random generator, on the device: a recorded graph draws a new seed each time.
        seed = torch.randint(2**31 - 1, (1 if how.dropout else 0,), device=query.device)
        return short_attention(
            how.score.query(query),
            key,
            value,
            form.ids,
            form.key_ids,
            seed,
            scale,
            form.causal,
            how.dropout,
        )


INPUTS = (
    "Tensor query, Tensor key, Tensor value, Tensor ids, Tensor key_ids, Tensor seed, "
    "float scale, bool causal, float dropout"
)


@torch.library.custom_op(
    "manyheads::short_attention", mutates_args=(), schema=f"({INPUTS}) -> Tensor"
)
def short_attention(*inputs: Any) -> Tensor:
    """(B, H, Q, C), two of (B, H, K, C), documents (B, Q) and (B, K) -> (B, H, Q, C)"""
    from manyheads.attention.kernels.triton.short import attend_rows

    return attend_rows(*inputs)


@short_attention.register_fake
def _(query: Tensor, *others: Any) -> Tensor:
    return as_tokens(query)


@torch.library.custom_op(
    "manyheads::short_attention_backward",
    mutates_args=(),
    schema=f"({INPUTS}, Tensor grad) -> Tensor[]",
)
def short_attention_backward(*inputs: Any) -> list[Tensor]:
    """Return the gradients of query, key and value."""
    from manyheads.attention.kernels.triton.short import gradients_of_rows

    return gradients_of_rows(*inputs)


@short_attention_backward.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> list[Tensor]:
    return [as_tokens(x) for x in (query, key, value)]


def keep_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.scale, ctx.causal, ctx.dropout = inputs
    ctx.save_for_backward(*tensors)


def short_gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    found = short_attention_backward(*ctx.saved_tensors, ctx.scale, ctx.causal, ctx.dropout, grad)
    return (*found, *[None] * 6)


short_attention.register_autograd(short_gradients, setup_context=keep_inputs)
