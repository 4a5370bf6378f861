"""Attention through FlexAttention: any pattern, biases of scores; fully masked blocks are skipped.

B batch, H heads, Q queries, K keys, C channels of one head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from manyheads.attention.biases import ContentBias, Feature, look_up
from manyheads.attention.evaluate import evaluate, simplify
from manyheads.attention.intervals import Truth, pool_runs
from manyheads.attention.kernels.base import (
    Plain,
    Plan,
    Scoring,
    Work,
    find_missing_feature,
    unknown_form,
)
from manyheads.attention.patterns import Everything, Pattern, is_builtin, values_of
from manyheads.attention.places import Pairs, indices
from manyheads.attention.rules import Rule
from manyheads.attention.tables import PairTable

LAUNCH = 2e8  # the overhead of a call, in pairs of plain attention on one GPU
OWN_PROGRAMS = 8  # how many shapes of one structure are compiled for that shape alone
BLOCK = 128  # FlexAttention's block size, in which pairs are skipped


class Flex:
    """Fused on CUDA. On a CPU it runs uncompiled, forward only: for tests, not for speed."""

    name = "flex"

    def refuses(self, work: Work) -> str:
        if not len(work.pairs.queries) or not len(work.pairs.keys):
            return "there are no pairs to attend"
        if isinstance(getattr(work.pairs.queries, "hops", None), PairTable):
            return "it reads no list of edges"
        if not is_builtin(work.pattern) and (held := find_unhashable(work.pattern)):
            return f"it reads patterns of numbers, tuples, lists and tensors, not of a {held}"
        able: set[Feature] = {"distance bias", "content bias"}
        if work.device.type != "cpu":
            able.add("gradient")
            if work.channels < 16:
                return (
                    f"on {work.device.type} it needs heads of 16 "
                    f"channels or more, got {work.channels}"
                )
        reason = find_missing_feature(work, frozenset(able))
        return reason.replace("it has no gradient", "it has no gradient on a CPU")

    def cost(self, work: Work) -> float:
        if work.device.type != "cuda":
            return 30.0
        share = 1.4 if simplify(work.pattern, work.pairs) == Everything() else 1.0
        if any(kind.bias is ContentBias for kind in work.kinds):
            share = 18.0  # it stores the products of each query and distance, and looks them up
        return share + LAUNCH / math.prod(work.pairs.shape)

    def prepare(self, work: Work) -> BlockMask | Plain:
        pattern, pairs = simplify(work.pattern, work.pairs), work.pairs
        if pattern == Everything():
            return Plain()

        if not is_builtin(pattern):  # of a single pair, as it is asked about below
            zero = torch.zeros((), dtype=torch.long, device=pairs.device)
            evaluate(pattern, pairs.at(zero, zero, zero, zero))

        def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return pattern.allows(pairs.at(b, h, i, j))

        truth = block_truth(pattern, pairs, BLOCK)
        wholly = truth.some & truth.all
        both = torch.stack([truth.some & ~wholly, wholly])
        mask = BlockMask.from_kv_blocks(
            *list_blocks(both),
            BLOCK_SIZE=BLOCK,
            mask_mod=mask_mod,
            seq_lengths=(len(pairs.queries), len(pairs.keys)),
            compute_q_blocks=False,
        )
        # The same lists by key, for the backward pass: cheaper than inverting the lists by query.
        mask.q_num_blocks, mask.q_indices, mask.full_q_num_blocks, mask.full_q_indices = (
            list_blocks(both.mT)
        )
        return mask

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        scale, pairs, form = how.score.scale(key.shape[-1]), plan.work.pairs, plan.form
        if not isinstance(form, BlockMask | Plain):
            raise unknown_form(self, form)
        score_mod = None
        read = [(bias.by_row(scale), bias.rule) for bias in how.biases]
        if read:

            def score_mod(plain: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
                for rows, rule in read:
                    plain = plain + look_up(rows, rule, pairs.at(b, h, i, j))
                return plain

        backend = "inductor" if query.is_cuda else "eager"
        run = compile_for_shape(
            structure_of(plan.work, read), (*query.shape, *key.shape[1:]), backend
        )
        return run(
            how.score.query(query),
            key,
            value,
            score_mod=score_mod,
            block_mask=None if isinstance(form, Plain) else form,
            scale=scale,
            enable_gqa=plan.groups > 1,
            # Each pipeline stage holds what is looked up: two stages do not fit.
            kernel_options={"num_stages": 1} if read else None,
        )


def block_truth(pattern: Pattern, pairs: Pairs, size: int) -> Truth:
    """Tell for each block whether some and whether all pairs are allowed: (B, H, Q/size, K/size).

    It uses intervals and visits no pairs. A user's own pattern may use what intervals do not have
    (`%`, a table look-up): then every pair is evaluated, a row of blocks at a time.
    """
    # A compiled pass cannot catch what a pattern of one's own raises here.
    asked = not torch.compiler.is_compiling() or is_builtin(pattern)
    try:
        truth = pattern.allows(pairs.blockwise(size, size)) if asked else None
    except (TypeError, AttributeError, LookupError, NotImplementedError):
        truth = None
    if not isinstance(truth, Truth):
        truth = exact_truth(pattern, pairs, size)
    blocks = -(-len(pairs.queries) // size), -(-len(pairs.keys) // size)
    return Truth(*(each.expand(*each.shape[:2], *blocks) for each in (truth.some, truth.all)))


def exact_truth(pattern: Pattern, pairs: Pairs, size: int) -> Truth:
    b, h, i, j = indices(pairs.shape, pairs.device)
    some, whole = [], []
    for rows in i.split(size, 2):
        allowed = evaluate(pattern, pairs.at(b, h, rows, j))
        allowed = allowed.expand(*allowed.shape[:3], len(pairs.keys)).int()
        along = pool_runs(torch.stack([allowed.amin(2), allowed.amax(2)]), size)
        some.append(along.high[1] > 0)
        whole.append(along.low[0] > 0)
    return Truth(torch.stack(some, 2), torch.stack(whole, 2))


def list_blocks(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return for each row of blocks how many it visits, and the block numbers, visited ones first.

    (2, B, H, rows, columns), blocks that need a mask and full blocks -> counts and numbers of those
    that need a mask, counts and numbers of the full ones.
    """
    counts = blocks.sum(-1, dtype=torch.int32)
    numbers = torch.argsort(blocks.int(), dim=-1, descending=True, stable=True)
    # The kernel ignores strides and reads contiguous memory.
    numbers = numbers.to(torch.int32, memory_format=torch.contiguous_format)
    counts = counts.contiguous()
    return counts[0], numbers[0], counts[1], numbers[1]


