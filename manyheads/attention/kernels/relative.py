"""Attention with RelativeContent, without storing anything for each pair.

B batch, H heads, G key/value heads, Q queries, K keys, C channels of one head, N distances.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from manyheads.attention.biases import ContentBias, Feature
from manyheads.attention.intervals import Truth
from manyheads.attention.kernels.base import Plan, Scoring, Work, find_missing_feature, lacks_triton
from manyheads.attention.kernels.flex import block_truth
from manyheads.attention.patterns import Causal, Lengths, Pattern, Segments, Window
from manyheads.attention.places import Grid, Places, is_run
from manyheads.attention.rules import Clipped, Every

ABLE: frozenset[Feature] = frozenset({"content bias", "value bias", "gradient"})


@dataclass(frozen=True)
class Tiles:
    """The tile size of the Triton programs, and their numbers of warps and stages."""

    size: int = 64
    warps: int = 4
    stages: int = 3  # pipeline stages of the forward program
    backward_warps: int = 4
    query_stages: int = 2  # pipeline stages of the three backward programs
    key_stages: int = 2
    distance_stages: int = 2
    together: int = 1  # sequences whose gradients of distances one program sums

    def __post_init__(self) -> None:
        if self.size < 16 or self.size & (self.size - 1):
            raise ValueError(f"Tiles takes a size of 16, 32, 64 or 128, got {self.size}")
        if self.together < 1:
            raise ValueError(f"Tiles sums one sequence or several together, got {self.together}")


class LaunchNumbers(NamedTuple):
    """The numbers of a plan: all arguments of a program that are not tensors."""

    tile: int
    warps: int
    stages: int
    backward_warps: int
    query_stages: int
    key_stages: int
    distance_stages: int
    together: int
    shift: int  # the first key's place minus the first query's
    reach: int  # the table has distances from -reach to reach
    radius: int  # of the window, -1 if there is none
    causal: int

    def diagonals(self, tiles: int, key_tiles: int) -> tuple[int, int]:
        """Return the lowest diagonal of tiles that has allowed pairs (key tile minus query tile),
        and the number of diagonals from there on.
        """
        low, high = 1 - tiles, key_tiles - 1
        last = self.tile - 1  # tiles on diagonal d have distances d * tile + shift +- last
        if self.causal:
            high = min(high, (last - self.shift) // self.tile)
        if self.radius >= 0:
            low = max(low, -((self.radius + self.shift + last) // self.tile))
            high = min(high, (self.radius - self.shift + last) // self.tile)
        return low, max(1, high - low + 1)


@dataclass(frozen=True, eq=False)
class Form:
    """Which tiles have allowed pairs, and what decides inside a tile."""

    asked: LaunchNumbers
    by_query: Tensor  # (1 or B, tiles of queries, 4): see `spans`
    by_key: Tensor  # (1 or B, tiles of keys, 4): the same for keys
    ids: Tensor | None  # (B, Q) documents
    key_ids: Tensor | None  # (B, K)
    ends: Tensor | None  # (B,) keys of each sequence


class Skewed:
    """A Triton kernel on CUDA: in each tile multiply query and table, then rotate each row.

    This is Music Transformer's skewing, tile by tile. Memory grows with the length, not with its
    square, and two runs give the same bits, also backward.
    """

    name = "skewed"
    cuda_only = True

    def __init__(self, tiles: Tiles | None = None):
        self.tiles = tiles

    def refuses(self, work: Work) -> str:
        return describe_misfit(work) or lacks_triton(work)

    def cost(self, work: Work) -> float:
        return 3.5  # bench/relative.py

    def prepare(self, work: Work) -> Form:
        tiles, pairs, start = (
            self.tiles or fit_tiles(work),
            work.pairs,
            first_place(work.pairs.keys),
        )
        ids = key_ids = ends = None
        radius = -1
        for part in work.pattern.parts():
            if isinstance(part, Segments):
                ids, key_ids = part.ids, part.ids if part.keys is None else part.keys
            if isinstance(part, Lengths):
                ends = part.lengths - start
            if isinstance(part, Window):
                radius = part.radius if isinstance(part.radius, int) else part.radius[0]
        truth = block_truth(work.pattern, pairs, tiles.size)
        shift, reach = start - first_place(pairs.queries), work.kinds[0].rule.size // 2
        causal = Causal() in work.pattern.parts()
        asked = LaunchNumbers._make((*astuple(tiles), shift, reach, radius, int(causal)))
        by_query, by_key = spans(truth, len(pairs.keys) % tiles.size > 0)
        return Form(asked, by_query, by_key, *map(as_int32, (ids, key_ids, ends)))

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        (bias,), form = how.biases, plan.form
        assert isinstance(bias, ContentBias)
        prepared = how.score.query(query)
        values = bias.value_tables
        # Calling a custom op, which torch.compile needs, costs the host more than the kernel takes.
        compiling = torch.compiler.is_compiling()
        run = relative_attention if compiling else Eager.apply
        out, _ = run(
            prepared,
            None if bias.query is prepared else bias.query,
            key,
            value,
            bias.key_tables.squeeze(0),  # a view, also backward; an index would fill zeros there
            None if values is None else values.squeeze(0),
            form.by_query,
            form.by_key,
            form.ids,
            form.key_ids,
            form.ends,
            how.score.scale(key.shape[-1]),
            list(form.asked) if compiling else form.asked,
        )
        return out


# ---- what it refuses -------------------------------------------------------------------------


def describe_misfit(work: Work) -> str:
    """Say why this kernel cannot do this work on any device; empty if it can."""
    if reason := find_missing_feature(work, ABLE):
        return reason
    if len(work.kinds) != 1 or work.kinds[0].bias is not ContentBias:
        return "it computes one RelativeContent, and nothing without it"
    rule, pairs = work.kinds[0].rule, work.pairs
    if work.kinds[0].axes != 1:
        return f"it measures along one axis, not along {work.kinds[0].axes}"
    if type(rule) not in (Clipped, Every):  # a subclass may map distances to other entries
        return f"it reads distances by Clipped(reach) or Every(length), not by {rule}"
    for places in (pairs.queries, pairs.keys):
        if not (is_run(places) or within_documents(work)):
            return "its tokens lie on a line, each one step after the one before"
    if reason := find_unknown_part(work.pattern):
        return reason
    if work.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"it computes in 32 bits or fewer, {work.dtype} was asked for"
    if not 16 <= work.channels <= 128:
        return f"it takes heads of 16 to 128 channels, got {work.channels}"
    return "" if len(pairs.queries) and len(pairs.keys) else "there are no pairs to attend"


def within_documents(work: Work) -> bool:
    """Whether tokens are consecutive inside each document, and no document sees another."""
    q, k = work.pairs.queries, work.pairs.keys
    alone = [p for p in work.pattern.parts() if isinstance(p, Segments) and p.keys is None]
    both = isinstance(q, Grid) and isinstance(k, Grid) and q.documents and k.documents
    return bool(alone) and both and q.first is not None and q.first == k.first


def find_unknown_part(pattern: Pattern) -> str:
    """Say which part of a pattern is unknown or given twice; empty if there is none."""
    parts = pattern.parts()
    known = Causal, Window, Segments, Lengths  # a subclass may allow something else
    for part in parts:
        if type(part) not in known or sum(type(p) is type(part) for p in parts) > 1:
            return f"it computes Causal(), Window, Segments and Lengths, one of each, not {pattern}"
    return ""


def first_place(places: Places) -> int:
    assert places.first is not None
    return places.first


def fit_tiles(work: Work) -> Tiles:
    """Choose smaller tiles if larger ones would not fit the registers."""
    wide = work.channels > 64
    if work.dtype == torch.float32:
        return Tiles(16, 4, 1, 4, 1, 1, 1) if wide else Tiles(32, 8, 1, 8, 1, 1, 1)
    return Tiles(64, 8, 2, 8, 1, 1, 1) if wide else Tiles()


def as_int32(numbers: Tensor | None) -> Tensor | None:
    """Return the numbers as a program reads them: int32 and contiguous."""
    return None if numbers is None else numbers.int().contiguous()


def spans(truth: Truth, ragged: bool) -> tuple[Tensor, Tensor]:
    """Return for each row and each column of blocks four indices: the first block with pairs, the
    end of those; the first full block, the end of the full run. A ragged last column is not full.

    (B, 1, rows, columns) -> (B, rows, 4), (B, columns, 4)
    """
    some, full = truth.some[:, 0], truth.all[:, 0] & truth.some[:, 0]
    if ragged:
        full = full.clone()
        full[..., -1] = False

    def ends(some: Tensor, full: Tensor) -> Tensor:
        count = some.shape[-1]
        place = torch.arange(count, device=some.device)
        first = torch.where(some, place, count).amin(-1)
        after = torch.where(some, place + 1, 0).amax(-1)
        begin = torch.where(full, place, count).amin(-1)
        gaps = ~full & (place >= begin[..., None])
        return torch.stack(
            [first, after, begin, torch.where(gaps, place, count).amin(-1)], -1
        ).int()

    return ends(some, full), ends(some.mT, full.mT)


# ---- two custom operations, which torch.compile does not look into -----------------------------

INPUTS = (
    "Tensor query, Tensor? asked, Tensor key, Tensor value, Tensor key_table, Tensor? value_table, "
    "Tensor by_query, Tensor by_key, Tensor? ids, Tensor? key_ids, Tensor? ends, "
    "float scale, int[] numbers"
)


@torch.library.custom_op(
    "manyheads::relative_attention", mutates_args=(), schema=f"({INPUTS}) -> (Tensor, Tensor)"
)
def relative_attention(*inputs: Any) -> tuple[Tensor, Tensor]:
    """Return the output, and the log-sum-exp of each row, which backward needs."""
    return output_of(inputs)


@relative_attention.register_fake
def _(query: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return as_tokens(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op(
    "manyheads::relative_attention_backward",
    mutates_args=(),
    schema=f"({INPUTS}, Tensor out, Tensor largest, Tensor grad) -> Tensor[]",
)
def relative_attention_backward(*inputs: Any) -> list[Tensor]:
    """Return the gradients of query, asked, key, value and both tables; empty if there is none."""
    return gradients_of(inputs)


def output_of(inputs: Any) -> tuple[Tensor, Tensor]:
    from manyheads.attention.kernels.triton import launch

    *tensors, scale, numbers = inputs
    return launch.run_forward(launch.Tensors(*tensors), scale, LaunchNumbers(*numbers))


def gradients_of(inputs: Any) -> list[Tensor]:
    from manyheads.attention.kernels.triton import launch

    *tensors, scale, numbers, out, largest, grad = inputs
    return launch.run_backward(
        launch.Tensors(*tensors), scale, LaunchNumbers(*numbers), out, largest, grad
    )


@relative_attention_backward.register_fake
def _(*inputs: Any) -> list[Tensor]:
    query, asked, key, value, key_table, value_table = inputs[:6]
    nothing = query.new_empty(0)
    return [
        as_tokens(query),
        nothing if asked is None else as_tokens(query),
        as_tokens(key),
        as_tokens(value),
        key_table.new_empty(key_table.shape),
        query.new_empty(0) if value_table is None else value_table.new_empty(value_table.shape),
    ]


def as_tokens(x: Tensor) -> Tensor:
    """Return an empty tensor (B, H, T, C), laid out in memory as (B, T, H, C) as layers read it."""
    return x.new_empty_strided(x.shape, token_strides(x.shape))


def token_strides(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    _, heads, tokens, channels = shape
    return tokens * heads * channels, channels, heads * channels, 1


def save_for_backward(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.scale, ctx.numbers = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[1])


def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    *tensors, out, largest = ctx.saved_tensors
    found = relative_attention_backward(*tensors, ctx.scale, ctx.numbers, out, largest, grad)
    return gradients(tensors, found)


def gradients(tensors: Any, found: list[Tensor]) -> tuple[Any, ...]:
    """Return one gradient for each input, None for inputs that need none."""
    given = [None if x is None else y for x, y in zip(tensors[:6], found, strict=True)]
    return (*given, *[None] * 7)


relative_attention.register_autograd(backward, setup_context=save_for_backward)


class Eager(torch.autograd.Function):
    """The same operation as `relative_attention`, called without torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        output = output_of(inputs)
        save_for_backward(ctx, inputs, output)
        ctx.set_materialize_grads(False)  # no zeros for the second output, which has no gradient
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Any, ...]:
        if grad is None:  # the output was not used
            return (None,) * len(ctx.needs_input_grad)
        *tensors, out, largest = ctx.saved_tensors
        inputs = *tensors, ctx.scale, ctx.numbers, out, largest, grad
        return gradients(tensors, gradients_of(inputs))
