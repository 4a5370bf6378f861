"""The Triton programs that draw a token of each sequence from a whole vocabulary.

They do what `CudaGraphDecoder.choose` does in thirty operations, each over all logits. Imported
only when they run: Triton comes only with torch's builds for CUDA.

B batch, V vocabulary, P parts of the vocabulary.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from manyheads.decoding.sample import ROUNDS, STRIDE
from manyheads.devices import on_its_gpu

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

PART = 1024  # logits that a program reads
MOST_PARTS = 1024
((SHIFT, FACTOR), (LAST_SHIFT, LAST_FACTOR)) = ROUNDS
FREE, NEVER, STOP = 0, 1, 2  # what a table says of each token


@triton.jit
def wait_of(key, token, STRIDE: tl.constexpr, SHIFT: tl.constexpr, FACTOR: tl.constexpr,
            LAST_SHIFT: tl.constexpr, LAST_FACTOR: tl.constexpr):  # fmt: skip
    """Return the exponential noise of `make_noise` for these tokens."""
    mixed = key + token * STRIDE
    mixed ^= (mixed >> SHIFT) & ((1 << (32 - SHIFT)) - 1)
    mixed *= FACTOR
    mixed ^= (mixed >> LAST_SHIFT) & ((1 << (32 - LAST_SHIFT)) - 1)
    mixed *= LAST_FACTOR
    share = ((mixed & 0x7FFFFFFF).to(tl.float32) + 0.5) * 4.656612873077393e-10
    share = tl.minimum(share, 0.9999999403953552)
    # The hardware's logarithm is inexact near 1, and small noise decides: a series below 1 / 8.
    series = 1.0 / 8.0 + share / 9.0
    series = 1.0 / 7.0 + share * series
    series = 1.0 / 6.0 + share * series
    series = 1.0 / 5.0 + share * series
    series = 1.0 / 4.0 + share * series
    series = 1.0 / 3.0 + share * series
    series = 1.0 / 2.0 + share * series
    series = share * (1.0 + share * series)
    return tl.where(share < 0.125, series, -tl.log(1.0 - share))


@triton.jit
def weigh_part(logits, keys, table, count, largest, allowed_largest, total, best, first, size,
               slots, temperature, shortest, PART: tl.constexpr, STRIDE: tl.constexpr,
               SHIFT: tl.constexpr, FACTOR: tl.constexpr, LAST_SHIFT: tl.constexpr,
               LAST_FACTOR: tl.constexpr):  # fmt: skip
    """Find the largest logit of a part, the sum of exponentials, and the allowed token that waits
    least.

    Weights are relative to the largest allowed logit: far below a forbidden one they would be 0.
    """
    row, part = tl.program_id(0), tl.program_id(1)
    token = part * PART + tl.arange(0, PART)
    here = token < size
    at = row.to(tl.int64) * size + token
    x = tl.load(logits + at, mask=here, other=-float("inf")).to(tl.float32)
    written = tl.load(count).to(tl.int32)
    rule = tl.load(table + token, mask=here, other=1)
    key = tl.load(keys + row.to(tl.int64) * slots + written)
    top = tl.max(x, 0)
    base = tl.where(top == -float("inf"), 0.0, top)  # -inf - -inf would be no number
    sum_of = tl.sum(tl.exp(x - base), 0)
    allowed = here & ((rule == 0) | ((rule == 2) & (written >= shortest)))
    x = tl.where(allowed, x, -float("inf"))
    allowed_top = tl.max(x, 0)
    base = tl.where(allowed_top == -float("inf"), 0.0, allowed_top)
    weight = tl.exp((x - base) / temperature)
    wait = wait_of(key, token, STRIDE, SHIFT, FACTOR, LAST_SHIFT, LAST_FACTOR)
    ratio = tl.where(here, weight / wait, -1.0)
    place = row * tl.num_programs(1) + part
    tl.store(largest + place, top)
    tl.store(allowed_largest + place, allowed_top)
    tl.store(total + place, sum_of)
    tl.store(best + place, tl.max(ratio, 0))
    tl.store(first + place, part * PART + tl.argmax(ratio, 0))


@triton.jit
def join_parts(logits, count, largest, allowed_largest, total, best, first, ids, logs, token,
               size, slots, parts, temperature, PARTS: tl.constexpr):  # fmt: skip
    """Write the token of the best part, and its log-probability, where the next token belongs."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    real = part < parts
    at = row * parts + part
    bases = tl.load(largest + at, mask=real, other=-float("inf"))
    base = tl.max(bases, 0)
    base = tl.where(base == -float("inf"), 0.0, base)
    sums = tl.load(total + at, mask=real, other=0.0) * tl.exp(bases - base)
    allowed = tl.load(allowed_largest + at, mask=real, other=-float("inf"))
    allowed_base = tl.max(allowed, 0)
    allowed_base = tl.where(allowed_base == -float("inf"), 0.0, allowed_base)
    ratios = tl.load(best + at, mask=real, other=-1.0)
    ratios = tl.where(real, ratios * tl.exp((allowed - allowed_base) / temperature), -1.0)
    won = tl.argmax(ratios, 0)
    found = tl.sum(tl.where(part == won, tl.load(first + at, mask=real, other=0), 0), 0)
    chosen = tl.load(logits + row.to(tl.int64) * size + found).to(tl.float32)
    # A token that may not be written is drawn only where there is no other: the host sees -inf.
    whole = tl.sum(sums, 0)
    log = chosen - base - tl.log(tl.where(whole == 0.0, 1.0, whole))
    log = tl.where(tl.max(ratios, 0) > 0.0, log, -float("inf"))
    place = row.to(tl.int64) * slots + tl.load(count)
    tl.store(ids + place, found.to(tl.int64))
    tl.store(logs + place, log)
    tl.store(token + row, found.to(tl.int64))


def make_table(size: int, never: tuple[int, ...], stops: tuple[int, ...], device: Any) -> Tensor:
    """Say of each token whether it is free, never written, or a stop token."""
    table = torch.full((size,), FREE, dtype=torch.int8)
    table[list(stops)] = STOP
    table[list(never)] = NEVER
    return table.to(device)


@on_its_gpu
def choose_tokens(
    logits: Tensor,
    keys: Tensor,
    table: Tensor,
    count: Tensor,
    ids: Tensor,
    logs: Tensor,
    token: Tensor,
    temperature: float,
    shortest: int,
) -> None:
    """Draw a token of each row of logits (B, V), by the keys (B, S) of place `count` (1,); write it
    and its log-probability into ids and logs (B, S) there, and into token (B, 1).
    """
    logits = logits.contiguous()
    rows, size = logits.shape
    slots, part = keys.shape[1], PART
    while -(-size // part) > MOST_PARTS:
        part *= 2
    parts = -(-size // part)
    numbers = logits.new_empty(4, rows, parts, dtype=torch.float32)
    found = (*numbers, torch.empty(rows, parts, dtype=torch.int32, device=logits.device))
    hash_of = {
        "STRIDE": STRIDE,
        "SHIFT": SHIFT,
        "FACTOR": FACTOR,
        "LAST_SHIFT": LAST_SHIFT,
        "LAST_FACTOR": LAST_FACTOR,
    }
    weigh_part[(rows, parts)](
        *(logits, keys, table, count, *found, size, slots, temperature, shortest),
        PART=part,
        **hash_of,
    )
    join_parts[(rows,)](
        *(logits, count, *found, ids, logs, token, size, slots, parts, temperature),
        PARTS=triton.next_power_of_2(parts),
    )
