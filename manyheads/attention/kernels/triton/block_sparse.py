"""The Triton programs behind `BlockSparse`: one program for each block of queries, or of keys.

No two programs add to the same memory, so two runs give the same bits.
Imported only when it runs: Triton comes only with torch's builds for CUDA.

B rows of a block, C channels of one head; in a block r is a query's row, c a key's.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from torch import Tensor, empty_like, float32

from manyheads.attention.kernels.block_sparse import BLOCK
from manyheads.attention.kernels.relative import as_tokens, token_strides
from manyheads.attention.kernels.triton.launch import (
    LAYOUTS,
    LOG2_E,
    Laid,
    Program,
    describe_layout,
    make_channels_contiguous,
    round_up_channels,
)
from manyheads.attention.kernels.triton.tiles import rows_of, slopes
from manyheads.devices import on_its_gpu

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

FORWARD = {"num_warps": 4, "num_stages": 2}
BACKWARD = {"num_warps": 4, "num_stages": 3}


# ---- programs ------------------------------------------------------------------------------------


@triton.jit
def hide(s, bits, number, B: tl.constexpr):
    """Hide the pairs of a block whose bit is not set."""
    row = tl.load(bits + number.to(tl.int64) * B + tl.arange(0, B))
    seen = (row[:, None] >> tl.arange(0, B)[None, :].to(tl.int64)) & 1
    return tl.where(seen == 1, s, -float("inf"))


@triton.jit
def attend_block(
    q, key, value, there, bits, number, keys, scale, best, total, mixed, key_t, value_t,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Add one block of keys to the online softmax, with scores to the base of two."""
    j = there * B + tl.arange(0, B)
    s = tl.dot(q, tl.trans(rows_of(key, j, key_t, keys, C, WIDTH, EVEN))) * scale
    if MASKED:
        s = hide(s, bits, number, B)
    higher = tl.maximum(best, tl.max(s, 1))
    level = higher
    if MASKED:
        level = tl.where(higher == -float("inf"), 0.0, higher)  # no key seen yet: avoid NaN
    shrunk = tl.exp2(best - level)
    p = tl.exp2(s - level[:, None])
    total = total * shrunk + tl.sum(p, 1)
    mixed = mixed * shrunk[:, None]
    mixed += tl.dot(p.to(value.dtype.element_ty), rows_of(value, j, value_t, keys, C, WIDTH, EVEN))
    return higher, total, mixed


