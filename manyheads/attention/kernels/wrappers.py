"""Kernels that wrap a kernel: to record its weights, to change them, or to catch NaNs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.biases import Bias
from manyheads.attention.kernels.base import (
    Kernel,
    Plan,
    Scoring,
    Work,
    make_plan,
    refuse_nonfinite,
)
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.scores import Score

# Weights (B, H, Q, K), a mask of the allowed pairs, the work -> new weights.
Edit: TypeAlias = Callable[[Tensor, Tensor, Work], Tensor]


@dataclass(frozen=True, eq=False)
class Seen:
    """The weights of one attention call, and the layer they belong to."""

    layer: str  # "decoder.stack.blocks.0.cross_attention", empty outside a model
    weights: Tensor  # (B, H, Q, K)
    work: Work


class Recorded:
    """Wrap any kernel and keep the weights of every head in `seen`; the output does not change."""

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
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        fast, dense = plan.form
        with torch.no_grad():
            if isinstance(fast.kernel, Edited):  # the weights after its edits, not before
                weights = fast.kernel.weights(query, key, fast, how.score, how.biases)
            else:
                weights = Reference().weights(query, key, dense, how.score, how.biases)
        self.seen.append(Seen(self.layer, weights, plan.work))
        return fast(query, key, value, **how._asdict())


class Edited:
    """Wrap any kernel; layers that have edits use the weights that these edits return."""

    def __init__(self, kernel: Kernel, edits: Mapping[str, Sequence[Edit]]):
        self.kernel, self.edits, self.name = kernel, edits, f"edited {kernel.name}"
        self.layer = ""

    def refuses(self, work: Work) -> str:
        return self.kernel.refuses(work)

    def cost(self, work: Work) -> float:
        return self.kernel.cost(work)

    def prepare(self, work: Work) -> tuple[Plan, Plan]:
        return make_plan(self.kernel, work), make_plan(Reference(), work)

    def weights(
        self, query: Tensor, key: Tensor, plan: Plan, score: Score, biases: tuple[Bias, ...]
    ) -> Tensor:
        _, dense = plan.form
        weights = Reference().weights(query, key, dense, score, biases)
        for edit in self.edits.get(self.layer, ()):
            weights = edit(weights, dense.form.expand(weights.shape), plan.work)
        return weights

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        fast, dense = plan.form
        if self.layer not in self.edits:
            return fast(query, key, value, **how._asdict())
        weights = self.weights(query, key, plan, how.score, how.biases)
        return Reference().take(F.dropout(weights, how.dropout), value, dense, how.biases)


class Checked:
    """Wrap any kernel and raise an error for NaN or infinity; on a GPU every call waits for it."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.name = kernel, f"checked {kernel.name}"

    def refuses(self, work: Work) -> str:
        return self.kernel.refuses(work)

    def cost(self, work: Work) -> float:
        return self.kernel.cost(work)

    def prepare(self, work: Work) -> tuple[Plan]:
        return (make_plan(self.kernel, work),)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        for name, x in (("query", query), ("key", key), ("value", value)):
            refuse_nonfinite(x, f"the {name}", plan.work.pattern)
        (inner,) = plan.form
        return inner(query, key, value, **how._asdict())


def is_wrapper(kernel: Kernel | None) -> bool:
    """Whether it is one of these wrappers: they must be called at every token, by one thread, and
    never inside a recorded CUDA graph."""
    return isinstance(kernel, Recorded | Edited | Checked)
