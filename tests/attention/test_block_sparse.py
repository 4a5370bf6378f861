"""Attention over listed blocks: equal to the definition, forward and backward.

Its Triton programs run here only where Triton is installed and TRITON_INTERPRET=1 is set. It knows
no bfloat16: 16 bits are float16 there.

B sequences, H heads, G key heads, T tokens, C channels of one head.
"""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from manyheads import Blocks, Causal, Pairs, Pattern, Prefix, Segments, Window, Work, grid, line
from manyheads.attention.evaluate import evaluate
from manyheads.attention.intervals import Verdict
from manyheads.attention.kernels.base import TRITON, make_plan
from manyheads.attention.kernels.block_sparse import (
    BLOCK,
    KEPT,
    LISTS,
    BlockSparse,
    ListedBlocks,
    block_attention,
    cut_blocks,
)
from manyheads.attention.kernels.choose import choose
from manyheads.attention.kernels.reference import Reference
from manyheads.attention.places import Grid, Pair

INTERPRETED = TRITON and os.environ.get("TRITON_INTERPRET") == "1"
RUNS = INTERPRETED or torch.cuda.is_available()
runs = pytest.mark.skipif(not RUNS, reason="needs a CUDA device, or Triton's interpreter")
DEVICE = "cuda" if RUNS and not INTERPRETED else "cpu"
DTYPE = torch.float16 if INTERPRETED else torch.bfloat16
TOLERANCE = 3e-3 if INTERPRETED else 2e-2

B, H = 2, 4
CASES: dict[str, tuple[Pattern, Grid, Grid]] = {
    "window": (Causal() & Window(40), line(200), line(200)),
    "local 1D": (Causal() & Blocks(64, 64), line(256), line(256)),
    "tiles": (Causal() & Blocks((8, 8), (8, 8)), *[grid(24, 16, 3, blocks=(8, 8))] * 2),
    "half tiles": (Causal() & Blocks((8, 8), (4, 4)), *[grid(16, 24, blocks=(8, 8))] * 2),
    "row by row": (Causal() & Blocks((4, 4), (4, 4)), *[grid(16, 16)] * 2),
    "union": ((Causal() & Window(9)) | Prefix(5), line(150), line(150)),
    "later queries": (Causal() & Window(70), line(140, start=60), line(200)),
    "some see nothing": (Window(3), line(140, start=130), line(200)),
}


def work(name: str, **more: Any) -> Work:
    pattern, *sides = CASES[name]
    told = {"dtype": DTYPE, "features": frozenset({"gradient"}), "channels": 24, **more}
    return Work(pattern, Pairs(B, H, *(side.to(DEVICE) for side in sides)), **told)


class OnAnyDevice(BlockSparse):
    """For the interpreter, which computes on a CPU."""

    def refuses(self, work: Work) -> str:
        return self.describe_misfit(work)


def tensors(asked: Work) -> list[Tensor]:
    """Query, key, value and an output gradient, laid out as in a model: (B, T, H, C)."""
    torch.manual_seed(0)
    _, _, queries, keys = asked.pairs.shape
    shared = asked.key_heads or H
    sides = (queries, H), (keys, shared), (keys, shared), (queries, H)
    made = (torch.randn(B, *side, asked.channels, dtype=DTYPE, device=DEVICE) for side in sides)
    return [x.transpose(1, 2) for x in made]


def run(kernel: Any, asked: Work, given: list[Tensor]) -> list[Tensor]:
    """The output, and the gradients of query, key and value."""
    *sides, grad = (x.detach().clone() for x in given)
    out = make_plan(kernel, asked)(*(x.requires_grad_() for x in sides))
    out.backward(grad)
    return [out.detach(), *(x.grad for x in sides if x.grad is not None)]


@runs
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("key_heads", [None, 2])
def test_it_is_equal_to_the_definition(name: str, key_heads: int | None) -> None:
    asked = work(name, key_heads=key_heads)
    exact = Work(**{**vars(asked), "dtype": torch.float64})
    given = tensors(asked)
    found = run(OnAnyDevice(), asked, given)
    wanted = run(Reference(), exact, [x.double() for x in given])
    for one, other in zip(found, wanted, strict=True):
        assert one.isfinite().all()
        assert (one.double() - other).norm() <= TOLERANCE * other.norm()


@runs
def test_two_runs_give_the_same_bits() -> None:
    asked = work("tiles")
    given = tensors(asked)
    once, again = (run(OnAnyDevice(), asked, given) for _ in range(2))
    assert all(map(torch.equal, once, again))


