"""Attention over lists of blocks: what no query of a block may see costs nothing.

A pattern that holds for every batch, on places that the host knows, is cut once into blocks of 64
by 64 pairs: blocks without an allowed pair are not listed, full ones need no mask, and the others
have one bit for each pair. So a program reads no coordinates, and serves every pattern.

B batch, H heads, Q queries, K keys, C channels of one head, N listed blocks, M blocks with a mask.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from manyheads.attention.biases import Feature
from manyheads.attention.evaluate import evaluate, simplify
from manyheads.attention.kernels.base import (
    Plan,
    Scoring,
    Work,
    find_missing_feature,
    lacks_triton,
    unknown_form,
)
from manyheads.attention.kernels.flex import block_truth
from manyheads.attention.kernels.relative import as_tokens
from manyheads.attention.patterns import Causal, Everything, Pattern
from manyheads.attention.places import Grid, Pairs, Places, is_run

ABLE: frozenset[Feature] = frozenset({"gradient"})
BLOCK = 64  # pairs of a block along each side, and bits of a mask's row
SLOWER = 1.7  # time of a listed pair, in pairs of plain attention
LAUNCH = 5e7  # the overhead of a call, in pairs of plain attention on one GPU
EVALUATED = 2048  # blocks whose pairs are evaluated at once
KEPT = 32  # patterns on places whose lists are kept
MOST = 0.75  # share of the blocks: of more, the lists would only cost memory


class BlockLists(NamedTuple):
    """The blocks that each row of blocks visits: full ones first, then those with a mask."""

    starts: Tensor  # (rows + 1,) where the list of each row starts
    masked: Tensor  # (rows,) where its blocks with a mask start
    blocks: Tensor  # (N,) columns of blocks
    masks: Tensor  # (N,) numbers of masks, -1 for a full block


@dataclass(frozen=True, eq=False)
class ListedBlocks:
    """The lists by query and by key, the bits of the masks, and the share of pairs in the lists."""

    by_query: BlockLists
    by_key: BlockLists
    bits: Tensor  # (M, BLOCK) int64: bit c of row r tells whether query r sees key c
    share: float


class BlockSparse:
    """A Triton kernel on CUDA for local patterns; two runs give the same bits, also backward."""

    name = "block-sparse"
    cuda_only = True

    def refuses(self, work: Work) -> str:
        return self.describe_misfit(work) or lacks_triton(work)

    def describe_misfit(self, work: Work) -> str:
        """Say why this kernel cannot do this work on any device; empty if it can."""
        if reason := find_missing_feature(work, ABLE):
            return reason
        if work.dtype not in (torch.float16, torch.bfloat16):
            return f"it computes in 16 bits, {work.dtype} was asked for"
        if not 16 <= work.channels <= 128:
            return f"it takes heads of 16 to 128 channels, got {work.channels}"
        if torch.compiler.is_compiling():
            return "it lists blocks before what is compiled runs"
        if not work.pattern.fixed:
            return "it lists blocks once for all batches; Lengths and Segments belong to one"
        for places in (work.pairs.queries, work.pairs.keys):
            if len(places) < 2 * BLOCK:
                return f"it takes two blocks of {BLOCK} tokens or more, got {len(places)} tokens"
            if not isinstance(places, Grid) or places.first is None or holds_rows(places):
                return "it takes places that are the same for every sequence"
        if simplify(work.pattern, work.pairs) in (Everything(), Causal()):
            return "it is for local patterns"
        found = LISTS.find(work.pattern, work.pairs)
        return found if isinstance(found, str) else ""

    def cost(self, work: Work) -> float:
        return SLOWER * self.prepare(work).share + LAUNCH / math.prod(work.pairs.shape)

    def prepare(self, work: Work) -> ListedBlocks:
        found = LISTS.find(work.pattern, work.pairs)
        assert isinstance(found, ListedBlocks)  # else it refuses the work
        return found

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        form = plan.form
        if not isinstance(form, ListedBlocks):
            raise unknown_form(self, form)
        if value.shape != key.shape:
            raise ValueError(
                f"it takes values of the size of the keys, {tuple(value.shape)} came with "
                f"{tuple(key.shape)}"
            )
        # A custom op, which torch.compile needs, costs the host more than the kernel takes.
        run = block_attention if torch.compiler.is_compiling() else EagerBlocks.apply
        out, _ = run(
            how.score.query(query),
            key,
            value,
            *form.by_query,
            *form.by_key,
            form.bits,
            how.score.scale(key.shape[-1]),
        )
        return out


# ---- the lists -----------------------------------------------------------------------------------


def holds_rows(places: Grid) -> bool:
    """Whether each sequence of the batch has its own places."""
    return any(table.dim() > 1 for table in (places.order, *places.axes))


def describe_places(places: Places) -> Hashable:
    """Return a key that is equal for the same places."""
    if is_run(places):
        return places.first, len(places)
    return tuple(map(Identity, (places.order, *places.axes)))


class Identity:
    """A tensor that equals only itself, until it is changed in place. It keeps the tensor, so that
    no other one gets its identity.
    """

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self.version = 0 if tensor.is_inference() else tensor._version

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Identity) and self.tensor is other.tensor
        return same and self.version == cast(Identity, other).version

    def __hash__(self) -> int:
        return id(self.tensor)


class Lists:
    """The lists of the last patterns and places, which are the same in every pass."""

    def __init__(self) -> None:
        self.made: OrderedDict[Hashable, ListedBlocks | str] = OrderedDict()
        self.recorded: dict[
            int, ListedBlocks
        ] = {}  # a graph reads their memory as long as it lives

    def find(self, pattern: Pattern, pairs: Pairs) -> ListedBlocks | str:
        """Return the lists, or why there are none."""
        key = pattern, describe_places(pairs.queries), describe_places(pairs.keys), pairs.device
        try:
            found = self.made.get(key)
        except (TypeError, ValueError):  # a pattern of one's own with a list or an array in it
            return cut_blocks(pattern, pairs)
        if found is None:
            found = self.made[key] = cut_blocks(pattern, pairs)
        self.made.move_to_end(key)
        while len(self.made) > KEPT:
            self.made.popitem(last=False)
        recording = pairs.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if recording and isinstance(found, ListedBlocks):
            self.recorded[id(found)] = found
        return found


LISTS = Lists()


@torch.inference_mode(False)  # training saves the lists for backward
def cut_blocks(pattern: Pattern, pairs: Pairs) -> ListedBlocks | str:
    """Cut the pairs of a pattern into blocks; or say why that would not help."""
    if differs_between_rows(pattern, pairs):
        return "it lists blocks once, and this pattern differs between sequences or heads"
    one = Pairs(1, 1, pairs.queries, pairs.keys)
    truth = block_truth(pattern, one, BLOCK)
    some, full = truth.some[0, 0].clone(), (truth.all & truth.some)[0, 0].clone()
    if some.float().mean() > MOST:
        return f"it is for local patterns; of this one it would visit {some.float().mean():.0%}"
    # A block that reaches beyond the last key is no full one: its mask hides what is not there.
    if len(pairs.keys) % BLOCK:
        full[:, -1] = False
    places = (some & ~full).nonzero()  # (M, 2)
    bits = [pack_bits(part, pattern, one) for part in places.split(EVALUATED)]
    found = torch.cat(bits) if bits else some.new_zeros(0, BLOCK, dtype=torch.long)
    there = (found != 0).any(1)
    whole = (found == -1).all(1)  # bounds of blocks may be loose: all bits say so exactly
    some[tuple(places[~there].T)] = False
    full[tuple(places[whole].T)] = True
    kept = there & ~whole
    numbers = torch.full(some.shape, -1, dtype=torch.int32, device=some.device)
    numbers[tuple(places[kept].T)] = torch.arange(int(kept.sum()), device=some.device).int()
    share = float(some.sum()) / some.numel()
    by_key = list_rows(some.T, full.T, numbers.T)
    return ListedBlocks(list_rows(some, full, numbers), by_key, found[kept], share)


def differs_between_rows(pattern: Pattern, pairs: Pairs) -> bool:
    """Whether a pattern asks for the sequence or the head: tried on one pair for all of them."""
    none = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=pairs.device)
    rows, heads = (torch.zeros(2, dtype=torch.long, device=pairs.device) for _ in range(2))
    pair = pairs.at(rows.view(2, 1, 1, 1), heads.view(1, 2, 1, 1), none, none)
    return evaluate(pattern, pair).numel() > 1


def pack_bits(places: Tensor, pattern: Pattern, pairs: Pairs) -> Tensor:
    """Return the masks of these blocks (M, 2), a bit for each pair: (M, BLOCK) int64"""
    queries, keys = len(pairs.queries), len(pairs.keys)
    steps = torch.arange(BLOCK, device=places.device)
    i, j = (places[:, :1] * BLOCK + steps)[:, :, None], (places[:, 1:] * BLOCK + steps)[:, None]
    inside = (i < queries) & (j < keys)
    none = torch.zeros_like(i)
    pair = pairs.at(none, none, i.clamp(max=queries - 1), j.clamp(max=keys - 1))
    allowed = evaluate(pattern, pair) & inside
    return (allowed.long() << steps).sum(-1)


def list_rows(some: Tensor, full: Tensor, numbers: Tensor) -> BlockLists:
    """List the blocks of each row, in order, full ones first."""
    counts, wholes = some.sum(1), full.sum(1)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    order = torch.where(full, 0, torch.where(some, 1, 2)).argsort(dim=1, stable=True)
    listed = torch.arange(some.shape[1], device=some.device) < counts[:, None]
    made = starts, starts[:-1] + wholes, order[listed], numbers.gather(1, order)[listed]
    return BlockLists(*(x.int().contiguous() for x in made))


# ---- two custom operations, which torch.compile does not look into -----------------------------

SIDE = "Tensor {0}_starts, Tensor {0}_masked, Tensor {0}_blocks, Tensor {0}_masks"
INPUTS = (
    f"Tensor query, Tensor key, Tensor value, {SIDE.format('query')}, {SIDE.format('key')}, "
    "Tensor bits, float scale"
)


@torch.library.custom_op(
    "manyheads::block_attention", mutates_args=(), schema=f"({INPUTS}) -> (Tensor, Tensor)"
)
def block_attention(*inputs: Any) -> tuple[Tensor, Tensor]:
    """Return the output, and the log-sum-exp of each row, which backward needs."""
    from manyheads.attention.kernels.triton.block_sparse import attend

    return attend(*inputs)


@block_attention.register_fake
def _(query: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return as_tokens(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op(
    "manyheads::block_attention_backward",
    mutates_args=(),
    schema=f"({INPUTS}, Tensor out, Tensor largest, Tensor grad) -> Tensor[]",
)
def block_attention_backward(*inputs: Any) -> list[Tensor]:
    """Return the gradients of query, key and value."""
    from manyheads.attention.kernels.triton.block_sparse import gradients

    return gradients(*inputs)


@block_attention_backward.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> list[Tensor]:
    return [as_tokens(x) for x in (query, key, value)]


def save_for_backward(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.scale = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def backward(ctx: Any, grad: Tensor | None, run: Any) -> tuple[Any, ...]:
    """Return a gradient for each input, None for all but query, key and value."""
    *tensors, out, largest = ctx.saved_tensors
    if grad is None:  # the output was not used
        return (None,) * (len(tensors) + 1)
    found = run(*tensors, ctx.scale, out, largest, grad)
    return (*found, *[None] * (len(tensors) - 2))


block_attention.register_autograd(
    lambda ctx, grad, _: backward(ctx, grad, block_attention_backward),
    setup_context=save_for_backward,
)


class EagerBlocks(torch.autograd.Function):
    """The same operation as `block_attention`, called without torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        from manyheads.attention.kernels.triton.block_sparse import attend

        output = attend(*inputs)
        save_for_backward(ctx, inputs, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Any, ...]:
        from manyheads.attention.kernels.triton.block_sparse import gradients

        return backward(ctx, grad, gradients)
