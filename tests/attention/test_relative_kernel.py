"""Relative attention without a number for every pair: fused on a GPU, in strips on a CPU.

Without a GPU the fused programs run in Triton's interpreter, where Triton is installed and
TRITON_INTERPRET=1 is set. It knows no bfloat16: 16 bits are float16 there.
"""

import inspect
import os
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from manyheads import (
    Blocks,
    Bucketed,
    Causal,
    Clipped,
    Dot,
    Every,
    Everything,
    Lengths,
    Pairs,
    RelativeBias,
    RelativeContent,
    Segments,
    Window,
    Work,
    choose,
    grid,
    line,
    plan,
)
from manyheads.attention.kernels import Plan
from manyheads.attention.kernels.base import TRITON
from manyheads.attention.kernels.blockwise import STRIP, Blockwise
from manyheads.attention.kernels.relative import (
    LaunchNumbers,
    Skewed,
    Tiles,
    relative_attention,
)
from manyheads.attention.kernels.relative import relative_attention_backward as backward
from manyheads.attention.patterns import Pattern
from manyheads.attention.positions import Relative

T, C = 40, 16
INTERPRETED = TRITON and os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(
    not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1 from the start"
)
cuda = pytest.mark.skipif(
    not torch.cuda.is_available() or INTERPRETED, reason="needs a CUDA device"
)


def work(
    pattern: Pattern = Causal(),
    relative: Relative | None = None,
    length: int = T,
    device: str = "cpu",
    heads: int = 2,
    batch: int = 2,
    places: Any = None,
    **options: Any,
) -> Work:
    relative = RelativeContent(C, Every(length), heads=heads) if relative is None else relative
    at = line(length, device=device) if places is None else places
    options = {"channels": C, "features": frozenset({"gradient"}), **options}
    return Work(pattern, Pairs(batch, heads, at, at), kinds=relative.kinds(), **options)


# ---- what it does not do ---------------------------------------------------------------------

UNFIT: list[tuple[dict[str, Any], str]] = [
    ({}, "it runs on CUDA, not on cpu"),
    ({"relative": Relative()}, "it computes one RelativeContent, and nothing without it"),
    ({"relative": RelativeBias(2, Clipped(3))}, "it has no distance bias"),
    (
        {"relative": RelativeContent(C, Every(T), axes=2)},
        "it measures along one axis, not along 2",
    ),
    ({"features": frozenset({"dropout"})}, "it has no dropout"),
    (
        {"relative": RelativeContent(C, Bucketed())},
        r"it reads distances by Clipped\(reach\) or Every\(length\), not by Bucketed",
    ),
    ({"places": grid(5, 8)}, "its tokens lie on a line, each one step after the one before"),
    (
        {"pattern": Causal() & Blocks(8, 8)},
        r"it computes Causal\(\), Window, Segments and Lengths, one of each, not Causal\(\) & Bl",
    ),
    ({"pattern": ~Window(3)}, "one of each, not ~Window"),
    ({"pattern": Window(3) & Window(5)}, "one of each, not Window"),
    ({"dtype": torch.float64}, "it computes in 32 bits or fewer, torch.float64 was asked for"),
    ({"channels": 8}, "it takes heads of 16 to 128 channels, got 8"),
    ({"channels": 256}, "it takes heads of 16 to 128 channels, got 256"),
    ({"places": line(0)}, "there are no pairs to attend"),
]


@pytest.mark.parametrize(("asked", "sentence"), UNFIT)
def test_what_it_does_not_do_it_refuses(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"the skewed kernel refuses .*: .*{sentence}"):
        plan("skewed", work(**asked))


def test_tiles_are_powers_of_two() -> None:
    with pytest.raises(ValueError, match="Tiles takes a size of 16, 32, 64 or 128, got 48"):
        Tiles(48)


# ---- planning --------------------------------------------------------------------------------


def test_a_plan_names_the_tiles_that_have_pairs_and_no_others() -> None:
    form = Skewed(Tiles(16)).prepare(work(Causal() & Window(16), length=64))
    assert form.by_query[..., :2].tolist() == [[[0, 1], [0, 2], [1, 3], [2, 4]]]
    assert form.by_key[..., :2].tolist() == [[[0, 2], [1, 3], [2, 4], [3, 4]]]
    assert (form.asked.radius, form.asked.causal, form.asked.reach) == (16, 1, 63)


