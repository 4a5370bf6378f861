"""The cross-entropy loss.

N tokens, V vocabulary.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

TRITON = find_spec("triton") is not None


def sum_losses(scores: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum the cross-entropy of logits (..., V) and targets (...); a target of -100 is ignored."""
    scores, wanted = scores.flatten(0, -2), wanted.flatten()
    if TRITON and scores.is_cuda and scores.dtype != torch.float64 and scores.numel():
        return FusedCrossEntropy.apply(scores, wanted, smoothing)
    return F.cross_entropy(scores.float(), wanted, label_smoothing=smoothing, reduction="sum")


class FusedCrossEntropy(torch.autograd.Function):
    """The same on CUDA: computed in 32 bits, but gradients are stored in the dtype of the logits,
    since logits and gradients of a batch in 32 bits would be most of what a step writes.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
        from manyheads.modules.triton_losses import losses_of

        scores = scores.contiguous()
        losses, log_sums = losses_of(scores, wanted, smoothing)
        ctx.save_for_backward(scores, wanted, log_sums)
        ctx.smoothing = smoothing
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        from manyheads.modules.triton_losses import gradient_of

        scores, wanted, log_sums = ctx.saved_tensors
        return gradient_of(scores, wanted, log_sums, grad, ctx.smoothing), None, None