@triton.jit
def forward(
    query, key, value, starts, masked, blocks, masks, bits, largest, out,
    query_b, query_h, query_t, key_b, key_h, key_t, value_b, value_h, value_t, out_b, out_h, out_t,
    scale, heads, groups, queries, keys, tiles,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tile = pid % tiles
    h, b = pid // tiles % heads, (pid // tiles // heads).to(tl.int64)
    i = tile * B + tl.arange(0, B)
    key += b * key_b + (h // groups) * key_h
    value += b * value_b + (h // groups) * value_h
    q = rows_of(query + b * query_b + h * query_h, i, query_t, queries, C, WIDTH, EVEN)
    best = tl.full([B], -float("inf"), tl.float32)
    total = tl.zeros([B], tl.float32)
    mixed = tl.zeros([B, WIDTH], tl.float32)
    first, middle, end = tl.load(starts + tile), tl.load(masked + tile), tl.load(starts + tile + 1)
    for at in range(first, middle):
        best, total, mixed = attend_block(
            q, key, value, tl.load(blocks + at), bits, 0, keys, scale, best, total, mixed,
            key_t, value_t, C, WIDTH, B, EVEN, False,
        )  # fmt: skip
    for at in range(middle, end):
        best, total, mixed = attend_block(
            q, key, value, tl.load(blocks + at), bits, tl.load(masks + at), keys, scale, best,
            total, mixed, key_t, value_t, C, WIDTH, B, EVEN, True,
        )  # fmt: skip
    some = total > 0
    mixed = mixed / tl.where(some, total, 1.0)[:, None]  # zeros if nothing is allowed
    c = tl.arange(0, WIDTH)
    to = out + b * out_b + h * out_h + i[:, None] * out_t + c[None, :]
    tl.store(to, mixed.to(out.dtype.element_ty), mask=(i < queries)[:, None] & (c < C)[None, :])
    # Infinity for a row without keys: its weights in backward are then zero.
    kept = tl.where(some, best + tl.log2(tl.where(some, total, 1.0)), float("inf"))
    tl.store(largest + (b * heads + h) * queries + i, kept, mask=i < queries)


@triton.jit
def query_block(
    q, g, key, value, there, bits, number, keys, scale, kept, delta, for_query, key_t, value_t,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    j = there * B + tl.arange(0, B)
    k = rows_of(key, j, key_t, keys, C, WIDTH, EVEN)
    s = tl.dot(q, tl.trans(k))
    if MASKED:
        s = hide(s, bits, number, B)
    wanted = tl.dot(g, tl.trans(rows_of(value, j, value_t, keys, C, WIDTH, EVEN)))
    _, ds = slopes(s, wanted, kept, delta, scale)
    return for_query + tl.dot(ds.to(q.dtype), k)


@triton.jit
def by_query(
    query, key, value, starts, masked, blocks, masks, bits, largest, out, grad, to_query, deltas,
    query_b, query_h, query_t, key_b, key_h, key_t, value_b, value_h, value_t, out_b, out_h, out_t,
    grad_b, grad_h, grad_t,
    scale, slope, heads, groups, queries, keys, tiles,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of queries, and `deltas`: each output's dot product with its gradient.

    The gradients have the layout of `out`.
    """
    pid = tl.program_id(0)
    tile = pid % tiles
    h, b = pid // tiles % heads, (pid // tiles // heads).to(tl.int64)
    i = tile * B + tl.arange(0, B)
    key += b * key_b + (h // groups) * key_h
    value += b * value_b + (h // groups) * value_h
    q = rows_of(query + b * query_b + h * query_h, i, query_t, queries, C, WIDTH, EVEN)
    g = rows_of(grad + b * grad_b + h * grad_h, i, grad_t, queries, C, WIDTH, EVEN)
    o = rows_of(out + b * out_b + h * out_h, i, out_t, queries, C, WIDTH, EVEN)
    row = (b * heads + h) * queries + i
    kept = tl.load(largest + row, mask=i < queries, other=float("inf"))
    delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(deltas + row, delta, mask=i < queries)
    for_query = tl.zeros([B, WIDTH], tl.float32)
    first, middle, end = tl.load(starts + tile), tl.load(masked + tile), tl.load(starts + tile + 1)
    for at in range(first, middle):
        for_query = query_block(
            q, g, key, value, tl.load(blocks + at), bits, 0, keys, scale, kept, delta, for_query,
            key_t, value_t, C, WIDTH, B, EVEN, False,
        )  # fmt: skip
    for at in range(middle, end):
        for_query = query_block(
            q, g, key, value, tl.load(blocks + at), bits, tl.load(masks + at), keys, scale, kept,
            delta, for_query, key_t, value_t, C, WIDTH, B, EVEN, True,
        )  # fmt: skip
    c = tl.arange(0, WIDTH)
    to = to_query + b * out_b + h * out_h + i[:, None] * out_t + c[None, :]
    inside = (i < queries)[:, None] & (c < C)[None, :]
    tl.store(to, (for_query * slope).to(to_query.dtype.element_ty), mask=inside)


@triton.jit
def key_block(
    query, grad, k, v, there, bits, number, kept_row, delta_row, queries, scale, for_key, for_value,
    query_t, grad_t,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    i = there * B + tl.arange(0, B)
    q = rows_of(query, i, query_t, queries, C, WIDTH, EVEN)
    g = rows_of(grad, i, grad_t, queries, C, WIDTH, EVEN)
    kept = tl.load(kept_row + i, mask=i < queries, other=float("inf"))
    delta = tl.load(delta_row + i, mask=i < queries, other=0.0)
    s = tl.dot(q, tl.trans(k))
    if MASKED:
        s = hide(s, bits, number, B)
    p, ds = slopes(s, tl.dot(g, tl.trans(v)), kept, delta, scale)
    for_value += tl.dot(tl.trans(p.to(g.dtype)), g)
    for_key += tl.dot(tl.trans(ds.to(q.dtype)), q)
    return for_key, for_value


@triton.jit
def by_key(
    query, key, value, starts, masked, blocks, masks, bits, largest, grad, to_key, to_value, deltas,
    query_b, query_h, query_t, key_b, key_h, key_t, value_b, value_h, value_t, to_b, to_h, to_t,
    grad_b, grad_h, grad_t,
    scale, slope, heads, groups, queries, keys, tiles,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of keys and values, summed over all heads that share them."""
    pid = tl.program_id(0)
    tile = pid % tiles
    own, b = pid // tiles % (heads // groups), (pid // tiles // (heads // groups)).to(tl.int64)
    j = tile * B + tl.arange(0, B)
    k = rows_of(key + b * key_b + own * key_h, j, key_t, keys, C, WIDTH, EVEN)
    v = rows_of(value + b * value_b + own * value_h, j, value_t, keys, C, WIDTH, EVEN)
    for_key = tl.zeros([B, WIDTH], tl.float32)
    for_value = tl.zeros([B, WIDTH], tl.float32)
    first, middle, end = tl.load(starts + tile), tl.load(masked + tile), tl.load(starts + tile + 1)
    for h in range(own * groups, (own + 1) * groups):
        asked = query + b * query_b + h * query_h
        given = grad + b * grad_b + h * grad_h
        row = (b * heads + h) * queries
        for at in range(first, middle):
            for_key, for_value = key_block(
                asked, given, k, v, tl.load(blocks + at), bits, 0, largest + row, deltas + row,
                queries, scale, for_key, for_value, query_t, grad_t, C, WIDTH, B, EVEN, False,
            )  # fmt: skip
        for at in range(middle, end):
            for_key, for_value = key_block(
                asked, given, k, v, tl.load(blocks + at), bits, tl.load(masks + at), largest + row,
                deltas + row, queries, scale, for_key, for_value, query_t, grad_t,
                C, WIDTH, B, EVEN, True,
            )  # fmt: skip
    c = tl.arange(0, WIDTH)
    inside = (j < keys)[:, None] & (c < C)[None, :]
    at = b * to_b + own * to_h + j[:, None] * to_t + c[None, :]
    tl.store(to_key + at, (for_key * slope).to(to_key.dtype.element_ty), mask=inside)
    tl.store(to_value + at, for_value.to(to_value.dtype.element_ty), mask=inside)


# ---- launching -----------------------------------------------------------------------------------


class Programs(NamedTuple):
    """The programs for one layout of tensors."""

    forward: Program
    by_query: Program
    by_key: Program


@lru_cache(LAYOUTS)
def programs_for(query: Laid, key: Laid, value: Laid, grad: Laid | None, scale: float) -> Programs:
    """Prepare the programs; without a gradient the two of backward are of no use."""
    batch, heads, queries, channels = query.shape
    key_heads, keys = key.shape[1:3]
    tiles, key_tiles = -(-queries // BLOCK), -(-keys // BLOCK)
    width = round_up_channels(channels)
    constants = {
        "C": channels,
        "WIDTH": width,
        "B": BLOCK,
        "EVEN": queries % BLOCK == keys % BLOCK == 0 and channels == width,
    }
    sides = [n for side in (query, key, value) for n in side.stride[:3]]
    out, to_key = token_strides(query.shape)[:3], token_strides(key.shape)[:3]
    of_grad = (grad or query).stride[:3]
    sizes = heads, heads // key_heads, queries, keys

    def program(source: Any, count: int, strides: Any, numbers: Any, options: Any) -> Program:
        return Program(source, count, (*sides, *strides, *numbers), constants, options)

    both = scale * LOG2_E, scale
    return Programs(
        program(forward, batch * heads * tiles, out, (scale * LOG2_E, *sizes, tiles), FORWARD),
        program(
            by_query, batch * heads * tiles, (*out, *of_grad), (*both, *sizes, tiles), BACKWARD
        ),
        program(
            by_key,
            batch * key_heads * key_tiles,
            (*to_key, *of_grad),
            (*both, *sizes, key_tiles),
            BACKWARD,
        ),
    )


@on_its_gpu
def attend(query: Tensor, key: Tensor, value: Tensor, *more: Any) -> tuple[Tensor, Tensor]:
    """Return the output (B, H, Q, C), and the log-sum-exp of each row to the base of two."""
    *lists, bits, scale = more
    query, key, value = map(make_channels_contiguous, (query, key, value))
    out = as_tokens(query)
    largest = query.new_empty(query.shape[:3], dtype=float32)
    run = programs_for(*map(describe_layout, (query, key, value)), None, scale)
    run.forward(query, key, value, *lists[:4], bits, largest, out)
    return out, largest


@on_its_gpu
def gradients(query: Tensor, key: Tensor, value: Tensor, *more: Any) -> list[Tensor]:
    """Return the gradients of query, key and value."""
    *lists, bits, scale, out, largest, grad = more
    query, key, value, grad = map(make_channels_contiguous, (query, key, value, grad))
    run = programs_for(*map(describe_layout, (query, key, value, grad)), scale)
    found = [as_tokens(x) for x in (query, key, value)]
    if out.stride() != found[0].stride():
        out = as_tokens(query).copy_(out)
    deltas = empty_like(largest)
    run.by_query(query, key, value, *lists[:4], bits, largest, out, grad, found[0], deltas)
    run.by_key(query, key, value, *lists[4:], bits, largest, grad, *found[1:], deltas)
    return found