@cache
def compile_flex(
    structure: Hashable, shape: tuple[int, ...] | None, backend: str
) -> Callable[..., Any]:
    """Compile FlexAttention for one structure of pattern, places and biases, and for one shape.

    Each has its own code object: torch stores compiled versions by code object, and its guards
    fail on values of another structure. With `fullgraph`, too many recompilations raise an error
    instead of running uncompiled.
    """
    own = FunctionType(flex_attention.__code__.replace(), flex_attention.__globals__)
    own.__defaults__ = flex_attention.__defaults__
    own.__kwdefaults__ = flex_attention.__kwdefaults__
    return torch.compile(own, fullgraph=True, backend=backend, dynamic=shape is None)


def compile_for_shape(
    structure: Hashable, shape: tuple[int, ...], backend: str
) -> Callable[..., Any]:
    """Compile for this shape alone, a third faster; after a few shapes, use one for all others."""
    shapes = shapes_seen(structure)
    if len(shapes) < OWN_PROGRAMS:
        shapes.add(shape)
    return compile_flex(structure, shape if shape in shapes else None, backend)


@cache
def shapes_seen(structure: Hashable) -> set[tuple[int, ...]]:
    return set()


def structure_of(work: Work, read: list[tuple[Tensor, Rule]]) -> Hashable:
    """Return a key that is equal for calls that can share one program: all but their tensors."""
    places = tuple((type(at), len(at.axes)) for at in (work.pairs.queries, work.pairs.keys))
    biases = tuple((len(rows), rows.shape[1] > 1, rule) for rows, rule in read)
    return skeleton(work.pattern), places, biases


def skeleton(value: Any) -> Hashable:
    """Describe a pattern without its tensors: Lengths([3, 5]) -> (Lengths, Tensor)"""
    match value:
        case Pattern():
            return type(value), *map(skeleton, values_of(value))
        case tuple() | list():
            return type(value), *map(skeleton, value)
        case Tensor():
            return Tensor
    return value


def find_unhashable(value: Any) -> str:
    """Name the type of a value in a pattern by which no program can be found; empty if none is."""
    if isinstance(value, Pattern | tuple | list):
        inner = values_of(value) if isinstance(value, Pattern) else value
        return next(filter(None, map(find_unhashable, inner)), "")
    return "" if isinstance(value, Hashable) else type(value).__name__
