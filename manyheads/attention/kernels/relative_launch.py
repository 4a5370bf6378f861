"""How the programs of relative_triton.py are started, with little work for the host.

Triton asks at each start what every argument is: a host spends more time on that than the device
on short sequences. So a layout of tensors (shapes, strides, types) is worked out once; what was
compiled for it is kept with it and started directly, told only where the tensors lie.

B batch, H heads, G key/value heads, Q queries, K keys, C channels of one head, N distances.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyheads.attention.kernels import relative_triton as programs
from manyheads.attention.kernels.relative import Asked, as_tokens, token_strides

LAYOUTS = 1024  # that are kept
ROWS = 32  # distances that one program adds up
LOG2_E = 1.4426950408889634  # exp2 is an instruction, exp is not
ALIGNED = 16  # bytes; Triton compiles for tensors that begin at a multiple of it, or do not


class Tensors(NamedTuple):
    """What the programs read."""

    query: Tensor  # (B, H, Q, C)
    asked: Tensor | None  # the query before it was turned, None where it was not
    key: Tensor  # (B, G, K, C)
    value: Tensor
    key_table: Tensor  # (1 or H, N, C)
    value_table: Tensor | None
    by_query: Tensor  # (1 or B, tiles, 4): which tiles of keys, and which need no mask
    by_key: Tensor  # the same of queries, for each tile of keys
    ids: Tensor | None  # (B, Q)
    key_ids: Tensor | None  # (B, K)
    ends: Tensor | None  # (B,)

    def readable(self) -> Tensors:
        """Channels side by side, tables in the type of the query."""
        dtype, asked, values = self.query.dtype, self.asked, self.value_table
        return self._replace(
            query=beside(self.query),
            asked=None if asked is None else beside(asked),
            key=beside(self.key),
            value=beside(self.value),
            key_table=self.key_table.to(dtype).contiguous(),
            value_table=None if values is None else values.to(dtype).contiguous(),
        )


def beside(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


class Laid(NamedTuple):
    """A tensor without its numbers."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def step(self) -> int:
        """From one sequence or head to the next, none where all share one."""
        return self.stride[0] if self.shape[0] > 1 else 0


def laid(x: Tensor) -> Laid:
    return Laid(x.shape, x.stride(), x.dtype)


# ---- starting ----------------------------------------------------------------------------------


@dataclass(eq=False)
class Program:
    """One of Triton's programs in one layout: all that it is told but where the tensors lie."""

    source: Any
    count: int  # how many run
    numbers: tuple[float, ...]
    constants: dict[str, Any]  # in its own order
    options: dict[str, int]
    compiled: Any = field(default=None, init=False)

    def __call__(self, *tensors: Tensor) -> None:
        places = [x.data_ptr() for x in tensors]
        if any(place % ALIGNED for place in places):
            self.asking_triton(tensors)
        elif self.compiled is None:
            self.compiled = self.asking_triton(tensors)
        else:
            told = *places, *self.numbers, *self.constants.values()
            self.compiled[(self.count, 1, 1)](*told)

    def asking_triton(self, tensors: tuple[Tensor, ...]) -> Any:
        """What it compiled; nothing in its interpreter."""
        start = self.source[(self.count,)]
        return start(*tensors, *self.numbers, **self.constants, **self.options)