def test_documents_do_not_meet_in_a_plan() -> None:
    form = Skewed(Tiles(16)).prepare(work(Segments.of([[16, 32], [48]], 48), length=48))
    assert form.by_query[..., :2].tolist() == [[[0, 1], [1, 3], [1, 3]], [[0, 3]] * 3]


def test_a_plan_names_the_tiles_that_need_no_mask() -> None:
    form = Skewed(Tiles(16)).prepare(work(Causal(), length=56))
    assert form.by_query[..., 2:].tolist() == [[[4, 4], [0, 1], [0, 2], [0, 3]]]
    assert form.by_key[..., 2:].tolist() == [[[1, 4], [2, 4], [3, 4], [4, 4]]]
    form = Skewed(Tiles(16)).prepare(work(Everything(), length=56))  # the last tile has 8 keys
    assert form.by_query[..., 2:].tolist() == [[[0, 3]] * 4]


def test_the_diagonals_of_a_plan_are_those_that_have_pairs() -> None:
    def diagonals(queries: int, keys: int, **told: int) -> tuple[int, int]:
        defaults = {"shift": 0, "reach": 9, "radius": -1, "causal": 0}
        asked = LaunchNumbers(16, 4, 1, 4, 1, 1, 1, 1, **{**defaults, **told})
        return asked.diagonals(queries, keys)

    assert diagonals(4, 4) == (-3, 7)
    assert diagonals(4, 4, causal=1) == (-3, 4)
    assert diagonals(4, 4, causal=1, radius=16) == (-1, 2)
    assert diagonals(4, 4, causal=1, radius=17) == (-2, 3)
    assert diagonals(1, 4, causal=1, shift=-48) == (0, 4)


def test_what_is_compiled_knows_its_shapes() -> None:
    q, k = torch.empty(2, 4, 9, 16, device="meta"), torch.empty(2, 2, 7, 16, device="meta")
    table, bounds = torch.empty(4, 5, 16, device="meta"), torch.empty(1, 1, 2, device="meta")
    inputs = (q, None, k, k, table, None, bounds, bounds, None, None, None, 1.0, [64] * 11)
    out, kept = relative_attention(*inputs)
    assert (out.shape, kept.shape) == (q.shape, (2, 4, 9))
    found = backward(*inputs, out, kept, out)
    assert [x.shape for x in found] == [q.shape, (0,), k.shape, k.shape, table.shape, (0,)]


# ---- the fused programs --------------------------------------------------------------------------

CASES: dict[str, tuple[Pattern, Any]] = {
    "music": (Causal(), RelativeContent(C, Every(T), heads=2)),
    "full": (Everything(), RelativeContent(C, Every(T), heads=2)),
    "one table": (Causal(), RelativeContent(C, Clipped(5))),
    "shaw": (Everything(), RelativeContent(C, Clipped(5), values=True)),
    "values by head": (Causal(), RelativeContent(C, Every(T), heads=2, values=True)),
    "window": (Causal() & Window(9), RelativeContent(C, Every(T), heads=2)),
    "window both ways": (Window(20), RelativeContent(C, Clipped(3), heads=2)),
    "packed": (
        Causal() & Segments.of([[10, 5, 18], [1, 34]], T),
        RelativeContent(C, Every(T), heads=2),
    ),
    "an empty sequence": (Lengths(torch.tensor([T, 0])), RelativeContent(C, Every(T), heads=2)),
}


def run(planned: Plan, tensors: list[Tensor], relative: Any, turn: float = 1.0) -> list[Tensor]:
    """The output and the gradients of query, key, value and tables."""
    q, k, v = (x.clone().requires_grad_() for x in tensors)
    relative.zero_grad()
    # A turned query is another than the one that meets the distances.
    out = planned(q if turn == 1 else q * turn, k, v, biases=relative.biases(q))
    grad = torch.linspace(-1, 1, out.numel(), dtype=torch.float64, device=q.device)
    out.backward(grad.sin().view_as(out).to(out.dtype))
    tables = [p.grad.clone() for p in relative.parameters()]
    return [out.detach(), *(x.grad for x in (q, k, v) if x.grad is not None), *tables]


