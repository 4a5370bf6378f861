"""Which kernel does this work, and why not another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor

from manyheads.attention.kernels.base import Kernel, Plan, Work, plan
from manyheads.attention.kernels.flex import Flex
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.kernels.sdpa import Sdpa
from manyheads.attention.kernels.varlen import Varlen
from manyheads.attention.patterns import check

KERNELS: dict[str, Kernel] = {
    kernel.name: kernel for kernel in (Reference(), Sdpa(), Varlen(), Flex())
}


@dataclass(frozen=True)
class Choice:
    """The kernel taken and what was said of each: prints as the reason."""

    kernel: Kernel
    costs: dict[str, float]
    refusals: dict[str, str]

    def __str__(self) -> str:
        lines = [
            f"{name}: about {cost:g}x plain attention"
            + (", taken" if name == self.kernel.name else "")
            for name, cost in sorted(self.costs.items(), key=lambda item: item[1])
        ]
        return "\n".join(lines + [f"{name}: no, {why}" for name, why in self.refusals.items()])


def choose(work: Work, kernels: dict[str, Kernel] = KERNELS) -> Choice:
    """The fastest kernel that does not refuse."""
    check(work.pattern, work.pairs)
    refusals, costs = dict[str, str](), dict[str, float]()
    for name, kernel in kernels.items():
        reason = kernel.refuses(work)
        if reason:
            refusals[name] = reason
        else:
            costs[name] = kernel.cost(work)
    if not costs:
        reasons = "; ".join(f"{name}: {why}" for name, why in refusals.items())
        raise ValueError(f"no kernel does {work.pattern}: {reasons}")
    return Choice(kernels[min(costs, key=costs.__getitem__)], costs, refusals)


class Fastest:
    """Whatever `choose` takes, decided anew for each work."""

    name = "fastest"

    def refuses(self, work: Work) -> str:
        return ""

    def cost(self, work: Work) -> float:
        return min(choose(work).costs.values())

    def prepare(self, work: Work) -> Plan:
        return plan(choose(work).kernel, work)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, **extras: Any
    ) -> Tensor:
        inner: Plan = plan.form
        return inner.kernel(query, key, value, inner, **extras)


def kernel(name: str) -> Kernel:
    """A kernel by its name, "fastest" among them."""
    known = {**KERNELS, "fastest": Fastest()}
    return known[name] if name in known else unknown(name, known)


def unknown(name: str, known: dict[str, Kernel]) -> NoReturn:
    raise ValueError(f"there is no kernel {name!r}; there are {', '.join(known)}")
