"""The Triton programs behind `Skewed`: relative attention tile by tile.

A square tile of pairs whose first key is d after its first query has distances from d - B to d + B:
two blocks of B, and the lower one was the upper one of the key tile before. Every query is
multiplied with a block of the table, the largest distance first; then row r is permuted: product n
goes to key (r - n) mod B. That is its own inverse: backward does the same to the gradient.

No two programs add to the same memory, so two runs give the same bits.
Arguments are tensors, then numbers, then compile-time constants: see launch.py.
Imported only when it runs: Triton comes only with torch's builds for CUDA.

B rows of a tile, C channels of one head; in a tile r is a query's row, c a key's, n a distance's.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from importlib import import_module
from typing import Any

from manyheads.attention.kernels.triton.tiles import (
    block_of,
    both,
    end_of,
    lower,
    permitted,
    plus,
    rows_of,
    slopes,
    span_of,
    times,
    turned,
)

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")


# ---- forward: a program for each tile of queries -----------------------------------------------


@triton.jit
def forward(
    query, asked, key, value,
    key_table, value_table, bounds, ids, key_ids, ends, largest, out,
    query_b, query_h, query_t, asked_b, asked_h, asked_t,
    key_b, key_h, key_t, value_b, value_h, value_t,
    table_h, bounds_b, ids_b, key_ids_b, out_b, out_h, out_t,
    scale, heads, groups, queries, keys, tiles, shift, reach, radius,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, ENDS: tl.constexpr,
    EDGE: tl.constexpr, EVEN: tl.constexpr, TURNED: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Online softmax over tiles of keys, with scores to the base of two."""
    pid = tl.program_id(0)
    tile = tiles - 1 - pid % tiles  # the last one, with most keys under Causal(), starts first
    h, b = pid // tiles % heads, (pid // tiles // heads).to(tl.int64)
    i = tile * B + tl.arange(0, B)
    key += b * key_b + (h // groups) * key_h
    value += b * value_b + (h // groups) * value_h
    key_table += h * table_h
    value_table += h * table_h
    end = end_of(ends, b, keys, ENDS)
    q = rows_of(query + b * query_b + h * query_h, i, query_t, queries, C, WIDTH, EVEN)
    a = q
    if TURNED:
        a = rows_of(asked + b * asked_b + h * asked_h, i, asked_t, queries, C, WIDTH, EVEN)
    low, high, full, after_full = span_of(bounds + b * bounds_b, tile)
    first = (low - tile) * B + shift
    before = times(a, block_of(key_table, first, reach, C, WIDTH, B), PRECISION)
    best = tl.full([B], -float("inf"), tl.float32)
    total = tl.zeros([B], tl.float32)
    mixed = tl.zeros([B, WIDTH], tl.float32)
    for there in range(low, high):
        j = there * B + tl.arange(0, B)
        first = (there - tile) * B + shift
        after = times(a, block_of(key_table, first + B, reach, C, WIDTH, B), PRECISION)
        relative = turned(tl.where(lower(B), before, after), B)
        before = after
        s = plus(relative, q, rows_of(key, j, key_t, keys, C, WIDTH, EVEN), PRECISION)
        if (there < full) | (there >= after_full):
            ok = permitted(
                i, j, ids + b * ids_b, key_ids + b * key_ids_b, end, queries, shift, radius,
                CAUSAL, WINDOW, SEGMENTS, EDGE,
            )  # fmt: skip
            s = tl.where(ok, s, -float("inf"))
        higher = tl.maximum(best, tl.max(s, 1) * scale)
        level = tl.where(higher == -float("inf"), 0.0, higher)  # no key seen yet: avoid NaN
        shrunk = tl.exp2(best - level)
        p = tl.exp2(s * scale - level[:, None])
        total = total * shrunk + tl.sum(p, 1)
        p = p.to(value.dtype.element_ty)
        mixed = mixed * shrunk[:, None]
        mixed += tl.dot(
            p, rows_of(value, j, value_t, keys, C, WIDTH, EVEN), input_precision=PRECISION
        )
        if VALUES:
            p = turned(p, B)
            low_block = block_of(value_table, first, reach, C, WIDTH, B)
            high_block = block_of(value_table, first + B, reach, C, WIDTH, B)
            half = tl.where(lower(B), p, 0.0).to(p.dtype)
            mixed += tl.dot(half, low_block, input_precision=PRECISION)
            half = tl.where(lower(B), 0.0, p).to(p.dtype)
            mixed += tl.dot(half, high_block, input_precision=PRECISION)
        best = higher
    some = total > 0
    mixed = mixed / tl.where(some, total, 1.0)[:, None]  # zeros if nothing is allowed
    c = tl.arange(0, WIDTH)
    inside = (i < queries)[:, None] & (c < C)[None, :]
    at = out + b * out_b + h * out_h + i[:, None] * out_t + c[None, :]
    tl.store(at, mixed.to(out.dtype.element_ty), mask=inside)
    # Infinity for a row without keys: its weights in backward are then zero.
    kept = tl.where(some, best + tl.log2(tl.where(some, total, 1.0)), float("inf"))
    tl.store(largest + (b * heads + h) * queries + i, kept, mask=i < queries)


# ---- backward: by query, by key, by distance ---------------------------------------------------


@triton.jit
def by_query(
    query, asked, key, value,
    key_table, value_table, bounds, ids, key_ids, ends, largest, out, grad,
    to_query, to_asked, deltas,
    query_b, query_h, query_t, asked_b, asked_h, asked_t,
    key_b, key_h, key_t, value_b, value_h, value_t,
    table_h, bounds_b, ids_b, key_ids_b, out_b, out_h, out_t,
    grad_b, grad_h, grad_t,
    scale, slope, heads, groups, queries, keys, tiles, shift, reach, radius,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, ENDS: tl.constexpr,
    EDGE: tl.constexpr, EVEN: tl.constexpr, TURNED: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of queries, and `deltas`: each output's dot product with its gradient.

    The gradients have the layout of `out`.
    """
    pid = tl.program_id(0)
    tile = tiles - 1 - pid % tiles
    h, b = pid // tiles % heads, (pid // tiles // heads).to(tl.int64)
    i = tile * B + tl.arange(0, B)
    key += b * key_b + (h // groups) * key_h
    value += b * value_b + (h // groups) * value_h
    key_table += h * table_h
    value_table += h * table_h
    end = end_of(ends, b, keys, ENDS)
    q = rows_of(query + b * query_b + h * query_h, i, query_t, queries, C, WIDTH, EVEN)
    a = q
    if TURNED:
        a = rows_of(asked + b * asked_b + h * asked_h, i, asked_t, queries, C, WIDTH, EVEN)
    g = rows_of(grad + b * grad_b + h * grad_h, i, grad_t, queries, C, WIDTH, EVEN)
    o = rows_of(out + b * out_b + h * out_h, i, out_t, queries, C, WIDTH, EVEN)
    row = (b * heads + h) * queries + i
    kept = tl.load(largest + row, mask=i < queries, other=float("inf"))
    delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(deltas + row, delta, mask=i < queries)
    low, high, full, after_full = span_of(bounds + b * bounds_b, tile)
    first = (low - tile) * B + shift
    low_block = block_of(key_table, first, reach, C, WIDTH, B)
    before = times(a, low_block, PRECISION)
    values_before = before
    if VALUES:
        values_before = times(g, block_of(value_table, first, reach, C, WIDTH, B), PRECISION)
    ds_before = tl.minimum(tl.abs(before), 0.0)  # zeros in the register layout of a product
    for_query = tl.zeros([B, WIDTH], tl.float32)
    for_asked = for_query
    for there in range(low, high):
        j = there * B + tl.arange(0, B)
        first = (there - tile) * B + shift
        after = times(a, block_of(key_table, first + B, reach, C, WIDTH, B), PRECISION)
        k = rows_of(key, j, key_t, keys, C, WIDTH, EVEN)
        s = plus(turned(tl.where(lower(B), before, after), B), q, k, PRECISION)
        before = after
        wanted = times(g, rows_of(value, j, value_t, keys, C, WIDTH, EVEN), PRECISION)
        if VALUES:
            high_block = block_of(value_table, first + B, reach, C, WIDTH, B)
            values_after = times(g, high_block, PRECISION)
            wanted += turned(tl.where(lower(B), values_before, values_after), B)
            values_before = values_after
        if (there < full) | (there >= after_full):
            ok = permitted(
                i, j, ids + b * ids_b, key_ids + b * key_ids_b, end, queries, shift, radius,
                CAUSAL, WINDOW, SEGMENTS, EDGE,
            )  # fmt: skip
            s = tl.where(ok, s, -float("inf"))
        _, ds = slopes(s, wanted, kept, delta, scale)
        for_query += tl.dot(ds.to(q.dtype), k, input_precision=PRECISION)
        ds = turned(ds, B)
        # One block of distances is the upper half of one tile and the lower half of the next.
        whole = tl.where(lower(B), ds, ds_before).to(q.dtype)
        ds_before = ds
        low_block = block_of(key_table, first, reach, C, WIDTH, B)
        if TURNED:
            for_asked += tl.dot(whole, low_block, input_precision=PRECISION)
        else:
            for_query += tl.dot(whole, low_block, input_precision=PRECISION)
    last = block_of(key_table, (high - tile) * B + shift, reach, C, WIDTH, B)
    half = tl.where(lower(B), 0.0, ds_before).to(q.dtype)
    if TURNED:
        for_asked += tl.dot(half, last, input_precision=PRECISION)
    else:
        for_query += tl.dot(half, last, input_precision=PRECISION)
    c = tl.arange(0, WIDTH)
    inside = (i < queries)[:, None] & (c < C)[None, :]
    at = b * out_b + h * out_h + i[:, None] * out_t + c[None, :]
    if TURNED:
        tl.store(to_asked + at, (for_asked * slope).to(to_asked.dtype.element_ty), mask=inside)
    tl.store(to_query + at, (for_query * slope).to(to_query.dtype.element_ty), mask=inside)


@triton.jit
def by_key(
    query, asked, key, value,
    key_table, value_table, bounds, ids, key_ids, ends, largest, grad,
    to_key, to_value, deltas,
    query_b, query_h, query_t, asked_b, asked_h, asked_t,
    key_b, key_h, key_t, value_b, value_h, value_t,
    table_h, bounds_b, ids_b, key_ids_b, to_b, to_h, to_t,
    grad_b, grad_h, grad_t,
    scale, slope, heads, groups, queries, keys, tiles, shift, reach, radius,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, ENDS: tl.constexpr,
    EDGE: tl.constexpr, EVEN: tl.constexpr, TURNED: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of keys and values, summed over all heads that share them."""
    pid = tl.program_id(0)
    there = pid % tiles
    own, b = pid // tiles % (heads // groups), (pid // tiles // (heads // groups)).to(tl.int64)
    j = there * B + tl.arange(0, B)
    end = end_of(ends, b, keys, ENDS)
    k = rows_of(key + b * key_b + own * key_h, j, key_t, keys, C, WIDTH, EVEN)
    v = rows_of(value + b * value_b + own * value_h, j, value_t, keys, C, WIDTH, EVEN)
    low, high, full, after_full = span_of(bounds + b * bounds_b, there)
    for_key = tl.zeros([B, WIDTH], tl.float32)
    for_value = tl.zeros([B, WIDTH], tl.float32)
    for h in range(own * groups, (own + 1) * groups):
        for tile in range(low, high):
            i = tile * B + tl.arange(0, B)
            first = (there - tile) * B + shift
            q = rows_of(query + b * query_b + h * query_h, i, query_t, queries, C, WIDTH, EVEN)
            a = q
            if TURNED:
                a = rows_of(asked + b * asked_b + h * asked_h, i, asked_t, queries, C, WIDTH, EVEN)
            g = rows_of(grad + b * grad_b + h * grad_h, i, grad_t, queries, C, WIDTH, EVEN)
            row = (b * heads + h) * queries + i
            kept = tl.load(largest + row, mask=i < queries, other=float("inf"))
            delta = tl.load(deltas + row, mask=i < queries, other=0.0)
            low_block = block_of(key_table + h * table_h, first, reach, C, WIDTH, B)
            high_block = block_of(key_table + h * table_h, first + B, reach, C, WIDTH, B)
            before, after = times(a, low_block, PRECISION), times(a, high_block, PRECISION)
            s = plus(turned(tl.where(lower(B), before, after), B), q, k, PRECISION)
            wanted = times(g, v, PRECISION)
            if VALUES:
                low_block = block_of(value_table + h * table_h, first, reach, C, WIDTH, B)
                high_block = block_of(value_table + h * table_h, first + B, reach, C, WIDTH, B)
                before, after = times(g, low_block, PRECISION), times(g, high_block, PRECISION)
                wanted += turned(tl.where(lower(B), before, after), B)
            if (tile < full) | (tile >= after_full):
                ok = permitted(
                    i, j, ids + b * ids_b, key_ids + b * key_ids_b, end, queries, shift, radius,
                    CAUSAL, WINDOW, SEGMENTS, EDGE,
                )  # fmt: skip
                s = tl.where(ok, s, -float("inf"))
            p, ds = slopes(s, wanted, kept, delta, scale)
            for_value += tl.dot(tl.trans(p.to(g.dtype)), g, input_precision=PRECISION)
            for_key += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision=PRECISION)
    c = tl.arange(0, WIDTH)
    inside = (j < keys)[:, None] & (c < C)[None, :]
    at = b * to_b + own * to_h + j[:, None] * to_t + c[None, :]
    tl.store(to_key + at, (for_key * slope).to(to_key.dtype.element_ty), mask=inside)
    tl.store(to_value + at, for_value.to(to_value.dtype.element_ty), mask=inside)


@triton.jit
def by_distance(
    query, asked, key, value,
    key_table, value_table, bounds, ids, key_ids, ends, largest, grad,
    to_keys_table, to_values_table, deltas,
    query_b, query_h, query_t, asked_b, asked_h, asked_t,
    key_b, key_h, key_t, value_b, value_h, value_t,
    table_h, bounds_b, ids_b, key_ids_b, grad_b, grad_h, grad_t,
    scale, slope, heads, groups, queries, keys, tiles, key_tiles, lowest, diagonals, half, shift,
    reach, radius,
    C: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, ENDS: tl.constexpr,
    EDGE: tl.constexpr, EVEN: tl.constexpr, TURNED: tl.constexpr, VALUES: tl.constexpr,
    TOGETHER: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the distances on one diagonal of tiles, in one head, summed over
    TOGETHER sequences.

    These are two blocks; the upper one is the lower one of the next diagonal: both are stored.
    """
    pid = tl.program_id(0)
    diagonal = diagonals - 1 - pid % diagonals  # under Causal() the nearest have the most pairs
    h, several = pid // diagonals % heads, (pid // diagonals // heads).to(tl.int64)
    first_b = several * TOGETHER
    query += first_b * query_b + h * query_h
    asked += first_b * asked_b + h * asked_h
    grad += first_b * grad_b + h * grad_h
    key += first_b * key_b + (h // groups) * key_h
    value += first_b * value_b + (h // groups) * value_h
    ids += first_b * ids_b
    key_ids += first_b * key_ids_b
    bounds += first_b * bounds_b
    key_table += h * table_h
    value_table += h * table_h
    steps = lowest + diagonal  # tiles from query to key
    first = steps * B + shift
    partly = first != first
    if CAUSAL:
        partly = partly | (first + B - 1 > 0)
    if WINDOW:
        partly = partly | (first + B - 1 > radius) | (first - B + 1 < -radius)
    blocks = block_of(key_table, first + B, reach, C, WIDTH, 2 * B)
    value_blocks = blocks
    if VALUES:
        value_blocks = block_of(value_table, first + B, reach, C, WIDTH, 2 * B)
    keys_below = tl.zeros([B, WIDTH], tl.float32)
    keys_above, values_below, values_above = keys_below, keys_below, keys_below
    for each in range(TOGETHER):
        b = first_b + each
        end = end_of(ends, b, keys, ENDS)
        for tile in range(tl.maximum(0, -steps), tl.minimum(tiles, key_tiles - steps)):
            there = tile + steps
            masked = partly | ((there + 1) * B > end)
            some = there == there
            if SEGMENTS or ENDS:  # otherwise every diagonal of the plan has pairs
                some = there >= tl.load(bounds + tile * 4)
                some = some & (there < tl.load(bounds + tile * 4 + 1))
            if SEGMENTS:
                full = tl.load(bounds + tile * 4 + 2)
                masked = masked | (there < full) | (there >= tl.load(bounds + tile * 4 + 3))
            if some:
                i = tile * B + tl.arange(0, B)
                j = there * B + tl.arange(0, B)
                q = rows_of(query, i, query_t, queries, C, WIDTH, EVEN)
                a = q
                if TURNED:
                    a = rows_of(asked, i, asked_t, queries, C, WIDTH, EVEN)
                g = rows_of(grad, i, grad_t, queries, C, WIDTH, EVEN)
                row = (b * heads + h) * queries + i
                kept = tl.load(largest + row, mask=i < queries, other=float("inf"))
                delta = tl.load(deltas + row, mask=i < queries, other=0.0)
                before, after = both(a, blocks, PRECISION, B)
                k = rows_of(key, j, key_t, keys, C, WIDTH, EVEN)
                s = plus(turned(tl.where(lower(B), before, after), B), q, k, PRECISION)
                wanted = times(g, rows_of(value, j, value_t, keys, C, WIDTH, EVEN), PRECISION)
                if VALUES:
                    before, after = both(g, value_blocks, PRECISION, B)
                    wanted += turned(tl.where(lower(B), before, after), B)
                if masked:
                    ok = permitted(
                        i, j, ids, key_ids, end, queries, shift, radius,
                        CAUSAL, WINDOW, SEGMENTS, EDGE,
                    )  # fmt: skip
                    s = tl.where(ok, s, -float("inf"))
                p, ds = slopes(s, wanted, kept, delta, scale)
                # In the register layout of a product: it is stored faster.
                ds = turned(ds, B) + p * 0.0
                part = tl.where(lower(B), ds, 0.0)
                below, above = tl.trans(part.to(q.dtype)), tl.trans((ds - part).to(q.dtype))
                # Always true; but without a branch, products are still running at the end of the
                # loop body, and the assembler then waits for each one separately.
                if there >= 0:
                    keys_below = tl.dot(below, a, keys_below, input_precision=PRECISION)
                    keys_above = tl.dot(above, a, keys_above, input_precision=PRECISION)
                if VALUES:
                    p = turned(p, B) + p * 0.0
                    part = tl.where(lower(B), p, 0.0)
                    below, above = tl.trans(part.to(q.dtype)), tl.trans((p - part).to(q.dtype))
                    values_below = tl.dot(below, g, values_below, input_precision=PRECISION)
                    values_above = tl.dot(above, g, values_above, input_precision=PRECISION)
        query += query_b
        asked += asked_b
        grad += grad_b
        key += key_b
        value += value_b
        ids += ids_b
        key_ids += key_ids_b
        bounds += bounds_b
    # The last row of a block is its lowest distance: store in reverse order.
    n = ((several * heads + h) * diagonals + diagonal + 1) * B - 1 - tl.arange(0, B)
    c = tl.arange(0, WIDTH)
    at = n[:, None] * C + c[None, :]
    inside = (n >= 0)[:, None] & (c < C)[None, :]
    tl.store(to_keys_table + at, keys_below * slope, mask=inside)
    tl.store(to_keys_table + half + at, keys_above * slope, mask=inside)
    if VALUES:
        tl.store(to_values_table + at, values_below, mask=inside)
        tl.store(to_values_table + half + at, values_above, mask=inside)


@triton.jit
def fold(
    found, to_table, batch, heads, distances, rows, first, reach, tile,
    C: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Sum a head's distances that its table has over all sequences, from lower and upper blocks."""
    pid = tl.program_id(0)
    blocks = tl.cdiv(rows, ROWS)
    h = pid // blocks
    n = pid % blocks * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    below = n - reach - first
    above = below - tile
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    inside = (c < C)[None, :]
    for b in range(batch):
        at = (b * heads + h).to(tl.int64) * distances
        there = ((below >= 0) & (below < distances))[:, None] & inside
        total += tl.load(found + (at + below)[:, None] * C + c[None, :], mask=there, other=0.0)
        at += tl.cast(batch, tl.int64) * heads * distances
        there = ((above >= 0) & (above < distances))[:, None] & inside
        total += tl.load(found + (at + above)[:, None] * C + c[None, :], mask=there, other=0.0)
    at = (h * rows + n)[:, None] * C + c[None, :]
    tl.store(to_table + at, total.to(to_table.dtype.element_ty), mask=(n < rows)[:, None] & inside)
