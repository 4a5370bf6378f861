"""Rows of one tile: equal to the definition, forward and backward, with what is dropped too.

Its Triton program runs here only where Triton is installed and TRITON_INTERPRET=1 is set. It knows
no bfloat16: 16 bits are float16 there.

B rows, H heads, T tokens, C channels of one head.
"""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from manyheads import Causal, Pairs, Pattern, Rotary, Segments, Window, Work, line, plan
from manyheads.attention.kernels.base import TRITON, Plan
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.kernels.short import Short
from manyheads.attention.places import packed

INTERPRETED = TRITON and os.environ.get("TRITON_INTERPRET") == "1"
RUNS = INTERPRETED or torch.cuda.is_available()
runs = pytest.mark.skipif(not RUNS, reason="needs a CUDA device, or Triton's interpreter")
DEVICE = "cpu" if INTERPRETED else "cuda"
DTYPE = torch.float16 if INTERPRETED else torch.bfloat16
TOLERANCE = 3e-3 if INTERPRETED else 2e-2

MINE = [[4, 3, 7], [20], []]
THEIRS = [[2, 6, 1], [13], []]
OWN = Segments.of(MINE, 20)
CASES = {
    "encoder": (OWN, 20, 20),
    "decoder": (Causal() & OWN, 20, 20),
    "cross": (OWN.towards(Segments.of(THEIRS, 13)), 20, 13),
    "long": (Causal() & Segments.of([[100, 28], [5, 60], [128]], 128), 128, 128),
}


def work(name: str = "encoder", **more: Any) -> Work:
    pattern, queries, keys = CASES[name]
    told = {"dtype": DTYPE, "features": frozenset({"gradient", "dropout"}), "channels": 24, **more}
    sides = line(queries).to(DEVICE if RUNS else "cpu"), line(keys).to(DEVICE if RUNS else "cpu")
    return Work(pattern.to(sides[0].device), Pairs(3, 2, *sides), **told)


class OnAnyDevice(Short):
    """For the interpreter, which computes on a CPU."""

    def refuses(self, work: Work) -> str:
        return self.unfit(work)


def tensors(name: str, channels: int = 24, dtype: torch.dtype = DTYPE) -> list[Tensor]:
    torch.manual_seed(0)
    _, queries, keys = CASES[name]
    sizes = (queries, keys, keys)
    made = [torch.randn(3, count, 2, channels, dtype=dtype, device=DEVICE) for count in sizes]
    return [x.transpose(1, 2) for x in made]


def run(planned: Plan, given: list[Tensor], grad: Tensor, **more: Any) -> list[Tensor]:
    """The output, and the gradients of query, key and value."""
    given = [x.detach().clone().requires_grad_() for x in given]
    out = planned(*given, **more)
    out.backward(grad.to(out.dtype))
    return [out.detach(), *(x.grad for x in given if x.grad is not None)]


def assert_close(found: list[Tensor], wanted: list[Tensor]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one.double() - other).norm() <= TOLERANCE * other.norm()


@runs
@pytest.mark.parametrize("name", CASES)
def test_it_is_equal_to_the_definition(name: str) -> None:
    given = tensors(name)
    grad = torch.randn_like(given[0])
    exact = Work(**{**vars(work(name)), "dtype": torch.float64})
    wanted = run(plan(Reference(), exact), [x.double() for x in given], grad)
    found = run(plan(OnAnyDevice(), work(name)), given, grad)
    assert_close(found, wanted)
    if name != "long":  # the last row is empty
        assert not any(one[2].any() for one in found)


@runs
def test_what_is_dropped_forward_is_dropped_backward() -> None:
    """With the unit matrix for values the output is the weights, zeros where they are dropped."""
    given, share = tensors("decoder", channels=32), 0.3
    given[2] = torch.eye(20, 32, dtype=DTYPE, device=DEVICE).expand(3, 2, -1, -1).contiguous()
    planned = plan(OnAnyDevice(), work("decoder", channels=32))
    whole = planned(*given)[..., :20].double()
    torch.manual_seed(5)
    grad = torch.randn(3, 2, 20, 32, dtype=DTYPE, device=DEVICE)
    torch.manual_seed(7)
    found = run(planned, given, grad, dropout=share)
    kept = found[0][..., :20] != 0
    assert abs(1 - kept[whole > 0].double().mean().item() - share) < 0.06
    assert_close([found[0][..., :20]], [whole * kept / (1 - share)])

    q, k, v = (x.detach().double().requires_grad_() for x in given)
    weights = (q @ k.mT / 32**0.5).masked_fill(whole == 0, -1e9).softmax(-1)
    (weights * kept / (1 - share) @ v).backward(grad.double())
    assert_close(found[1:], [x.grad for x in (q, k, v) if x.grad is not None])


@runs
def test_chance_follows_from_the_seed() -> None:
    planned, given = plan(OnAnyDevice(), work()), tensors("encoder")
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(planned(*given, dropout=0.2))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@runs
def test_heads_may_share_their_keys() -> None:
    query, key, value = tensors("encoder")
    asked = work(key_heads=1)
    shared = plan(OnAnyDevice(), asked)(query, key[:, :1], value[:, :1])
    same = [x[:, :1].expand(-1, 2, -1, -1).contiguous() for x in (key, value)]
    assert torch.equal(shared, plan(OnAnyDevice(), work())(query, *same))


def pattern_work(pattern: Pattern, count: int = 20) -> Work:
    places = packed([[count]] * 3, count)
    return Work(pattern, Pairs(3, 2, places, places), frozenset(), torch.float16, 24)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (pattern_work(Causal()), "Segments"),
        (pattern_work(OWN & Window(2)), "Segments"),
        (pattern_work(Segments.of([[129]] * 3, 129), 129), "128 tokens"),
        (Work(**{**vars(work()), "dtype": torch.float32}), "16 bits"),
        (Work(**{**vars(work()), "channels": 256}), "channels"),
        (Work(**{**vars(work()), "kinds": Rotary().kinds(), "features": {"value bias"}}), "value"),
    ],
)
def test_what_it_does_not_do_it_refuses(asked: Work, sentence: str) -> None:
    assert sentence in OnAnyDevice().refuses(asked)