def exact(relative: Any, asked: Work, tensors: list[Tensor], turn: float = 1.0) -> list[Tensor]:
    """The same by definition, in 64 bits."""
    known = relative.key_tables.dtype
    double = Work(
        asked.pattern,
        asked.pairs,
        asked.features,
        torch.float64,
        asked.channels,
        asked.key_heads,
        asked.kinds,
    )
    wanted = run(plan("reference", double), [x.double() for x in tensors], relative.double(), turn)
    relative.to(known)
    return wanted


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert torch.isfinite(a).all()
        error = (a.double() - b).norm() / b.norm()
        assert error < tolerance, f"relative error {error:.1e}"


def by_tokens(heads: int, length: int, channels: int = C, **options: Any) -> Tensor:
    return torch.randn(2, length, heads, channels, **options).transpose(1, 2)


def fused(asked: Work, tiles: Tiles | None = None) -> Plan:
    """A plan whatever the device: the interpreter's is the CPU."""
    kernel = Skewed(tiles)
    return Plan(asked, kernel, kernel.prepare(asked))


@interpreted
@pytest.mark.parametrize("name", CASES)
def test_interpreted_it_is_equal_to_the_definition(name: str) -> None:
    pattern, relative = CASES[name]
    asked, tensors = work(pattern, relative), [by_tokens(2, T) for _ in range(3)]
    found = run(fused(asked, Tiles(16)), tensors, relative)
    assert_close(found, exact(relative, asked, tensors), 1e-5)
    if name == "an empty sequence":
        assert found[0][1].abs().max() == 0


@interpreted
@pytest.mark.parametrize("pattern", [Causal(), Everything(), Causal() & Window(20)], ids=str)
def test_interpreted_full_tiles_need_no_mask(pattern: Pattern) -> None:
    relative = RelativeContent(C, Every(64), heads=2, values=True)
    asked, tensors = work(pattern, relative, 64), [by_tokens(2, 64) for _ in range(3)]
    found = run(fused(asked, Tiles(16)), tensors, relative)
    assert_close(found, exact(relative, asked, tensors), 1e-5)


@interpreted
@pytest.mark.parametrize("name", ["music", "shaw", "packed", "an empty sequence"])
@pytest.mark.parametrize("heads", [1, 2])
def test_interpreted_distances_of_several_sequences_are_summed_together(
    name: str, heads: int
) -> None:
    pattern, _ = CASES[name]
    relative = RelativeContent(C, Every(T), heads=heads, values=True)
    asked, tensors = work(pattern, relative), [by_tokens(2, T) for _ in range(3)]
    found = run(fused(asked, Tiles(16, together=3)), tensors, relative)  # of two, so two
    assert_close(found, exact(relative, asked, tensors), 1e-5)


@interpreted
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 2e-3)])
def test_interpreted_with_shared_keys_turned_queries_and_odd_channels(
    dtype: torch.dtype, tolerance: float
) -> None:
    relative = RelativeContent(24, Clipped(6), heads=4)
    asked = work(Causal(), relative, heads=4, key_heads=2, channels=24)
    tensors = [by_tokens(heads, T, 24, dtype=dtype) for heads in (4, 2, 2)]
    found = run(fused(asked, Tiles(16)), tensors, relative, turn=1.5)
    assert_close(found, exact(relative, asked, tensors, turn=1.5), tolerance)


