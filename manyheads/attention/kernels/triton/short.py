"""The Triton programs behind `Short`: one program for each head of each row of up to 128 tokens.

Imported only when it runs: Triton comes only with torch's builds for CUDA.

B batch, H heads, Q queries, K keys, C channels of one head.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import Tensor

from manyheads.attention.kernels.relative import as_tokens
from manyheads.attention.kernels.triton.launch import make_channels_contiguous, round_up_channels
from manyheads.devices import on_its_gpu

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")


jit: Any = triton.jit


@jit
def load_head(
    tensor, b, h, batch, head, token, count,
    C: tl.constexpr, T: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Load the tokens of one head of one row, (T, WIDTH); zeros beyond the end."""
    t, c = tl.arange(0, T), tl.arange(0, WIDTH)
    at = tensor + b * batch + h * head + t[:, None] * token + c[None, :]
    return tl.load(at, mask=(t < count)[:, None] & (c < C)[None, :], other=0.0)


@jit
def store_head(
    tensor, x, b, h, batch, head, token, count,
    C: tl.constexpr, T: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    t, c = tl.arange(0, T), tl.arange(0, WIDTH)
    at = tensor + b * batch + h * head + t[:, None] * token + c[None, :]
    tl.store(at, x.to(tensor.dtype.element_ty), mask=(t < count)[:, None] & (c < C)[None, :])


@jit
def weigh(
    q, k, ids, key_ids, b, queries, keys, scale,
    CAUSAL: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Softmax over the allowed keys, (Q, K); zeros for a query that sees no key."""
    i, j = tl.arange(0, Q), tl.arange(0, K)
    mine = tl.load(ids + b * queries + i, mask=i < queries, other=-1)
    theirs = tl.load(key_ids + b * keys + j, mask=j < keys, other=-2)
    allowed = (mine[:, None] == theirs[None, :]) & (mine >= 0)[:, None]
    if CAUSAL:
        allowed = allowed & (i[:, None] >= j[None, :])
    scores = tl.where(allowed, tl.dot(q, tl.trans(k)) * scale, -float("inf"))
    largest = tl.max(scores, 1)
    largest = tl.where(largest == -float("inf"), 0.0, largest)
    weights = tl.exp(scores - largest[:, None])
    total = tl.sum(weights, 1)
    return weights / tl.where(total == 0, 1.0, total)[:, None]


@jit
def kept_share(
    seed, row, dropped, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Return the dropout factor of each weight: the same forward and backward."""
    at = row * Q * K + tl.arange(0, Q)[:, None] * K + tl.arange(0, K)[None, :]
    return tl.where(tl.rand(tl.load(seed), at) >= dropped, 1 / (1 - dropped), 0.0)


@jit
def attend_row(
    query, key, value, ids, key_ids, seed, out,
    query_batch, query_head, query_token, key_batch, key_head, key_token,
    value_batch, value_head, value_token, out_batch, out_head, out_token,
    heads, queries, keys, scale, dropped,
    C: tl.constexpr, WIDTH: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
    CAUSAL: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    b, h = (row // heads).to(tl.int64), row % heads
    q = load_head(query, b, h, query_batch, query_head, query_token, queries, C, Q, WIDTH)
    k = load_head(key, b, h, key_batch, key_head, key_token, keys, C, K, WIDTH)
    v = load_head(value, b, h, value_batch, value_head, value_token, keys, C, K, WIDTH)
    weights = weigh(q, k, ids, key_ids, b, queries, keys, scale, CAUSAL, Q, K)
    if DROPOUT:
        weights *= kept_share(seed, row, dropped, Q, K)
    mixed = tl.dot(weights.to(v.dtype), v)
    store_head(out, mixed, b, h, out_batch, out_head, out_token, queries, C, Q, WIDTH)


@jit
def attend_row_gradients(
    query, key, value, ids, key_ids, seed, grad, to_query, to_key, to_value,
    query_batch, query_head, query_token, key_batch, key_head, key_token,
    value_batch, value_head, value_token, grad_batch, grad_head, grad_token,
    to_query_batch, to_query_head, to_query_token, to_key_batch, to_key_head, to_key_token,
    heads, queries, keys, scale, dropped,
    C: tl.constexpr, WIDTH: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
    CAUSAL: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Compute the weights again: a row is one tile, so no partial gradients have to be summed."""
    row = tl.program_id(0)
    b, h = (row // heads).to(tl.int64), row % heads
    q = load_head(query, b, h, query_batch, query_head, query_token, queries, C, Q, WIDTH)
    k = load_head(key, b, h, key_batch, key_head, key_token, keys, C, K, WIDTH)
    v = load_head(value, b, h, value_batch, value_head, value_token, keys, C, K, WIDTH)
    g = load_head(grad, b, h, grad_batch, grad_head, grad_token, queries, C, Q, WIDTH)
    weights = weigh(q, k, ids, key_ids, b, queries, keys, scale, CAUSAL, Q, K)
    to_weights = tl.dot(g, tl.trans(v))
    used = weights
    if DROPOUT:
        kept = kept_share(seed, row, dropped, Q, K)
        used = weights * kept
        to_weights *= kept
    to_v = tl.dot(tl.trans(used.to(g.dtype)), g)
    store_head(to_value, to_v, b, h, to_key_batch, to_key_head, to_key_token, keys, C, K, WIDTH)
    to_scores = weights * (to_weights - tl.sum(weights * to_weights, 1)[:, None]) * scale
    to_scores = to_scores.to(q.dtype)
    to_q = tl.dot(to_scores, k)
    store_head(
        to_query, to_q, b, h, to_query_batch, to_query_head, to_query_token, queries, C, Q, WIDTH
    )
    to_k = tl.dot(tl.trans(to_scores), q)
    store_head(to_key, to_k, b, h, to_key_batch, to_key_head, to_key_token, keys, C, K, WIDTH)


def sizes_of(
    query: Tensor, key: Tensor, causal: bool, dropped: float
) -> tuple[Any, dict[str, Any]]:
    _, heads, queries, channels = query.shape
    keys = key.shape[2]
    constants = {
        "C": channels,
        "WIDTH": round_up_channels(channels),
        "Q": round_up_channels(queries),
        "K": round_up_channels(keys),
        "CAUSAL": causal,
        "DROPOUT": dropped > 0,
        "num_warps": 8 if max(queries, keys) > 64 else 4,
        "num_stages": 1,
    }
    return (heads, queries, keys), constants


@on_its_gpu
def attend_rows(
    query: Tensor, key: Tensor, value: Tensor, ids: Tensor, key_ids: Tensor, seed: Tensor,
    scale: float, causal: bool, dropped: float,
) -> Tensor:  # fmt: skip
    """(B, H, Q, C), two of (B, H, K, C), documents (B, Q) and (B, K) -> (B, H, Q, C)"""
    query, key, value = map(make_channels_contiguous, (query, key, value))
    out = as_tokens(query)
    sizes, constants = sizes_of(query, key, causal, dropped)
    strides = [n for x in (query, key, value, out) for n in x.stride()[:3]]
    attend_row[(len(query) * query.shape[1],)](
        *(query, key, value, ids, key_ids, seed, out, *strides, *sizes, scale, dropped), **constants
    )
    return out


@on_its_gpu
def gradients_of_rows(
    query: Tensor, key: Tensor, value: Tensor, ids: Tensor, key_ids: Tensor, seed: Tensor,
    scale: float, causal: bool, dropped: float, grad: Tensor,
) -> list[Tensor]:  # fmt: skip
    query, key, value, grad = map(make_channels_contiguous, (query, key, value, grad))
    found = [as_tokens(x) for x in (query, key, value)]
    sizes, constants = sizes_of(query, key, causal, dropped)
    strides = [n for x in (query, key, value, grad, *found[:2]) for n in x.stride()[:3]]
    attend_row_gradients[(len(query) * query.shape[1],)](
        *(query, key, value, ids, key_ids, seed, grad, *found, *strides, *sizes, scale, dropped),
        **constants,
    )
    return found
