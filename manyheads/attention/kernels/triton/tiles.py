"""Building blocks of the programs in relative.py: tiles of pairs and blocks of distances.

B rows of a tile, C channels of one head; in a tile r is a query's row, c a key's, n a distance's.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from importlib import import_module
from typing import Any

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")


@triton.jit
def rows_of(start, rows, stride, count, C: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr):
    """Load these rows of a tensor, zeros beyond its end: (B, WIDTH)"""
    c = tl.arange(0, WIDTH)
    at = start + rows[:, None] * stride + c[None, :]
    if EVEN:
        return tl.load(at)
    return tl.load(at, mask=(rows < count)[:, None] & (c < C)[None, :], other=0.0)


@triton.jit
def block_of(table, top, reach, C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr):
    """Load the embeddings of distances top, top - 1, ..., clipped to -reach and reach."""
    n = tl.minimum(tl.maximum(top - tl.arange(0, B), -reach), reach) + reach
    c = tl.arange(0, WIDTH)
    at = table + n[:, None] * C + c[None, :]
    return tl.load(at) if C == WIDTH else tl.load(at, mask=(c < C)[None, :], other=0.0)


@triton.jit
def lower(B: tl.constexpr):
    """Mark the entries of a tile that belong to the lower block of distances: n or c <= r."""
    return tl.arange(0, B)[None, :] <= tl.arange(0, B)[:, None]


@triton.jit
def banked(x, B: tl.constexpr):
    """Flatten a tile in an order in which 32 threads access 32 different memory banks at once.

    A thread of a matrix product holds columns 0 and 1, 8 and 9, ...; its neighbours hold the
    columns between, of eight rows. What they hold at the same time is stored side by side.
    """
    split = tl.reshape(x, [B // 8, 8, B // 8, 4, 2])
    return tl.reshape(tl.permute(split, [0, 2, 4, 1, 3]), [B * B])


@triton.jit
def turned(x, B: tl.constexpr):
    """[r, n] -> [r, c] with c = (r - n) mod B, and back."""
    r = tl.arange(0, B)[:, None]
    n = (r - tl.arange(0, B)[None, :]) & (B - 1)
    at = ((((r >> 3) * (B // 8) + (n >> 3)) * 2 + (n & 1)) * 8 + (r & 7)) * 4 + ((n >> 1) & 3)
    found = tl.reshape(tl.gather(banked(x, B), banked(at, B), 0), [B // 8, B // 8, 2, 8, 4])
    return tl.reshape(tl.permute(found, [0, 3, 1, 4, 2]), [B, B])


@triton.jit
def permitted(
    i, j, ids, key_ids, end, queries, shift, radius,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Tell which pairs of a tile are allowed: (B, B). Rows after the last query are undefined."""
    apart = j[None, :] - i[:, None] + shift
    ok = apart == apart
    if EDGE:
        ok = ok & ((j >= 0) & (j < end))[None, :]
    if CAUSAL:
        ok = ok & (apart <= 0)
    if WINDOW:
        ok = ok & (apart <= radius) & (apart >= -radius)
    if SEGMENTS:
        own = tl.load(ids + i, mask=i < queries, other=-1)
        theirs = tl.load(key_ids + j, mask=(j >= 0) & (j < end), other=-2)
        ok = ok & (own[:, None] == theirs[None, :]) & (own >= 0)[:, None]
    return ok


@triton.jit
def end_of(ends, b, keys, ENDS: tl.constexpr):
    """Return the number of keys of sequence b."""
    end = keys
    if ENDS:
        end = tl.minimum(keys, tl.load(ends + b))
    return end


@triton.jit
def span_of(bounds, tile):
    """Load the first tile that has pairs with this one and the end of those; same for full ones."""
    at = bounds + tile * 4
    return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit
def times(a, b, PRECISION: tl.constexpr):
    """a b^T"""
    return tl.dot(a, tl.trans(b), input_precision=PRECISION)


@triton.jit
def plus(start, a, b, PRECISION: tl.constexpr):
    """start + a b^T"""
    return tl.dot(a, tl.trans(b), start, input_precision=PRECISION)


@triton.jit
def both(a, blocks, PRECISION: tl.constexpr, B: tl.constexpr):
    """Multiply a with two blocks of distances, the upper one stored first: return lower, upper."""
    found = tl.reshape(times(a, blocks, PRECISION), [B, 2, B])
    upper, lower = tl.split(tl.permute(found, [0, 2, 1]))
    return lower, upper


@triton.jit
def slopes(s, wanted, kept, delta, scale):
    """Return the weights of a tile and the gradients of its unscaled scores, both (B, B)."""
    p = tl.exp2(s * scale - kept[:, None])
    return p, p * (wanted - delta[:, None])
