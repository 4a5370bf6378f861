"""The loss of a batch: the fused one equals torch's, forward and backward.

Its Triton programs run where there is a GPU, or on a CPU in Triton's interpreter.
"""

import os

import pytest
import torch
import torch.nn.functional as F

from manyheads.modules.losses import TRITON, FusedCrossEntropy, sum_losses

INTERPRETED = TRITON and os.environ.get("TRITON_INTERPRET") == "1"
runs = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()),
    reason="needs a CUDA device, or Triton's interpreter",
)
DEVICE = "cpu" if INTERPRETED else "cuda"


@runs
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("size", [2, 100, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_fused_loss_is_torchs(dtype: torch.dtype, size: int, smoothing: float) -> None:
    torch.manual_seed(0)
    scores = (4 * torch.randn(7, size, device=DEVICE)).to(dtype).requires_grad_()
    wanted = torch.randint(size, (7,), device=DEVICE)
    wanted[2] = -100
    found = FusedCrossEntropy.apply(scores, wanted, smoothing)
    (found / 3).backward()
    exact = scores.detach().double().requires_grad_()
    loss = F.cross_entropy(exact, wanted, label_smoothing=smoothing, reduction="sum")
    (loss / 3).backward()
    assert abs(found.item() - loss.item()) < 1e-5 * abs(loss.item())
    tolerance = 1e-6 if dtype == torch.float32 else 1e-3
    assert scores.grad is not None
    assert exact.grad is not None
    assert (scores.grad.double() - exact.grad).abs().max() < tolerance
    assert not scores.grad[2].any()


@runs
def test_a_score_that_is_no_number_is_not_hidden() -> None:
    scores = torch.zeros(2, 8, device=DEVICE)
    scores[1, 3] = torch.nan
    assert FusedCrossEntropy.apply(scores, torch.zeros(2, dtype=int, device=DEVICE), 0.0).isnan()


def test_what_is_not_wanted_adds_nothing() -> None:
    scores, wanted = torch.randn(2, 3, 5), torch.tensor([[1, 2, -100], [4, -100, -100]])
    each = F.cross_entropy(scores.mT, wanted, reduction="none")
    assert torch.isclose(sum_losses(scores, wanted), each.sum())
