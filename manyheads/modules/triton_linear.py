"""The Triton programs behind `FusedLinear`: a norm, a matrix product and what follows it.

Imported only when they run: Triton comes only with torch's builds for CUDA.

M rows, D input width, N output width, R rows of one program, S outputs of one program.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from manyheads.devices import on_its_gpu

if TYPE_CHECKING:
    from manyheads.modules.fused import FusedLinear

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

PROGRAMS = 128  # at least so many run side by side: an H200 has 132 multiprocessors
AT_ONCE = 16384  # weights that a program for one row reads at once
NORM_WEIGHTS = "weight", "bias"
LEAST_ROOM = 99 * 1024  # bytes of shared memory: every card since Ampere has so much


@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    """Apply the activation of this name to numbers of 32 bits."""
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif ACTIVATION == "relu2":
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
        x = x * x
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu-tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = x * tl.sigmoid(2.0 * inner)  # (1 + tanh(y)) / 2 is sigmoid(2 y)
    return x


@triton.jit
def finish(total, gate, bias, stream, out, m, n, inside, N, D_TYPE: tl.constexpr,
           BIAS: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr,
           RESIDUAL: tl.constexpr):  # fmt: skip
    """Add the bias, activate, add the residual stream and store; rounded where modules round."""
    if BIAS:
        at = n + (N if GATED else 0)
        total += tl.load(bias + at, mask=n < N, other=0.0).to(tl.float32)
    total = total.to(D_TYPE).to(tl.float32)
    if GATED:
        if BIAS:
            gate += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)
        gate = activate(gate.to(D_TYPE).to(tl.float32), ACTIVATION)
        total = gate.to(D_TYPE).to(tl.float32) * total
    else:
        total = activate(total, ACTIVATION)
    place = m * N + n
    if RESIDUAL:
        total = total.to(D_TYPE).to(tl.float32)
        total += tl.load(stream + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, total.to(D_TYPE), mask=inside)


@triton.jit
def one_row(x, weight, bias, scale, shift, stream, out, N, epsilon,
            D: tl.constexpr, WIDTH: tl.constexpr, S: tl.constexpr, STEP: tl.constexpr,
            NORM: tl.constexpr, SHIFT: tl.constexpr, BIAS: tl.constexpr, GATED: tl.constexpr,
            ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr):  # fmt: skip
    """Compute S outputs of the only row; each program normalizes the row by itself."""
    D_TYPE = out.dtype.element_ty
    middle, spread = 0.0, 1.0
    if NORM != "":
        c = tl.arange(0, WIDTH)
        row = tl.load(x + c, mask=c < D, other=0.0).to(tl.float32)
        if NORM == "layer":
            middle = tl.sum(row, 0) / D
            row = tl.where(c < D, row - middle, 0.0)
        spread = tl.rsqrt(tl.sum(row * row, 0) / D + epsilon)
    n = tl.program_id(0) * S + tl.arange(0, S)
    here = n < N
    total = tl.zeros([S], tl.float32)
    gate = tl.zeros([S], tl.float32)
    for start in range(0, D, STEP):
        d = start + tl.arange(0, STEP)
        real = d < D
        part = tl.load(x + d, mask=real, other=0.0).to(tl.float32)
        if NORM != "":
            part = (
                (part - middle) * spread * tl.load(scale + d, mask=real, other=0.0).to(tl.float32)
            )
            if SHIFT:
                part += tl.load(shift + d, mask=real, other=0.0).to(tl.float32)
            part = tl.where(real, part, 0.0).to(D_TYPE).to(tl.float32)
        both = here[:, None] & real[None, :]
        at = weight + n[:, None].to(tl.int64) * D + d[None, :]
        if GATED:
            rows = tl.load(at, mask=both, other=0.0).to(tl.float32)
            gate += tl.sum(rows * part[None, :], 1)
            at += N * D
        rows = tl.load(at, mask=both, other=0.0).to(tl.float32)
        total += tl.sum(rows * part[None, :], 1)
    finish(total, gate, bias, stream, out, 0, n, here, N, D_TYPE, BIAS, GATED, ACTIVATION, RESIDUAL)


@triton.jit
def some_rows(x, weight, bias, scale, shift, stream, out, M, N, epsilon,
              D: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
              STEP: tl.constexpr, NORM: tl.constexpr, SHIFT: tl.constexpr, BIAS: tl.constexpr,
              GATED: tl.constexpr, ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr,
              PRECISION: tl.constexpr):  # fmt: skip
    """Compute R rows and S outputs by products of blocks."""
    D_TYPE = out.dtype.element_ty
    m = tl.program_id(1) * R + tl.arange(0, R)
    n = tl.program_id(0) * S + tl.arange(0, S)
    real_m, real_n = m < M, n < N
    rows = x + m[:, None] * D
    middle = tl.zeros([R], tl.float32)
    spread = tl.full([R], 1.0, tl.float32)
    if NORM != "":
        # Differences from the first number, not from 0, so that a large mean hides no spread.
        first = tl.zeros([R], tl.float32)
        if NORM == "layer":
            first = tl.load(x + m * D, mask=real_m, other=0.0).to(tl.float32)
        squares = tl.zeros([R], tl.float32)
        for start in range(0, D, STEP):
            d = start + tl.arange(0, STEP)
            inside = real_m[:, None] & (d < D)[None, :]
            part = tl.load(rows + d[None, :], mask=inside, other=0.0).to(tl.float32)
            part = tl.where(inside, part - first[:, None], 0.0)
            middle += tl.sum(part, 1)
            squares += tl.sum(part * part, 1)
        middle = middle / D
        squares = squares / D
        if NORM == "layer":
            squares -= middle * middle
            middle += first
        else:
            middle = tl.zeros([R], tl.float32)
        spread = tl.rsqrt(squares + epsilon)
    total = tl.zeros([R, S], tl.float32)
    gate = tl.zeros([R, S], tl.float32)
    for start in range(0, D, STEP):
        d = start + tl.arange(0, STEP)
        real = d < D
        part = tl.load(rows + d[None, :], mask=real_m[:, None] & real[None, :], other=0.0)
        if NORM != "":
            scales = tl.load(scale + d, mask=real, other=0.0).to(tl.float32)
            part = (part.to(tl.float32) - middle[:, None]) * spread[:, None] * scales[None, :]
            if SHIFT:
                part += tl.load(shift + d, mask=real, other=0.0).to(tl.float32)[None, :]
            part = tl.where(real[None, :], part, 0.0).to(D_TYPE)
        both = real[:, None] & real_n[None, :]
        at = weight + n[None, :].to(tl.int64) * D + d[:, None]
        if GATED:
            columns = tl.load(at, mask=both, other=0.0)
            gate = tl.dot(part, columns, gate, input_precision=PRECISION)
            at += N * D
        columns = tl.load(at, mask=both, other=0.0)
        total = tl.dot(part, columns, total, input_precision=PRECISION)
    inside = real_m[:, None] & real_n[None, :]
    finish(total, gate, bias, stream, out, m[:, None].to(tl.int64), n[None, :], inside, N, D_TYPE,
           BIAS, GATED, ACTIVATION, RESIDUAL)  # fmt: skip


class LinearTiles(NamedTuple):
    """How many rows and outputs a program computes, and how it reads them."""

    rows: int
    outputs: int
    step: int
    warps: int
    stages: int


def choose_tiles(
    rows: int, outputs: int, width: int, *, gated: bool, bytes_each: int, room: int
) -> LinearTiles:
    """Choose large tiles, but so many programs that all multiprocessors have one, and what is read
    ahead fits into `room` bytes of shared memory."""
    whole = triton.next_power_of_2(width)
    if rows == 1:
        each = 16
        while each > 4 and -(-outputs // each) < PROGRAMS:
            each //= 2
        return LinearTiles(1, each, min(whole, AT_ONCE // each), 4, 3)
    # Products of 32 bits are computed in registers, without tensor cores: large tiles do not fit.
    exact = bytes_each > 2
    most, each = min(64, max(16, triton.next_power_of_2(rows))), 32 if exact else 64
    while each > 16 and -(-outputs // each) * -(-rows // most) < PROGRAMS:
        each //= 2
    while most > 16 and -(-outputs // each) * -(-rows // most) < PROGRAMS:
        most //= 2
    step = min(32 if exact else 128, max(16, whole))
    stage = step * (most + each * (2 if gated else 1)) * bytes_each
    return LinearTiles(most, each, step, 4, max(1, min(3 if exact else 4, room // stage)))


@cache
def find_room(device: torch.device) -> int:
    """Return the bytes of shared memory that a program on this device can have."""
    if device.type != "cuda":  # the interpreter
        return LEAST_ROOM
    asked: Any = torch.cuda.get_device_properties(device)
    return int(getattr(asked, "shared_memory_per_block_optin", LEAST_ROOM))


@on_its_gpu
def launch(x: Tensor, layer: FusedLinear, residual: Tensor | None) -> Tensor:
    """(M, D), (M, N) -> (M, N)"""
    rows, width = x.shape
    weight, bias, norm, activation, gated = layer
    outputs = len(weight) // 2 if gated else len(weight)
    out = x.new_empty(rows, outputs)
    tiles = choose_tiles(
        *(rows, outputs, width),
        gated=gated,
        bytes_each=weight.element_size(),
        room=find_room(x.device),
    )
    scale, shift = (None if norm is None else getattr(norm, name, None) for name in NORM_WEIGHTS)
    given = (weight if one is None else one for one in (weight, bias, scale, shift, residual))
    epsilon = 0.0 if norm is None else float(norm.eps or 0)
    constants = {
        "D": width,
        "S": tiles.outputs,
        "STEP": tiles.step,
        "NORM": "" if norm is None else "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        "SHIFT": shift is not None,
        "BIAS": bias is not None,
        "GATED": gated,
        "ACTIVATION": activation,
        "RESIDUAL": residual is not None,
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
    }
    blocks = -(-outputs // tiles.outputs)
    if rows == 1:
        constants["WIDTH"] = triton.next_power_of_2(width)
        one_row[(blocks,)](x, *given, out, outputs, epsilon, **constants)
    else:
        # Products of 32 bits are exact, as in torch.
        constants |= {"R": tiles.rows, "PRECISION": "ieee"}
        grid = (blocks, -(-rows // tiles.rows))
        some_rows[grid](x, *given, out, rows, outputs, epsilon, **constants)
    return out
