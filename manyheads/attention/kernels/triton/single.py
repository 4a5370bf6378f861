"""The Triton program behind `Single`: one query over the filled slots of a cache.

Imported only when it runs: Triton comes only with torch's builds for CUDA.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import Tensor

from manyheads.attention.kernels.triton.launch import make_channels_contiguous
from manyheads.devices import on_its_gpu

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

KEYS = 128  # read at once


def attend(  # type: ignore[no-untyped-def]
    query, key, value, out, place, rows, scale, heads, groups, channels,
    query_batch, query_head, key_batch, key_head, key_slot, value_batch, value_head, value_slot,
    place_batch, rows_batch, new_key, new_value, new_key_batch, new_key_head, new_value_batch,
    new_value_head,
    KEYS: tl.constexpr, WIDTH: tl.constexpr, ELSEWHERE: tl.constexpr,  # noqa: N803
    WRITES: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """One program for each head of each sequence: online softmax over blocks of keys. If it WRITES,
    the new key and value are not in the cache yet."""
    row = tl.program_id(0)
    b = (row // heads).to(tl.int64)
    h = row % heads
    c = tl.arange(0, WIDTH)
    real = c < channels
    asked = tl.load(query + b * query_batch + h * query_head + c, mask=real, other=0.0)
    asked = asked.to(tl.float32) * scale
    filled = tl.load(place + b * place_batch).to(tl.int32) + 1
    key += (h // groups) * key_head
    value += (h // groups) * value_head
    best = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    mixed = tl.zeros([WIDTH], tl.float32)
    if WRITES:
        filled -= 1
        g = h // groups
        own_key = tl.load(new_key + b * new_key_batch + g * new_key_head + c, mask=real, other=0.0)
        own = tl.load(
            new_value + b * new_value_batch + g * new_value_head + c, mask=real, other=0.0
        )
        if h % groups == 0:  # the first of the heads that share it
            tl.store(key + b * key_batch + filled * key_slot + c, own_key, mask=real)
            tl.store(value + b * value_batch + filled * value_slot + c, own, mask=real)
        best = tl.sum(own_key.to(tl.float32) * asked, 0)
        total += 1.0
        mixed += own.to(tl.float32)
    for start in range(0, filled, KEYS):
        slot = start + tl.arange(0, KEYS)
        there = slot < filled
        inside = there[:, None] & real[None, :]
        held = b + tl.zeros([KEYS], tl.int64)  # the row of the cache that holds the token
        if ELSEWHERE:
            held = tl.load(rows + b * rows_batch + slot, mask=there, other=0).to(tl.int64)
        here = (held * key_batch + slot * key_slot)[:, None] + c[None, :]
        keys = tl.load(key + here, mask=inside, other=0.0)
        here = (held * value_batch + slot * value_slot)[:, None] + c[None, :]
        values = tl.load(value + here, mask=inside, other=0.0)
        scores = tl.sum(keys.to(tl.float32) * asked[None, :], 1)
        scores = tl.where(there, scores, -float("inf"))
        higher = tl.maximum(best, tl.max(scores, 0))
        shrunk = tl.exp(best - higher)
        weights = tl.exp(scores - higher)
        total = total * shrunk + tl.sum(weights, 0)
        mixed = mixed * shrunk + tl.sum(weights[:, None] * values.to(tl.float32), 0)
        best = higher
    tl.store(out + row.to(tl.int64) * channels + c, mixed / total, mask=real)


attend_on_device = triton.jit(attend)


@on_its_gpu
def launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    place: Tensor,
    rows: Tensor | None,
    scale: float,
    new: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """(B, H, 1, C), two of (B, G, S, C), place (1,) or (B, 1), rows (B, S) -> (B, H, 1, C)

    `new` are keys and values (B, G, 1, C), which are written into the cache at their place.
    """
    batch, heads, _, channels = query.shape
    if new is None:  # with new ones a copy would be written into
        key, value = map(make_channels_contiguous, (key, value))
    query = make_channels_contiguous(query)
    new_key, new_value = map(make_channels_contiguous, new or (key, value))
    out = query.new_empty(batch, heads, 1, channels)
    attend_on_device[(batch * heads,)](
        *(query, key, value, out, place, place if rows is None else rows),
        *(scale, heads, heads // key.shape[1], channels),
        *query.stride()[:2],
        *key.stride()[:3],
        *value.stride()[:3],
        place.stride(0) if place.dim() == 2 and len(place) > 1 else 0,
        0 if rows is None else rows.stride(0),
        *(new_key, new_value, *new_key.stride()[:2], *new_value.stride()[:2]),
        KEYS=KEYS,
        WRITES=new is not None,
        ELSEWHERE=rows is not None,
        WIDTH=triton.next_power_of_2(channels),
        num_warps=8,
    )
    return out