@pytest.mark.parametrize("name", CASES)
def test_the_lists_hold_the_allowed_pairs_and_no_others(name: str) -> None:
    pattern, queries, keys = CASES[name]
    pairs = Pairs(1, 1, queries, keys)
    made = cut_blocks(pattern, pairs)
    assert isinstance(made, ListedBlocks)
    allowed = evaluate(pattern, pairs.everywhere()).expand(*pairs.shape)[0, 0]
    steps = torch.arange(BLOCK)
    rows, columns = (-(-len(side) // BLOCK) for side in (queries, keys))
    for lists, turned in ((made.by_query, False), (made.by_key, True)):
        found = torch.zeros(rows, columns, BLOCK, BLOCK, dtype=torch.bool)
        for row in range(columns if turned else rows):
            first, masked, end = lists.starts[row], lists.masked[row], lists.starts[row + 1]
            for at in range(int(first), int(end)):
                mask = int(lists.masks[at])
                assert (mask == -1) == (at < int(masked))
                place = (int(lists.blocks[at]), row) if turned else (row, int(lists.blocks[at]))
                assert not found[place].any()  # listed once
                bits = made.bits[mask][:, None] >> steps & 1
                found[place] = True if mask == -1 else bits.bool()
                assert found[place].any()  # no empty block is visited
        whole = found.transpose(1, 2).reshape(rows * BLOCK, columns * BLOCK)
        assert torch.equal(whole[: len(queries), : len(keys)], allowed)
        assert not whole[: len(queries), len(keys) :].any()


def test_tiles_in_their_own_order_need_a_mask_on_the_diagonal_alone() -> None:
    pattern, at, _ = CASES["tiles"]
    made = cut_blocks(pattern, Pairs(1, 1, at, at))
    assert isinstance(made, ListedBlocks)
    assert len(made.bits) == 24 * 16 * 3 // BLOCK


def test_lists_are_made_once_for_all_passes() -> None:
    asked = work("tiles")
    at = asked.pairs.queries
    again = Work(asked.pattern, Pairs(7, 1, at, asked.pairs.keys), channels=16)
    assert BlockSparse().prepare(again) is BlockSparse().prepare(asked)
    assert isinstance(at, Grid)
    other = Work(asked.pattern, Pairs(7, 1, at[:], at[:]))  # equal places in other tensors
    assert BlockSparse().prepare(other) is not BlockSparse().prepare(asked)
    assert torch.equal(BlockSparse().prepare(other).bits, BlockSparse().prepare(asked).bits)
    for length in range(200, 300):
        at = line(length)
        BlockSparse().prepare(Work(Causal() & Window(9), Pairs(1, 1, at, at)))
    assert len(LISTS.made) == KEPT


def test_places_that_are_changed_get_other_lists() -> None:
    at = grid(16, 16, blocks=(8, 8))
    work = Work(Causal() & Blocks((8, 8), (0, 0)), Pairs(1, 1, at, at))
    before = BlockSparse().prepare(work)
    at.axes[0].copy_(at.axes[0].roll(64))
    assert BlockSparse().prepare(work) is not before


@runs
def test_lists_made_without_gradients_serve_training() -> None:
    at = line(321).to(DEVICE)
    told: Any = {"dtype": DTYPE, "features": frozenset({"gradient"}), "channels": 16}
    asked = Work(Causal() & Window(33), Pairs(B, H, at, at), **told)
    with torch.inference_mode():
        make_plan(OnAnyDevice(), asked)
    assert all(x.isfinite().all() for x in run(OnAnyDevice(), asked, tensors(asked)))


@runs
def test_compiled_code_calls_the_same_programs() -> None:
    asked = work("tiles")
    query, key, value, grad = tensors(asked)
    form = OnAnyDevice().prepare(asked)
    given = [x.detach().clone().requires_grad_() for x in (query, key, value)]
    inputs = (*given, *form.by_query, *form.by_key, form.bits, 24**-0.5)
    torch.library.opcheck(block_attention, inputs, test_utils=("test_schema", "test_faketensor"))
    out, _ = block_attention(*inputs)
    out.backward(grad)
    wanted = run(OnAnyDevice(), asked, [query, key, value, grad])
    found = [out.detach(), *(x.grad for x in given)]
    assert all(map(torch.equal, found, wanted))


class ByHead(Pattern):
    """Each head sees another distance."""

    def allows(self, pair: Pair) -> Verdict:
        return abs(pair.k.order - pair.q.order) <= 3 * (pair.h + 1)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (work("window", dtype=torch.float32), "it computes in 16 bits, torch.float32 was asked"),
        (work("window", channels=8), "it takes heads of 16 to 128 channels, got 8"),
        (work("window", features=frozenset({"dropout"})), "it has no dropout"),
        (
            Work(ByHead(), Pairs(2, 4, line(200), line(200)), dtype=DTYPE),
            "this pattern differs between sequences or heads",
        ),
        (Work(Causal(), Pairs(2, 4, line(200), line(200)), dtype=DTYPE), "for local patterns"),
        (
            Work(Window(180), Pairs(2, 4, line(200), line(200)), dtype=DTYPE),
            "of this one it would visit 100%",
        ),
        (
            Work(Segments([[0] * 200]), Pairs(1, 1, line(200), line(200)), dtype=DTYPE),
            "it lists blocks once for all batches",
        ),
        (
            Work(Window(3), Pairs(1, 1, line(1, start=9), line(200)), dtype=DTYPE),
            "two blocks of 64 tokens or more, got 1 tokens",
        ),
        (
            Work(Window(3), Pairs(2, 1, *[line(200, torch.tensor([0, 3]))] * 2), dtype=DTYPE),
            "places that are the same for every sequence",
        ),
    ],
)
def test_what_it_refuses(asked: Work, reason: str) -> None:
    assert reason in BlockSparse().describe_misfit(asked)


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a CUDA device")
def test_it_is_chosen_for_local_patterns_of_long_sequences() -> None:
    at = grid(64, 64, 3, blocks=(8, 8)).to("cuda")
    told: Any = {"dtype": DTYPE, "features": frozenset({"gradient"})}
    local = Causal() & Blocks((8, 8), (8, 8))
    assert choose(Work(local, Pairs(2, 8, at, at), **told)).kernel.name == "block-sparse"
    assert choose(Work(Causal(), Pairs(2, 8, at, at), **told)).kernel.name == "sdpa"