@dataclass(frozen=True)
class Layout:
    """How tensors lie, and the numbers of a plan: all programs but those that the gradient's own
    layout decides.
    """

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
    device: torch.device
    scale: float
    asking: Asked

    @cached_property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """B, H, Q, K, tiles of queries, tiles of keys"""
        batch, heads, queries, _ = self.query.shape
        keys, tile = self.key.shape[2], self.asking.tile
        return batch, heads, queries, keys, -(-queries // tile), -(-keys // tile)

    @cached_property
    def constants(self) -> dict[str, Any]:
        _, _, queries, keys, _, _ = self.sizes
        tile, channels = self.asking.tile, self.query.shape[-1]
        width = wide(channels)
        return {
            "C": channels,
            "WIDTH": width,
            "B": tile,
            # Three products in place of one keep the 24 bits of a float32.
            "PRECISION": "tf32x3" if self.query.dtype == torch.float32 else "tf32",
            "CAUSAL": bool(self.asking.causal),
            "WINDOW": self.asking.radius >= 0,
            "SEGMENTS": self.ids is not None,
            "ENDS": self.ends is not None,
            "EDGE": self.ends is not None or keys % tile > 0,
            "EVEN": queries % tile == keys % tile == 0 and channels == width,
            "TURNED": self.asked is not None,
            "VALUES": self.value_table is not None,
        }

    def strides(self, bounds: Laid, *others: tuple[int, ...]) -> tuple[int, ...]:
        """Of all that is read, in the order in which every program is told of it."""
        sides = self.query, self.asked or self.query, self.key, self.value
        steps = (0 if x is None else x.stride[0] for x in (self.ids, self.key_ids))
        found = [n for side in sides for n in side.stride[:3]]
        found += [self.key_table.step(), bounds.step(), *steps]
        return *found, *(n for stride in others for n in stride[:3])

    @cached_property
    def groups(self) -> int:
        return self.query.shape[1] // self.key.shape[1]

    @cached_property
    def ends_of_distances(self) -> tuple[int, int, int]:
        return self.asking.shift, self.asking.reach, self.asking.radius

    @cached_property
    def out_stride(self) -> tuple[int, ...]:
        return token_strides(self.query.shape)

    @cached_property
    def diagonals(self) -> tuple[int, int]:
        return self.asking.diagonals(*self.sizes[4:])

    @cached_property
    def forward(self) -> Program:
        batch, heads, queries, keys, tiles, _ = self.sizes
        return Program(
            programs.forward,
            batch * heads * tiles,
            (
                *self.strides(self.by_query, self.out_stride),
                self.scale * LOG2_E,
                *(heads, self.groups, queries, keys, tiles, *self.ends_of_distances),
            ),
            self.constants,
            {"num_warps": self.asking.warps, "num_stages": self.asking.stages},
        )

    @cached_property
    def backward(self) -> dict[tuple[int, ...], tuple[Program, Program, Program]]:
        """By query, by key and by distance, for each layout of the gradient that came."""
        return {}

    def backward_of(self, grad: tuple[int, ...]) -> tuple[Program, Program, Program]:
        batch, heads, queries, keys, tiles, key_tiles = self.sizes
        asking, scales = self.asking, (self.scale * LOG2_E, self.scale)
        sizes, rest = (heads, self.groups, queries, keys), self.ends_of_distances
        lowest, diagonals = self.diagonals
        half = batch * heads * diagonals * asking.tile * self.query.shape[-1]

        def program(
            source: Any, count: int, stages: int, strides: tuple[int, ...], *more: int
        ) -> Program:
            numbers = *strides, *scales, *sizes, *more, *rest
            options = {"num_warps": asking.backward_warps, "num_stages": stages}
            return Program(source, count, numbers, self.constants, options)

        return (
            program(
                programs.by_query,
                batch * heads * tiles,
                asking.query_stages,
                self.strides(self.by_query, self.out_stride, grad),
                tiles,
            ),
            program(
                programs.by_key,
                batch * self.key.shape[1] * key_tiles,
                asking.key_stages,
                self.strides(self.by_key, token_strides(self.key.shape), grad),
                key_tiles,
            ),
            program(
                programs.by_distance,
                batch * heads * diagonals,
                asking.distance_stages,
                self.strides(self.by_query, grad),
                *(tiles, key_tiles, lowest, diagonals, half),
            ),
        )

    @cached_property
    def folds(self) -> dict[torch.dtype, Fold]:
        """For tables of each type that came: they may be kept in more bits than they are read."""
        return {}

    def fold(self, found: Tensor, table: Tensor) -> Tensor:
        if table.dtype not in self.folds:
            self.folds[table.dtype] = Fold(self, table.dtype)
        return self.folds[table.dtype](found)


class Fold:
    """What each diagonal found of its distances, added up to the gradient of a table."""

    def __init__(self, layout: Layout, dtype: torch.dtype):
        asking, (lowest, diagonals) = layout.asking, layout.diagonals
        self.shape, self.dtype = layout.key_table.shape, dtype
        heads, rows, channels = self.shape
        tile, self.shared = asking.tile, heads == 1
        distances = diagonals * tile
        first = (lowest - 1) * tile + 1 + asking.shift  # the lowest distance of all
        below, above = -asking.reach - first, asking.reach + 1 - first  # a table has those between
        self.clipped = below > 0 or above < distances + tile
        self.beyond = (0, 0, below), (-1, above, distances + tile)
        self.tile = tile
        batch = 1 if self.shared else layout.sizes[0]
        self.program = Program(
            programs.fold,
            heads * -(-rows // ROWS),
            (batch, heads, distances, rows, first, asking.reach, tile),
            {"C": channels, "WIDTH": wide(channels), "ROWS": ROWS},
            {},
        )

    def __call__(self, found: Tensor) -> Tensor:
        """Distances that the table does not have are added to its ends.

        (2, B, H, distances, C), the second a tile further on -> (1 or H, N, C)
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


@lru_cache(LAYOUTS)
def layout_of(*described: Any) -> Layout:
    return Layout(*described)


def layout(tensors: Tensors, scale: float, asking: Asked) -> Layout:
    """The one that was made for tensors that lie as these do."""
    found = [None if x is None else laid(x) for x in tensors]
    return layout_of(*found, tensors.query.device, scale, asking)


def wide(channels: int) -> int:
    """How many a program takes: a power of two."""
    return max(16, 1 << (channels - 1).bit_length())


# ---- forward and backward ----------------------------------------------------------------------


def run_forward(tensors: Tensors, scale: float, asking: Asked) -> tuple[Tensor, Tensor]:
    """The output (B, H, Q, C), and the logarithm of each row's sum, to the base of two."""
    tensors = tensors.readable()
    query = tensors.query
    out = as_tokens(query)
    largest = query.new_empty(query.shape[:3], dtype=torch.float32)
    layout(tensors, scale, asking).forward(*read(tensors, tensors.by_query), largest, out)
    return out, largest


def run_backward(
    tensors: Tensors, scale: float, asking: Asked, out: Tensor, largest: Tensor, grad: Tensor
) -> list[Tensor]:
    """The gradients of query, asked, key, value, key_table and value_table; empty where none is."""
    tables = tensors.key_table, tensors.value_table
    tensors, grad = tensors.readable(), beside(grad)
    query, asked, key, value, *_ = tensors
    of = layout(tensors, scale, asking)
    if (strides := grad.stride()) not in of.backward:
        of.backward[strides] = of.backward_of(strides)
    by_query, by_key, by_distance = of.backward[strides]
    if out.stride() != of.out_stride:
        out = as_tokens(query).copy_(out)
    to_query, to_key, to_value = as_tokens(query), as_tokens(key), as_tokens(value)
    # Two returned tensors are never one, not even empty ones.
    to_asked = query.new_empty(0) if asked is None else as_tokens(query)
    deltas = torch.empty_like(largest)
    told = *read(tensors, tensors.by_query), largest
    by_query(*told, out, grad, to_query, to_query if asked is None else to_asked, deltas)
    by_key(*read(tensors, tensors.by_key), largest, grad, to_key, to_value, deltas)
    batch, heads, _, channels = query.shape
    rows = 2, batch, heads, of.diagonals[1] * of.asking.tile, channels
    found = query.new_empty(rows, dtype=torch.float32)  # lower and upper blocks
    values_found = found if tables[1] is None else torch.empty_like(found)
    by_distance(*told, grad, found, values_found, deltas)
    to_values = query.new_empty(0) if tables[1] is None else of.fold(values_found, tables[1])
    return [to_query, to_asked, to_key, to_value, of.fold(found, tables[0]), to_values]


def read(tensors: Tensors, bounds: Tensor) -> tuple[Tensor, ...]:
    """In the order in which every program is told of them; what it does not read is any of them."""
    query, asked, key, value, key_table, value_table, _, _, ids, key_ids, ends = tensors
    return (
        query,
        query if asked is None else asked,
        key,
        value,
        key_table,
        key_table if value_table is None else value_table,
        bounds,
        bounds if ids is None else ids,
        bounds if key_ids is None else key_ids,
        bounds if ends is None else ends,
    )