@interpreted
@pytest.mark.parametrize("name", ["music", "shaw", "packed"])
def test_interpreted_every_argument_of_a_program_is_told_in_its_place(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is started again is told tensors, numbers and constants without their names."""
    from manyheads.attention.kernels.triton.launch import Program

    started, through = [], Program.through_triton

    def seen(self: Any, tensors: tuple[Tensor, ...]) -> Any:
        names = list(inspect.signature(self.source.fn).parameters)
        assert len(names) == len(tensors) + len(self.numbers) + len(self.constants)
        assert names[-len(self.constants) :] == list(self.constants)
        started.append(self.source.fn.__name__)
        return through(self, tensors)

    monkeypatch.setattr(Program, "through_triton", seen)
    pattern, relative = CASES[name]
    asked = work(pattern, relative, dtype=torch.float32)
    run(fused(asked, Tiles(16)), [by_tokens(2, T) for _ in range(3)], relative)
    assert set(started) == {"forward", "by_query", "by_key", "by_distance", "fold"}


@interpreted
def test_interpreted_what_was_compiled_is_told_where_tensors_lie() -> None:
    from manyheads.attention.kernels.triton.launch import Program

    calls: list[tuple[Any, ...]] = []

    class Recorded:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            def start(*told: Any, **named: Any) -> Any:
                calls.append((grid, told, named))
                return self

            return start

    program = Program(Recorded(), 3, (7, 0.5), {"B": 16}, {"num_warps": 4})
    x, apart = torch.zeros(8), torch.zeros(9)[1:]
    for tensor in (apart, x, x, apart):
        program(tensor)
    named = {"B": 16, "num_warps": 4}
    assert [call[1][0] for call in calls] == [apart, x, x.data_ptr(), apart]
    assert calls[1] == ((3,), (x, 7, 0.5), named)
    assert calls[2] == ((3, 1, 1), (x.data_ptr(), 7, 0.5, 16), {})
    assert calls[3][0::2] == ((3,), named)


@interpreted
def test_interpreted_an_output_that_nobody_needed_has_no_gradient() -> None:
    relative = RelativeContent(C, Every(T), heads=2)
    planned = fused(work(relative=relative, dtype=torch.float32), Tiles(16))
    q, k, v = (by_tokens(2, T).requires_grad_() for _ in range(3))
    out, y = planned(q, k, v, biases=relative.biases(q)), q * 2
    checkpoint(lambda unused, y: y * 2, out, y, use_reentrant=True).sum().backward()
    assert q.grad is not None
    assert torch.equal(q.grad, torch.full_like(q, 4))
    assert k.grad is None


@interpreted
def test_interpreted_an_output_laid_out_otherwise_has_the_same_gradients() -> None:
    relative = RelativeContent(C, Every(T), heads=2)
    form = fused(work(relative=relative, dtype=torch.float32), Tiles(16)).form
    q, k, v, grad = (by_tokens(2, T) for _ in range(4))
    table = relative.key_tables.detach()[0]
    bounds = form.by_query, form.by_key, None, None, None
    inputs = (q, None, k, v, table, None, *bounds, 0.25, list(form.asked))
    out, kept = relative_attention(*inputs)
    wanted = backward(*inputs, out, kept, grad)
    found = backward(*inputs, out.contiguous(), kept, grad.contiguous())
    assert all(map(torch.equal, found, wanted))


@interpreted
def test_interpreted_new_queries_look_back_over_a_cache() -> None:
    relative = RelativeContent(C, Every(64), heads=2)
    pairs = Pairs(2, 2, line(20, start=25), line(45))
    asked = Work(Causal(), pairs, frozenset({"gradient"}), channels=C, kinds=relative.kinds())
    tensors = [by_tokens(2, 20), by_tokens(2, 45), by_tokens(2, 45)]
    found = run(fused(asked, Tiles(16)), tensors, relative)
    assert_close(found, exact(relative, asked, tensors), 1e-5)


ON_GPU: list[tuple[torch.dtype, int, float]] = [
    (torch.bfloat16, 32, 1e-2),
    (torch.bfloat16, 64, 1e-2),
    (torch.bfloat16, 96, 1e-2),
    (torch.bfloat16, 128, 1e-2),
    (torch.float32, 64, 1e-4),
    (torch.float32, 128, 1e-4),
]


def on_gpu(name: str, length: int, channels: int) -> tuple[Pattern, Any]:
    """A case of above, longer and wider."""
    pattern, small = CASES[name]
    if name == "packed":
        pattern = Causal() & Segments.of([[100, 50, 140], [1, 298]], length)
    if name == "an empty sequence":
        pattern = Lengths(torch.tensor([length, 0]))
    rule = Every(length) if isinstance(small.rule, Every) else Clipped(70)
    heads, values = small.key_tables.shape[1], small.value_tables is not None
    relative = RelativeContent(channels, rule, heads=heads, values=values)
    return pattern.to("cuda"), relative.to("cuda")


@cuda
@pytest.mark.parametrize(("dtype", "channels", "tolerance"), ON_GPU, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu_it_is_equal_to_the_definition(
    name: str, dtype: torch.dtype, channels: int, tolerance: float
) -> None:
    length = 300
    pattern, relative = on_gpu(name, length, channels)
    relative = relative.to(dtype)
    asked = work(pattern, relative, length, "cuda", channels=channels, dtype=dtype)
    assert choose(asked).kernel.name == "skewed"
    options = {"device": "cuda", "dtype": dtype}
    tensors = [by_tokens(2, length, channels, **options) for _ in range(3)]
    found = run(plan("skewed", asked), tensors, relative)
    assert_close(found, exact(relative, asked, tensors), tolerance)
    again = run(plan("skewed", asked), tensors, relative)
    assert all(map(torch.equal, found, again))


@cuda
@pytest.mark.parametrize(("dtype", "channels", "tolerance"), ON_GPU, ids=str)
def test_on_a_gpu_full_tiles_need_no_mask(
    dtype: torch.dtype, channels: int, tolerance: float
) -> None:
    options = {"device": "cuda", "dtype": dtype}
    relative = RelativeContent(channels, Every(512), heads=2).to(**options)
    asked = work(Causal(), relative, 512, "cuda", channels=channels, dtype=dtype)
    tensors = [by_tokens(2, 512, channels, **options) for _ in range(3)]
    found = run(plan("skewed", asked), tensors, relative)
    assert_close(found, exact(relative, asked, tensors), tolerance)


@cuda
def test_on_a_gpu_heads_share_keys_and_queries_turn() -> None:
    relative = RelativeContent(64, Every(300), heads=4).to("cuda")
    asked = work(Causal(), relative, 300, "cuda", 4, key_heads=2, channels=64, dtype=torch.bfloat16)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    tensors = [by_tokens(heads, 300, 64, **options) for heads in (4, 2, 2)]
    found = run(plan("skewed", asked), tensors, relative, turn=1.5)
    assert_close(found, exact(relative, asked, tensors, turn=1.5), 1e-2)


@cuda
def test_on_a_gpu_what_was_compiled_starts_again_only_for_tensors_that_lie_alike() -> None:
    options = {"device": "cuda", "dtype": torch.bfloat16}
    known = [by_tokens(2, 128, 64, **options) for _ in range(3)]
    apart = [by_tokens(2, 128, 65, **options)[..., 1:] for _ in range(3)]  # begin anywhere
    for dtype in (torch.float32, torch.bfloat16, torch.float32):
        relative = RelativeContent(64, Every(128), heads=2).to("cuda", dtype)
        asked = work(Causal(), relative, 128, "cuda", channels=64, dtype=torch.bfloat16)
        planned = plan("skewed", asked)
        for tensors in (known, apart, known):
            found = run(planned, tensors, relative)
            assert found[-1].dtype == dtype
            assert_close(found, exact(relative, asked, tensors), 1e-2)


@cuda
def test_on_a_gpu_a_compiled_step_is_one_graph() -> None:
    relative = RelativeContent(64, Every(256), heads=2).to("cuda")
    asked = work(Causal(), relative, 256, "cuda", channels=64)
    planned = plan("skewed", asked)
    q, k, v = (by_tokens(2, 256, 64, device="cuda").requires_grad_() for _ in range(3))
    step = torch.compile(
        lambda q, k, v: planned(q, k, v, biases=relative.biases(q)), fullgraph=True
    )
    torch.testing.assert_close(step(q, k, v), planned(q, k, v, biases=relative.biases(q)))
    step(q, k, v).sum().backward()
    assert q.grad is not None


@cuda
def test_on_a_gpu_no_number_for_every_pair_is_in_memory() -> None:
    length, heads = 8192, 8
    relative = RelativeContent(64, Every(length), heads=heads).to("cuda", torch.bfloat16)
    asked = work(
        Causal(), relative, length, "cuda", heads, batch=2, channels=64, dtype=torch.bfloat16
    )
    planned = plan("skewed", asked)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    tensors = [by_tokens(heads, length, 64, **options) for _ in range(3)]
    run(planned, tensors, relative)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(planned, tensors, relative)
    taken = torch.cuda.max_memory_allocated() - before
    assert taken < 20 * tensors[0].nbytes  # all pairs in 16 bits would be 128 times the query


# ---- in strips on a CPU ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        Causal(),
        Everything(),
        Causal() & Window(40),
        ~Window(300),
        Lengths(torch.tensor([300, 0])),
        Causal() & Segments.of([[100, 50, 140], [1, 298]], 300),
    ],
    ids=lambda pattern: type(pattern).__name__,
)
@pytest.mark.parametrize("values", [False, True])
def test_strips_are_equal_to_the_definition(pattern: Pattern, values: bool) -> None:
    length = 2 * STRIP + 44
    relative = RelativeContent(8, Clipped(70), heads=4, values=values).double()
    asked = work(pattern, relative, length, heads=4, key_heads=2, channels=8, dtype=torch.float64)
    tensors = [by_tokens(heads, length, 8, dtype=torch.float64) for heads in (4, 2, 2)]
    found = run(plan("blockwise", asked), tensors, relative, turn=1.5)
    for a, b in zip(found, exact(relative, asked, tensors, turn=1.5), strict=True):
        torch.testing.assert_close(a, b)


def test_strips_take_any_score_and_need_no_gradient() -> None:
    relative = RelativeContent(8, Every(200)).double().requires_grad_(False)
    asked = work(Causal(), relative, 200, channels=8, dtype=torch.float64, features=frozenset())
    q, k, v = (by_tokens(2, 200, 8, dtype=torch.float64) for _ in range(3))
    found, wanted = (
        plan(which, asked)(q, k, v, score=Dot(), biases=relative.biases(q))
        for which in ("blockwise", "reference")
    )
    torch.testing.assert_close(found, wanted)


def test_strips_are_taken_on_a_cpu_where_sequences_are_long() -> None:
    assert choose(work(length=2048)).kernel.name == "blockwise"
    assert choose(work(length=64)).kernel.name == "sdpa"
    shaw = RelativeContent(C, Clipped(4), values=True)
    assert choose(work(Causal(), shaw, 2048)).kernel.name == "blockwise"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"relative": RelativeBias(4, Clipped(2))}, "it has no distance bias"),
        ({"features": frozenset({"dropout"})}, "it has no dropout"),
        ({"device": "meta"}, "it runs on a CPU, not on meta"),
        ({"places": line(0)}, "there are no pairs"),
    ],
)
def test_what_strips_do_not_do_they_refuse(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"the blockwise kernel refuses .*: {sentence}"):
        plan(Blockwise(), work(**asked))


def test_strips_do_not_store_a_number_for_every_pair() -> None:
    length = 4096
    relative = RelativeContent(C, Clipped(16))
    asked = work(Causal(), relative, length, batch=1)
    tensors = [torch.randn(1, 2, length, C) for _ in range(3)]
    kept: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        q = tensors[0].requires_grad_()
        plan("blockwise", asked)(q, *tensors[1:], biases=relative.biases(q))
    assert sum(kept.values()) < 5 * q.nbytes


# ---- one query at a time -----------------------------------------------------------------------


@pytest.mark.parametrize("reach", [2, 6, 40])
@pytest.mark.parametrize("keys", [1, 5, 9])
@pytest.mark.parametrize("ahead", [0, 3])
def test_a_step_reads_its_distances_and_equals_the_definition(
    reach: int, keys: int, ahead: int
) -> None:
    relative = RelativeContent(C, Clipped(reach))
    pairs = Pairs(2, 2, line(1, start=keys - 1), line(keys + ahead))
    asked = Work(Everything() if ahead else Causal(), pairs, channels=C, kinds=relative.kinds())
    tensors = [by_tokens(2, length) for length in (1, keys + ahead, keys + ahead)]
    biases = relative.biases(tensors[0])
    assert choose(asked).kernel.name == "sdpa"
    found, wanted = (plan(name, asked)(*tensors, biases=biases) for name in ("sdpa", "reference"))
    torch.testing.assert_close(found, wanted)
