"""Attention of one new token over a cache, reading only the slots that are filled.

B batch, H heads, G key/value heads, S slots, C channels of one head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.attention.biases import Bias, Feature
from manyheads.attention.kernels.base import Plan, Work, lacks, lacks_triton
from manyheads.attention.patterns import Causal
from manyheads.attention.places import Grid
from manyheads.attention.scores import Score

ABLE: frozenset[Feature] = frozenset({"gradient"})  # asked for where nobody turned it off


class Single:
    """A Triton kernel on CUDA, forward only: how far a cache is filled is read on the device.

    Not among those that `choose` looks at: only a step that is recorded gains from it.
    """

    name = "single"

    def refuses(self, work: Work) -> str:
        if reason := lacks(work, ABLE):
            return reason
        if work.pattern != Causal():
            return "it computes Causal() alone"
        q, k = work.pairs.queries, work.pairs.keys
        if len(q) != 1 or not isinstance(q, Grid) or not k.straight:
            return "it takes one query, over slots in their order from the first on"
        if work.dtype == torch.float64:
            return "it computes in 32 bits, these tensors have 64"
        return lacks_triton(work)

    def cost(self, work: Work) -> float:
        return 0.5

    def prepare(self, work: Work) -> Tensor:
        """The place of the query, for all or for each: (1,) or (B, 1)."""
        return work.pairs.queries.order

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: Plan,
        *,
        score: Score,
        biases: tuple[Bias, ...],
        dropout: float,
    ) -> Tensor:
        return one_query(score.query(query), key, value, plan.form, score.scale(key.shape[-1]))


@torch.library.custom_op(
    "manyheads::one_query",
    mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, Tensor place, float scale) -> Tensor",
)
def one_query(query: Tensor, key: Tensor, value: Tensor, place: Tensor, scale: float) -> Tensor:
    """(B, H, 1, C), two of (B, G, S, C), place (1,) or (B, 1) -> (B, H, 1, C)"""
    from manyheads.attention.kernels.triton.single import launch

    return launch(query, key, value, place, scale)


@one_query.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, place: Tensor, scale: float) -> Tensor:
    return query.new_empty(query.shape)
