"""Scores padded to whole vectors give what the reference gives, and leave the rest to others."""

import pytest
import torch

from manyheads.attention.kernels import Plan, Work, kernel
from manyheads.attention.kernels.base import make_plan
from manyheads.attention.kernels.padded import MOST, Padded
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.patterns import Causal, Everything, Lengths, Pattern, Window
from manyheads.attention.places import Pair, Pairs, line


class FirstHeads(Pattern):
    count: int

    def allows(self, pair: Pair) -> torch.Tensor:
        return pair.h < self.count


def plan_for(
    pattern: Pattern, queries: int, keys: int, key_heads: int = 4, *features: str
) -> tuple[Plan, Work]:
    pairs = Pairs(3, 4, line(queries, start=keys - queries), line(keys))
    work = Work(pattern, pairs, frozenset(features), channels=8, key_heads=key_heads)  # type: ignore[arg-type]
    return make_plan(Padded(kernel("sdpa")), work), work


@pytest.mark.parametrize("keys", [1, 9, 16, 17, 40])
@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize(
    "pattern",
    [
        Everything(),
        Causal(),
        Lengths(torch.tensor([0, 1, 9])),
        Causal() & Window(3),
        FirstHeads(2),  # one answer for all keys
    ],
    ids=str,
)
def test_it_computes_what_the_reference_does(pattern: Pattern, keys: int, key_heads: int) -> None:
    torch.manual_seed(0)
    plan, work = plan_for(pattern, min(keys, 5), keys, key_heads)
    assert plan.kernel.name == "padded"
    query = torch.randn(3, min(keys, 5), 4, 8).transpose(1, 2)
    key, value = torch.randn(2, 3, key_heads, keys + 3, 8)[:, :, :, :keys]
    wanted = make_plan(Reference(), work)(query, key, value)
    assert torch.allclose(plan(query, key, value), wanted, atol=1e-6)


def test_gradients_and_many_keys_are_left_to_the_other_kernel() -> None:
    for plan, _ in (
        plan_for(Everything(), 5, 9, 4, "gradient"),
        plan_for(Everything(), 5, MOST + 1),
    ):
        assert plan.kernel.name == "sdpa"
