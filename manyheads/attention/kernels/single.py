"""Attention of one new token over a cache, reading only the slots that are filled.

B batch, H heads, G key/value heads, S slots, C channels of one head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

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
from manyheads.attention.patterns import Causal
from manyheads.attention.places import Grid

TakeNew: TypeAlias = Callable[[], tuple[Tensor, Tensor]]
ABLE: frozenset[Feature] = frozenset({"gradient"})  # requested unless gradients are turned off


class Single:
    """A Triton kernel on CUDA, forward only: it reads on the device how far a cache is filled.

    `choose` does not consider it, since only a recorded step gains from it. With `rows` or
    `take_new` it also runs on a CPU, in plain torch, so that a recorded step can be tested there.
    """

    name = "single"

    def __init__(self, rows: Tensor | None = None, take_new: TakeNew | None = None):
        """`rows` (B, S) says for each sequence and slot which row of the cache holds the token:
        reordering beams then moves a table of indices and no keys. `take_new` returns the
        new keys and values of an `Unwritten` cache, which are written while it is read."""
        self.rows, self.take_new = rows, take_new

    def refuses(self, work: Work) -> str:
        if reason := find_missing_feature(work, ABLE):
            return reason
        if work.pattern != Causal():
            return "it computes Causal() alone"
        q, k = work.pairs.queries, work.pairs.keys
        if len(q) != 1 or not isinstance(q, Grid) or not k.straight:
            return "it takes one query, over slots in their order from the first on"
        if work.dtype == torch.float64:
            return "it computes in 32 bits, these tensors have 64"
        told = self.rows is not None or self.take_new is not None
        return "" if told and work.device.type == "cpu" else lacks_triton(work)

    def cost(self, work: Work) -> float:
        return 0.5

    def prepare(self, work: Work) -> tuple[Tensor, Tensor | None]:
        """Return the query's place, shared (1,) or per sequence (B, 1), and `rows`."""
        return work.pairs.queries.order, self.rows

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        place, rows = plan.form
        scale = how.score.scale(key.shape[-1])
        asked = how.score.query(query), key, value, place, rows, scale
        if self.take_new is None:
            return one_query(*asked)
        return write_and_ask(*asked, self.take_new())


def write_and_ask(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    place: Tensor,
    rows: Tensor | None,
    scale: float,
    new: tuple[Tensor, Tensor],
) -> Tensor:
    """Write new keys and values (B, G, 1, C) into the cache at `place` (1,), then do as one_query:
    in one program on CUDA."""
    if query.is_cuda:
        from manyheads.attention.kernels.triton.single import launch

        return launch(query, key, value, place, rows, scale, new)
    for slots, one in zip((key, value), new, strict=True):
        slots.index_copy_(2, place, one)
    return one_query(query, key, value, place, rows, scale)


@torch.library.custom_op(
    "manyheads::one_query",
    mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, Tensor place, Tensor? rows, float scale)"
    " -> Tensor",
)
def one_query(*inputs: Any) -> Tensor:
    """(B, H, 1, C), two of (B, G, S, C), place (1,) or (B, 1), rows (B, S) -> (B, H, 1, C)"""
    if inputs[0].device.type == "cpu":
        return one_query_plainly(*inputs)
    from manyheads.attention.kernels.triton.single import launch

    return launch(*inputs)


def one_query_plainly(
    query: Tensor, key: Tensor, value: Tensor, place: Tensor, rows: Tensor | None, scale: float
) -> Tensor:
    slots, groups = torch.arange(key.shape[2]), query.shape[1] // key.shape[1]
    if rows is not None:
        key, value = (x[rows, :, slots].transpose(1, 2) for x in (key, value))
    key, value = (repeat_heads(x, groups) for x in (key, value))
    scores = scale * query @ key.transpose(2, 3)  # (B, H, 1, S)
    empty = slots > place.view(-1, 1)  # (1, S) or (B, S)
    return scores.masked_fill(empty[:, None, None], -torch.inf).softmax(-1) @ value


@one_query.register_fake
def _(query: Tensor, *others: Any) -> Tensor:
    return query.new_empty(query.shape)
