"""The Triton programs behind `FusedCrossEntropy`: one program for each row of logits.

Imported only when it runs: Triton comes only with torch's builds for CUDA.

N tokens, V vocabulary.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from manyheads.devices import on_its_gpu

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

SCORES = 4096  # read at once


@triton.jit
def row_loss(scores, wanted, losses, log_sums, size, smoothing, BLOCK: tl.constexpr):
    """Compute the loss of a row in one pass, with an online log-sum-exp."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(wanted + row)
    scores += row * size
    largest = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    plain = tl.full([], 0.0, tl.float32)
    if label >= 0:
        for start in range(0, size, BLOCK):
            at = start + tl.arange(0, BLOCK)
            x = tl.load(scores + at, mask=at < size, other=-float("inf")).to(tl.float32)
            higher = tl.maximum(largest, tl.max(x, 0))
            total = total * tl.exp(largest - higher) + tl.sum(tl.exp(x - higher), 0)
            plain += tl.sum(tl.where(at < size, x, 0.0), 0)
            largest = higher
        log_sum = largest + tl.log(total)
        right = tl.load(scores + label).to(tl.float32)
        loss = log_sum - (1 - smoothing) * right
        if smoothing > 0:  # 0 times an infinite logit is NaN
            loss -= smoothing * plain / size
        tl.store(losses + row, loss)
        tl.store(log_sums + row, log_sum)
    else:
        tl.store(losses + row, 0.0)


@triton.jit
def row_gradient(scores, wanted, log_sums, grad, out, size, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(wanted + row)
    scores += row * size
    out += row * size
    scale = tl.load(grad).to(tl.float32)
    log_sum = tl.load(log_sums + row)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        found = tl.zeros([BLOCK], tl.float32)
        if label >= 0:
            x = tl.load(scores + at, mask=at < size, other=-float("inf")).to(tl.float32)
            found = tl.exp(x - log_sum) - smoothing / size
            found = (found - tl.where(at == label, 1 - smoothing, 0.0)) * scale
        tl.store(out + at, found.to(out.dtype.element_ty), mask=at < size)


def scores_at_once(size: int) -> int:
    return min(SCORES, triton.next_power_of_2(size))


@on_its_gpu
def losses_of(scores: Tensor, wanted: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the loss and the log-sum-exp of each row of logits (N, V)."""
    rows, size = scores.shape
    losses, log_sums = scores.new_empty(2, rows, dtype=torch.float32)
    row_loss[(rows,)](scores, wanted, losses, log_sums, size, smoothing, BLOCK=scores_at_once(size))
    return losses, log_sums


@on_its_gpu
def gradient_of(
    scores: Tensor, wanted: Tensor, log_sums: Tensor, grad: Tensor, smoothing: float
) -> Tensor:
    rows, size = scores.shape
    out = torch.empty_like(scores)
    row_gradient[(rows,)](
        scores, wanted, log_sums, grad, out, size, smoothing, BLOCK=scores_at_once(size)
    )
    return out
