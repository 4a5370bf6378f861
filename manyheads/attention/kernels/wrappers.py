"""Kernels around a kernel: to see its weights, to catch what is not a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.biases import Bias
from manyheads.attention.kernels.base import Kernel, Plan, Work, make_plan
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.patterns import Pattern
from manyheads.attention.scores import Score


@dataclass(frozen=True, eq=False)
class Seen:
    """The weights of one attention call, and whose they are."""

    layer: str  # "decoder.stack.blocks.0.cross_attention", empty outside a model
    weights: Tensor  # (B, H, Q, K)
    work: Work


class Recorded:
    """Any kernel, with every head's weights kept in `seen`; what it computes does not change."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.name = kernel, f"recorded {kernel.name}"
        self.seen: list[Seen] = []
        self.layer = ""

    def refuses(self, work: Work) -> str:
        return self.kernel.refuses(work)

    def cost(self, work: Work) -> float:
        return self.kernel.cost(work) + Reference().cost(work)

    def prepare(self, work: Work) -> tuple[Plan, Plan]:
        return make_plan(self.kernel, work), make_plan(Reference(), work)

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: Plan,
        *,
        score: Score,
        biases: tuple[Bias, ...],
        dropout: float,
    ) -> Tensor:
        fast, dense = plan.form
        with torch.no_grad():
            weights = Reference().weights(query, key, dense, score, biases)
        self.seen.append(Seen(self.layer, weights, plan.work))
        return fast(query, key, value, score=score, biases=biases, dropout=dropout)


class Checked:
    """Any kernel, refusing what is not a number; on a GPU every call waits for the look."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.name = kernel, f"checked {kernel.name}"

    def refuses(self, work: Work) -> str:
        return self.kernel.refuses(work)

    def cost(self, work: Work) -> float:
        return self.kernel.cost(work)

    def prepare(self, work: Work) -> tuple[Plan]:
        return (make_plan(self.kernel, work),)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, **extras: Any
    ) -> Tensor:
        for name, x in (("query", query), ("key", key), ("value", value)):
            finite(x, f"the {name}", plan.work.pattern)
        (inner,) = plan.form
        return inner(query, key, value, **extras)


def finite(x: Tensor, what: str, pattern: Pattern | None = None) -> None:
    """Refuse NaN and infinity, naming the first place of it."""
    bad = ~torch.isfinite(x)
    if bool(bad.any()):
        place = tuple(torch.nonzero(bad)[0].tolist())
        where = what if pattern is None else f"{what} of {pattern}"
        raise ValueError(
            f"{where} should be finite numbers, {x[place].item()} arrived at {place}; "
            "look at the input there, or lower the learning rate if it came from training"
        )
