"""Launch the programs of relative.py and block_sparse.py with little work for the host.

Triton inspects every argument at each launch: on short sequences the host spends more time on that
than the device on the work. So a layout of tensors (shapes, strides, types) is prepared once; the
programs compiled for it are kept with it and launched directly, with new pointers only.

B batch, H heads, G key/value heads, Q queries, K keys, C channels of one head, N distances.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyheads.attention.kernels.relative import LaunchNumbers, as_tokens, token_strides
from manyheads.attention.kernels.triton import relative as programs
from manyheads.devices import on_its_gpu

LAYOUTS = 1024  # how many are kept
ROWS = 32  # distances that one program sums
LOG2_E = 1.4426950408889634  # exp2 is an instruction, exp is not
ALIGNED = 16  # bytes; Triton compiles another program for pointers that are no multiple of it


class Tensors(NamedTuple):
    """The tensors that the programs read, in the order of the custom operation's arguments."""

    query: Tensor  # (B, H, Q, C)
    asked: Tensor | None  # the query before its rotation, None if it was not rotated
    key: Tensor  # (B, G, K, C)
    value: Tensor
    key_table: Tensor  # (1 or H, N, C)
    value_table: Tensor | None
    by_query: Tensor  # (1 or B, tiles, 4): which tiles of keys, and which need no mask
    by_key: Tensor  # the same for each tile of keys: which tiles of queries
    ids: Tensor | None  # (B, Q)
    key_ids: Tensor | None  # (B, K)
    ends: Tensor | None  # (B,)

    @property
    def device(self) -> torch.device:
        return self.query.device

    def readable(self) -> Tensors:
        """Return them with contiguous channels, and the tables in the dtype of the query."""
        dtype, asked, values = self.query.dtype, self.asked, self.value_table
        return self._replace(
            query=make_channels_contiguous(self.query),
            asked=None if asked is None else make_channels_contiguous(asked),
            key=make_channels_contiguous(self.key),
            value=make_channels_contiguous(self.value),
            key_table=self.key_table.to(dtype).contiguous(),
            value_table=None if values is None else values.to(dtype).contiguous(),
        )


def make_channels_contiguous(x: Tensor) -> Tensor:
    """Copy x if its channels are not contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


class Laid(NamedTuple):
    """The layout of a tensor, without its data."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def step(self) -> int:
        """Return the stride from one sequence or head to the next, 0 if all share one."""
        return self.stride[0] if self.shape[0] > 1 else 0


def describe_layout(x: Tensor) -> Laid:
    """Return the layout of a tensor."""
    return Laid(x.shape, x.stride(), x.dtype, x.device)


# ---- launching ---------------------------------------------------------------------------------


@dataclass(eq=False)
class Program:
    """A Triton program for one layout, with all its arguments but the tensors."""

    source: Any
    count: int  # how many instances run
    numbers: tuple[float, ...]
    constants: dict[str, Any]  # the rest of its arguments
    options: dict[str, int]
    compiled: Any = field(default=None, init=False)

    def __call__(self, *tensors: Tensor) -> None:
        places = [x.data_ptr() for x in tensors]
        if any(place % ALIGNED for place in places):
            self.through_triton(tensors)
        elif self.compiled is None:
            self.compiled = self.through_triton(tensors)
        else:
            told = *places, *self.numbers, *self.constants.values()
            self.compiled[(self.count, 1, 1)](*told)

    def through_triton(self, tensors: tuple[Tensor, ...]) -> Any:
        """Launch through Triton and return the compiled program; None in Triton's interpreter."""
        start = self.source[(self.count,)]
        return start(*tensors, *self.numbers, **self.constants, **self.options)


