"""On a GPU: every kernel against the reference in float64, and nothing compiled twice.

B 2 sequences, H 4 heads, T 300 tokens (not a multiple of a block), C 32 channels.
"""

import pytest
import torch
from torch import Tensor

from manyheads import (
    KERNELS,
    Blocks,
    Bucketed,
    Causal,
    Clipped,
    Edges,
    Every,
    Everything,
    Graph,
    Lengths,
    Pairs,
    Prefix,
    RelativeBias,
    RelativeContent,
    Rotary,
    Segments,
    Window,
    Work,
    grid,
    line,
    plan,
)
from manyheads.attention.kernels.base import Kernel
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Grid, Places
from manyheads.attention.positions import Relative

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

B, H, T, C = 2, 4, 300, 32


def nodes() -> Graph:
    hops, edges = torch.randint(0, 6, (2, B, T, T))
    return Graph(torch.minimum(hops, hops.mT), edges)


PACKED = Segments.of([[100, 50, 130], [T]], T)
CASES: dict[str, tuple[Places, Pattern, Relative]] = {
    "full": (line(T), Everything(), Relative()),
    "language": (line(T), Causal(), Rotary()),
    "a cache": (line(T, start=7), Causal(), Relative()),
    "window": (line(T), Causal() & Window(40), Relative()),
    "translation": (line(T), Lengths(torch.tensor([T, 170])), RelativeBias(H, Bucketed(16, 64))),
    "an empty sequence": (line(T), Lengths(torch.tensor([T, 0])), Relative()),
    "packed": (line(T), PACKED, Relative()),
    "causal packed": (line(T), Causal() & PACKED, Relative()),
    "prefix": (line(T), Prefix(torch.tensor([40, 200])), Relative()),
    "union": (line(T), (Causal() & Window(9)) | Prefix(5), Relative()),
    "music": (line(T), Causal(), RelativeContent(C, Every(T), heads=H)),
    "shaw keys": (line(T), Everything(), RelativeContent(C, Clipped(16))),
    "image 1D": (grid(10, 10, channels=3), Causal() & Blocks(64, 64), Relative()),
    "image 2D": (grid(10, 10, 3, blocks=(5, 5)), Causal() & Blocks((5, 5), (2, 3)), Rotary()),
    "image bias": (grid(15, 20), Window(4), RelativeBias(H, Clipped(4), axes=2)),
    "graph": (nodes(), Window(2), RelativeBias(H, Clipped(4))),
    "edges": (nodes(), Everything(), RelativeContent(C, Edges(6))),
}
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 3e-2}


def on_gpu(places: Places, pattern: Pattern) -> tuple[Places, Pattern]:
    return places.to("cuda"), pattern.to("cuda")


def attend(which: Kernel, name: str, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The output and the gradients of query, key, value and the position's tables."""
    places, pattern = on_gpu(*CASES[name][:2])
    relative, pairs = CASES[name][2].to("cuda", tensors[0].dtype), Pairs(B, H, places, places)
    features = frozenset(relative.features | {"gradient"})
    planned = plan(
        which,
        Work(pattern, pairs, features, tensors[0].dtype, C, tensors[1].shape[1], relative.kinds()),
    )
    q, k, v = (x.clone().requires_grad_() for x in tensors)
    relative.zero_grad()
    turned = relative.rotate(q, places), relative.rotate(k, places)
    out = planned(*turned, v, biases=relative.biases(q))
    out.float().square().sum().backward()
    tables = [p.grad.clone() for p in relative.parameters() if p.grad is not None]
    return [out.detach(), *(x.grad for x in (q, k, v) if x.grad is not None), *tables]


def refused(which: str, name: str, dtype: torch.dtype) -> str:
    places, pattern = on_gpu(*CASES[name][:2])
    features = frozenset(CASES[name][2].features | {"gradient"})
    return KERNELS[which].refuses(Work(pattern, Pairs(B, H, places, places), features, dtype, C))


DOES = [
    (which, name, dtype)
    for which in KERNELS
    for name in CASES
    for dtype in TOLERANCE
    if torch.cuda.is_available() and not refused(which, name, dtype)
] or [("sdpa", "full", torch.float32)]


@pytest.mark.parametrize(("which", "name", "dtype"), DOES, ids=str)
def test_a_gpu_kernel_agrees_with_the_reference(which: str, name: str, dtype: torch.dtype) -> None:
    key_heads = 2 if name in ("full", "language", "causal packed") else H
    sizes = H, key_heads, key_heads
    tensors = tuple(torch.randn(B, heads, T, C, device="cuda", dtype=dtype) for heads in sizes)
    found = attend(KERNELS[which], name, tensors)
    wanted = attend(KERNELS["reference"], name, tuple(x.double() for x in tensors))
    CASES[name][2].to("cpu", torch.float32)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert torch.isfinite(a).all()
        error = (a.double() - b).norm() / b.norm()
        assert error < TOLERANCE[dtype], f"relative error {error:.1e}"
    if name == "an empty sequence":
        assert found[0][1].abs().max() == 0


def test_another_batch_of_the_same_kind_compiles_nothing_new() -> None:
    tensors = [torch.randn(B, H, T, C, device="cuda", dtype=torch.bfloat16) for _ in range(3)]

    def once(pattern: Pattern, places: Grid) -> None:
        pattern, places = pattern.to("cuda"), places.to("cuda")
        pairs = Pairs(B, H, places, places)
        work = Work(pattern, pairs, frozenset({"gradient"}), torch.bfloat16, C)
        with torch.no_grad():
            plan(KERNELS["flex"], work)(*tensors)

    once(Causal() & Segments.of([[100, 50], [T]], T), line(T))
    once(Lengths(torch.tensor([3, 9])), line(T, start=3))
    with torch.compiler.set_stance("fail_on_recompile"):
        once(Causal() & Segments.of([[10, 50, 120], [20, 9]], T), line(T))
        once(Lengths(torch.tensor([200, 120])), line(T, start=9))
