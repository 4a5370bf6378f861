"""Choose the kernel for a work, and say why not another."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from manyheads.attention.evaluate import check
from manyheads.attention.kernels.base import Kernel, Plan, Scoring, Work, make_plan
from manyheads.attention.kernels.block_sparse import BlockSparse
from manyheads.attention.kernels.blockwise import Blockwise
from manyheads.attention.kernels.flex import Flex
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.kernels.relative import Skewed
from manyheads.attention.kernels.sdpa import Sdpa
from manyheads.attention.kernels.short import Short
from manyheads.attention.kernels.sparse import Sparse
from manyheads.attention.kernels.varlen import Varlen

KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        *(Reference(), Sdpa(), Short(), Varlen(), Flex(), BlockSparse()),
        *(Skewed(), Blockwise(), Sparse()),
    )
}


@dataclass(frozen=True)
class KernelChoice:
    """The chosen kernel, and the cost or the refusal of each; prints as the reason."""

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


def choose(work: Work, kernels: dict[str, Kernel] = KERNELS) -> KernelChoice:
    """Return the fastest kernel that does not refuse the work."""
    check(work.pattern, work.pairs)
    refusals: dict[str, str] = {}
    costs: dict[str, float] = {}
    for name, kernel in kernels.items():
        if getattr(kernel, "cuda_only", False) and work.device.type != "cuda":
            refusals[name] = f"it runs on CUDA, not on {work.device.type}"
        elif reason := kernel.refuses(work):
            refusals[name] = reason
        else:
            costs[name] = kernel.cost(work)
    if not costs:
        reasons = "; ".join(f"{name}: {why}" for name, why in refusals.items())
        raise ValueError(f"no kernel does {work.pattern}: {reasons}")
    return KernelChoice(kernels[min(costs, key=costs.__getitem__)], costs, refusals)


class Fastest:
    """The kernel that `choose` returns, chosen again for each work."""

    name = "fastest"

    def refuses(self, work: Work) -> str:
        return ""

    def cost(self, work: Work) -> float:
        return min(choose(work).costs.values())

    def prepare(self, work: Work) -> Plan:
        chosen = choose(work).kernel
        form = chosen.prepare(work)
        return form if isinstance(form, Plan) else Plan(work, chosen, form)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        raise TypeError("the fastest kernel leaves its plans to the kernel it chose")


def kernel(which: Kernel | str) -> Kernel:
    """Return a kernel by its name, or "fastest"; a kernel object is returned as it is."""
    if not isinstance(which, str):
        return which
    known = {**KERNELS, "fastest": Fastest()}
    if which not in known:
        raise ValueError(f"there is no kernel {which!r}; there are {', '.join(known)}")
    return known[which]


def plan(which: Kernel | str, work: Work) -> Plan:
    """Plan with this kernel and no other; raise an error with the reason if it refuses."""
    return make_plan(kernel(which), work)