@dataclass(eq=False)
class Layout:
    """The layouts of tensors and the numbers of a plan; their programs are made at first use."""

    query: Laid
    asked: Laid | None
    key: Laid
    value: Laid
    key_table: Laid
    value_table: Laid | None
    by_query: Laid
    by_key: Laid
    ids: Laid | None
    key_ids: Laid | None
    ends: Laid | None
    scale: float
    numbers: LaunchNumbers
    backward: dict[Laid, Backward] = field(default_factory=dict, init=False)  # by the gradient's
    folds: dict[torch.dtype, Fold] = field(default_factory=dict, init=False)  # by the table's type

    @cached_property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """B, H, Q, K, tiles of queries, tiles of keys"""
        batch, heads, queries, _ = self.query.shape
        keys, tile = self.key.shape[2], self.numbers.tile
        return batch, heads, queries, keys, -(-queries // tile), -(-keys // tile)

    @cached_property
    def constants(self) -> dict[str, Any]:
        _, _, queries, keys, _, _ = self.sizes
        tile, channels = self.numbers.tile, self.query.shape[-1]
        width = round_up_channels(channels)
        return {
            "C": channels,
            "WIDTH": width,
            "B": tile,
            # Three products instead of one keep the 24 bits of a float32.
            "PRECISION": "tf32x3" if self.query.dtype == torch.float32 else "tf32",
            "CAUSAL": bool(self.numbers.causal),
            "WINDOW": self.numbers.radius >= 0,
            "SEGMENTS": self.ids is not None,
            "ENDS": self.ends is not None,
            "EDGE": self.ends is not None or keys % tile > 0,
            "EVEN": queries % tile == keys % tile == 0 and channels == width,
            "TURNED": self.asked is not None,
            "VALUES": self.value_table is not None,
        }

    def strides(self, bounds: Laid, *others: Laid) -> tuple[int, ...]:
        """Return the strides of all inputs, in the order of every program's arguments."""
        sides = self.query, self.asked or self.query, self.key, self.value
        documents = (0 if x is None else x.stride[0] for x in (self.ids, self.key_ids))
        shared = self.key_table.step(), bounds.step(), *documents
        return (
            *(n for side in sides for n in side.stride[:3]),
            *shared,
            *(n for other in others for n in other.stride[:3]),
        )

    @cached_property
    def groups(self) -> int:
        return self.query.shape[1] // self.key.shape[1]

    @cached_property
    def out(self) -> Laid:
        return self.query._replace(stride=token_strides(self.query.shape))

    @cached_property
    def rest(self) -> tuple[int, int, int]:
        """The last number arguments of every program."""
        return self.numbers.shift, self.numbers.reach, self.numbers.radius

    @cached_property
    def together(self) -> int:
        """How many sequences one program sums: so many that none is left over."""
        batch = self.sizes[0]
        return max(n for n in range(1, self.numbers.together + 1) if batch % n == 0)

    @cached_property
    def diagonals(self) -> tuple[int, int]:
        return self.numbers.diagonals(*self.sizes[4:])

    @cached_property
    def forward(self) -> Program:
        batch, heads, queries, keys, tiles, _ = self.sizes
        return Program(
            programs.forward,
            batch * heads * tiles,
            (
                *self.strides(self.by_query, self.out),
                self.scale * LOG2_E,
                *(heads, self.groups, queries, keys, tiles, *self.rest),
            ),
            self.constants,
            {"num_warps": self.numbers.warps, "num_stages": self.numbers.stages},
        )

    def backward_for(self, grad: Laid) -> Backward:
        """Return the backward programs for an output gradient of this layout."""
        made = self.backward.get(grad)
        return made or self.backward.setdefault(grad, self.make_backward(grad))

    def make_backward(self, grad: Laid) -> Backward:
        batch, heads, queries, keys, tiles, key_tiles = self.sizes
        numbers, scales = self.numbers, (self.scale * LOG2_E, self.scale)
        sizes = heads, self.groups, queries, keys
        to_key = self.key._replace(stride=token_strides(self.key.shape))
        lowest, diagonals = self.diagonals
        sums = batch // self.together
        half = sums * heads * diagonals * numbers.tile * self.query.shape[-1]

        def program(
            source: Any,
            count: int,
            stages: int,
            strides: tuple[int, ...],
            *more: int,
            **constants: int,
        ) -> Program:
            told = *strides, *scales, *sizes, *more, *self.rest
            options = {"num_warps": numbers.backward_warps, "num_stages": stages}
            return Program(source, count, told, {**self.constants, **constants}, options)

        return Backward(
            program(
                programs.by_query,
                batch * heads * tiles,
                numbers.query_stages,
                self.strides(self.by_query, self.out, grad),
                tiles,
            ),
            program(
                programs.by_key,
                batch * self.key.shape[1] * key_tiles,
                numbers.key_stages,
                self.strides(self.by_key, to_key, grad),
                key_tiles,
            ),
            program(
                programs.by_distance,
                sums * heads * diagonals,
                numbers.distance_stages,
                self.strides(self.by_query, grad),
                *(tiles, key_tiles, lowest, diagonals, half),
                TOGETHER=self.together,
            ),
        )

    def fold_for(self, table: Tensor) -> Fold:
        """Return the program that sums a table's gradient, in the dtype of the parameter."""
        made = self.folds.get(table.dtype)
        return made or self.folds.setdefault(table.dtype, Fold(self, table.dtype))


class Backward(NamedTuple):
    """The programs for gradients of queries, of keys and values, and of distances; run in order."""

    by_query: Program
    by_key: Program
    by_distance: Program


class Fold:
    """Sum the gradients that each diagonal of tiles found into the gradient of a table."""

    def __init__(self, layout: Layout, dtype: torch.dtype):
        numbers, (lowest, diagonals) = layout.numbers, layout.diagonals
        self.shape, self.dtype = layout.key_table.shape, dtype
        heads, rows, channels = self.shape
        tile, self.shared = numbers.tile, heads == 1
        distances = diagonals * tile
        first = (lowest - 1) * tile + 1 + numbers.shift  # the lowest distance of all
        # The table has the distances between these two.
        below, above = -numbers.reach - first, numbers.reach + 1 - first
        self.clipped = below > 0 or above < distances + tile
        self.beyond = (0, 0, below), (-1, above, distances + tile)
        self.tile = tile
        batch = 1 if self.shared else layout.sizes[0] // layout.together
        self.program = Program(
            programs.fold,
            heads * -(-rows // ROWS),
            (batch, heads, distances, rows, first, numbers.reach, tile),
            {"C": channels, "WIDTH": round_up_channels(channels), "ROWS": ROWS},
            {},
        )

    def __call__(self, found: Tensor) -> Tensor:
        """Sum over diagonals; distances beyond the table are added to its ends.

        (2, B / together, H, distances, C), the second shifted by a tile -> (1 or H, N, C)
        """
        if self.shared:
            found = found.sum((1, 2), keepdim=True)
        dtype = torch.float32 if self.clipped else self.dtype
        whole = found.new_empty(self.shape, dtype=dtype)
        self.program(found, whole)
        if self.clipped:
            for n, low, high in self.beyond:
                for part, ahead in zip(found, (0, self.tile), strict=True):
                    low_part, high_part = max(0, low - ahead), max(0, high - ahead)
                    whole[:, n] += part[:, :, low_part:high_part].sum((0, 2))
        return whole.to(self.dtype)


known = lru_cache(LAYOUTS)(Layout)


def layout_for(tensors: Tensors, scale: float, numbers: LaunchNumbers) -> Layout:
    """Return the cached layout for tensors with these shapes, strides and types."""
    return known(*(None if x is None else describe_layout(x) for x in tensors), scale, numbers)


def round_up_channels(channels: int) -> int:
    """Round up to a power of two, at least 16."""
    return max(16, 1 << (channels - 1).bit_length())


# ---- forward and backward ----------------------------------------------------------------------


@on_its_gpu
def run_forward(tensors: Tensors, scale: float, numbers: LaunchNumbers) -> tuple[Tensor, Tensor]:
    """Return the output (B, H, Q, C), and the log-sum-exp of each row to the base of two."""
    tensors = tensors.readable()
    query = tensors.query
    out = as_tokens(query)
    largest = query.new_empty(query.shape[:3], dtype=torch.float32)
    layout_for(tensors, scale, numbers).forward(
        *program_tensors(tensors, tensors.by_query), largest, out
    )
    return out, largest


@on_its_gpu
def run_backward(
    tensors: Tensors,
    scale: float,
    numbers: LaunchNumbers,
    out: Tensor,
    largest: Tensor,
    grad: Tensor,
) -> list[Tensor]:
    """Return the gradients of query, asked, key, value and both tables; empty if there is none."""
    tables = tensors.key_table, tensors.value_table
    tensors, grad = tensors.readable(), make_channels_contiguous(grad)
    query, asked, key, value, *_ = tensors
    layout = layout_for(tensors, scale, numbers)
    run = layout.backward_for(describe_layout(grad))
    if describe_layout(out) != layout.out:
        out = as_tokens(query).copy_(out)
    to_query, to_key, to_value = as_tokens(query), as_tokens(key), as_tokens(value)
    # A custom operation must not return the same tensor twice, not even an empty one.
    to_asked = query.new_empty(0) if asked is None else as_tokens(query)
    deltas = torch.empty_like(largest)
    told = *program_tensors(tensors, tensors.by_query), largest
    run.by_query(*told, out, grad, to_query, to_query if asked is None else to_asked, deltas)
    run.by_key(*program_tensors(tensors, tensors.by_key), largest, grad, to_key, to_value, deltas)
    batch, heads, _, channels = query.shape
    sums = batch // layout.together
    rows = 2, sums, heads, layout.diagonals[1] * numbers.tile, channels
    to_keys = query.new_empty(rows, dtype=torch.float32)  # lower and upper blocks of distances
    to_values = to_keys if tables[1] is None else torch.empty_like(to_keys)
    run.by_distance(*told, grad, to_keys, to_values, deltas)
    of_tables = [
        query.new_empty(0) if table is None else layout.fold_for(table)(blocks)
        for table, blocks in zip(tables, (to_keys, to_values), strict=True)
    ]
    return [to_query, to_asked, to_key, to_value, *of_tables]


def program_tensors(tensors: Tensors, bounds: Tensor) -> tuple[Tensor, ...]:
    """Return tensors in the order of every program's arguments, another one for a missing one."""
    query, asked, key, value, key_table, value_table, _, _, *documents = tensors
    tables = key_table, key_table if value_table is None else value_table
    marks = (bounds if x is None else x for x in documents)
    return query, query if asked is None else asked, key, value, *tables, bounds, *marks
