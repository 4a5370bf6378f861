"""Attention through FlexAttention: any pattern and any bias, and blocks that nobody sees are
skipped.

B batch, H heads, Q queries, K keys, C channels of one head.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from manyheads.attention.intervals import Truth, pooled
from manyheads.attention.kernels.base import Plan, Work, lacking
from manyheads.attention.patterns import Everything, Pattern, simplified, values_of
from manyheads.attention.places import Pairs, indices
from manyheads.attention.positions import Bias, DistanceBias, Feature
from manyheads.attention.scores import Score

BLOCK = 128  # pairs are skipped in blocks of this size: FlexAttention's own


class Flex:
    """Fused on CUDA. On a CPU it runs as plain code, forward only: for trying, not for speed."""

    name = "flex"

    def refuses(self, work: Work) -> str:
        able: set[Feature] = {"distance bias", "content bias"}
        if work.device.type != "cpu":
            able.add("gradient")
            if work.channels < 16:
                return (
                    f"on {work.device.type} it needs heads of 16 "
                    f"channels or more, got {work.channels}"
                )
        reason = lacking(work, frozenset(able))
        return reason.replace("it has no gradient", "it has no gradient on a CPU")

    def cost(self, work: Work) -> float:
        return 1.3 if work.device.type == "cuda" else 30.0

    def prepare(self, work: Work) -> BlockMask | None:
        pattern, pairs = simplified(work.pattern, work.pairs), work.pairs
        if pattern == Everything():
            return None

        def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return pattern.allows(pairs.at(b, h, i, j))

        truth = block_truth(pattern, pairs, BLOCK)
        some, whole = torch.broadcast_tensors(truth.some, truth.all)
        whole = whole & some  # an empty block is not a full one
        return BlockMask.from_kv_blocks(
            *listed(some & ~whole),
            *listed(whole),
            BLOCK_SIZE=BLOCK,
            mask_mod=mask_mod,
            seq_lengths=(len(pairs.queries), len(pairs.keys)),
        )

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
        scale, pairs = score.scale(key.shape[-1]), plan.work.pairs
        score_mod = None
        if biases:
            scorers = [bias.scorer(query, scale) for bias in biases]

            def score_mod(plain: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
                for scorer in scorers:
                    plain = plain + scorer(pairs.at(b, h, i, j))
                return plain

        backend = "inductor" if query.is_cuda else "eager"
        return compiled(structure_of(plan.work, biases), backend)(
            score.query(query),
            key,
            value,
            score_mod=score_mod,
            block_mask=plan.form,
            scale=scale,
            enable_gqa=plan.work.groups > 1,
        )


def block_truth(pattern: Pattern, pairs: Pairs, size: int) -> Truth:
    """Of every block of pairs, whether some and whether all are allowed.

    By intervals, without looking at pairs. A pattern of one's own may use what intervals do not
    know (`%`, a table look-up): then every pair is looked at, a row of blocks at a time.
    """
    try:
        truth = pattern.allows(pairs.blockwise(size, size))
        return truth
    except (TypeError, AttributeError, LookupError):
        return exact_truth(pattern, pairs, size)


def exact_truth(pattern: Pattern, pairs: Pairs, size: int) -> Truth:
    b, h, i, j = indices(pairs.shape, pairs.device)
    some, whole = [], []
    for rows in i.split(size, 2):
        allowed = pattern.allows(pairs.at(b, h, rows, j))
        allowed = allowed.expand(*allowed.shape[:3], len(pairs.keys)).int()
        along = pooled(torch.stack([allowed.amin(2), allowed.amax(2)]), size)
        some.append(along.high[1] > 0)
        whole.append(along.low[0] > 0)
    return Truth(torch.stack(some, 2), torch.stack(whole, 2))


def listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Which blocks of keys each block of queries visits: how many, and their numbers, those
    first."""
    count = blocks.sum(-1, dtype=torch.int32)
    numbers = torch.argsort(blocks.int(), dim=-1, descending=True, stable=True)
    return count, numbers.to(torch.int32)


@cache
def compiled(structure: Hashable, backend: str) -> Callable[..., Any]:
    """FlexAttention compiled for one structure of pattern, places and biases.

    Each structure has a code object of its own, because torch keeps compiled versions by code and,
    looking for one that fits, trips over values of another structure. `fullgraph` makes it fail
    aloud, and not run uncompiled, when one structure has been compiled too often.
    """
    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, 64)
    own = FunctionType(flex_attention.__code__.replace(), flex_attention.__globals__)
    own.__defaults__, own.__kwdefaults__ = (
        flex_attention.__defaults__,
        flex_attention.__kwdefaults__,
    )
    return torch.compile(own, fullgraph=True, backend=backend)


def structure_of(work: Work, biases: tuple[Bias, ...]) -> Hashable:
    """What makes two calls one program: everything but their tensors."""
    places = tuple((type(at), len(at.axes)) for at in (work.pairs.queries, work.pairs.keys))
    kinds = tuple((type(bias), len(tables_of(bias)), bias.rule) for bias in biases)
    return skeleton(work.pattern), places, kinds


def skeleton(value: Any) -> Hashable:
    """A pattern without its tensors: Lengths([3, 5]) -> (Lengths, Tensor)"""
    match value:
        case Pattern():
            return type(value), *map(skeleton, values_of(value))
        case tuple():
            return tuple(map(skeleton, value))
        case Tensor():
            return Tensor
    return value


def tables_of(bias: Bias) -> Tensor:
    return bias.tables if isinstance(bias, DistanceBias) else bias.key_tables
