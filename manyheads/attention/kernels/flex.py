"""Attention through FlexAttention: any pattern and any bias, and blocks that nobody sees are
skipped.

B batch, H heads, Q queries, K keys, C channels of one head.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from manyheads.attention.intervals import Truth, pooled
from manyheads.attention.kernels.base import Plan, Work, lacking
from manyheads.attention.patterns import Everything, Pattern, simplified
from manyheads.attention.places import Pairs, indices
from manyheads.attention.positions import Bias, Feature
from manyheads.attention.scores import Score

BLOCK = 128  # pairs are skipped in blocks of this size: FlexAttention's own


class Flex:
    """Compiled on CUDA. On a CPU it runs as plain code, forward only: for trying, not for speed."""

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

        run = compiled() if query.is_cuda else eager
        return run(
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
def compiled() -> Callable[..., Any]:
    """FlexAttention, compiled; it fails aloud rather than run uncompiled once it has compiled
    too often."""
    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, 64)
    return torch.compile(flex_attention, fullgraph=True)


def eager(*args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile.*")
        return flex_attention(*args, **options)
