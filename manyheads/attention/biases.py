"""The biases that a relative position adds to scores and values, as data that kernels read.

B batch, H heads, Q queries, K keys, C channels of one head, N distances.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.places import Pair, Pairs
from manyheads.attention.rules import Rule

Feature: TypeAlias = Literal[
    "distance bias",
    "content bias",
    "value bias",
    "score other than a product",
    "dropout",
    "gradient",
]
ROOM = 2**24  # the most numbers that an expanded table of distances may have
WHOLE = slice(None)


class Kind(NamedTuple):
    """The kind of a bias, known before its tensors exist: a kernel can refuse it by this."""

    bias: type
    rule: Rule
    axes: int
    values: bool = False

    @property
    def features(self) -> frozenset[Feature]:
        # A class of one's own is known by its `by_row` alone, as that of a distance is.
        scores: Feature = "content bias" if self.bias is ContentBias else "distance bias"
        return frozenset({scores, "value bias"} if self.values else {scores})


@dataclass(frozen=True, eq=False)
class DistanceBias:
    """Add a number for each head and distance to the score."""

    tables: Tensor  # (axes, H, N)
    rule: Rule
    queries: int

    def by_row(self, scale: float, part: slice = WHOLE) -> Tensor:
        """Expand the table to many rows, so that its gradient is not summed into a single row."""
        tables = upcast(self.tables[..., part])
        rows = min(self.queries, max(1, ROOM // tables[0].numel()))
        return tables[:, None, :, None].expand(-1, -1, -1, rows, -1)


@dataclass(frozen=True, eq=False)
class ContentBias:
    """Add the product of the query and an embedding of the distance to the score; with value
    tables, also add an embedding of the distance to the value.

    It holds query and tables, not their product: a kernel may compute that inside its tiles.
    """

    query: Tensor  # (B, H, Q, C), before any rotation: a rotated query depends on its own place
    key_tables: Tensor  # (axes, 1 or H, N, C)
    value_tables: Tensor | None
    rule: Rule

    def by_row(self, scale: float, part: slice = WHOLE) -> Tensor:
        tables = self.key_tables[:, :, part].to(self.query.dtype)
        products = [upcast(multiply_table(self.query, table)) * scale for table in tables]
        return torch.stack(products) if len(products) > 1 else products[0][None]

    def mixed(self, weights: Tensor, pair: Pair) -> Tensor:
        """Return what the value tables add to the output: weights (B, H, Q, K) -> (B, H, Q, C)."""
        assert self.value_tables is not None
        added = []
        for table, index in zip(self.value_tables, self.rule.indices(pair), strict=True):
            shape = *weights.shape[:3], table.shape[1]
            by_distance = upcast(weights).new_zeros(shape)
            by_distance = by_distance.scatter_add(-1, index.expand_as(weights), upcast(weights))
            added.append(by_distance.to(weights.dtype) @ table.to(weights.dtype))
        return sum_tensors(added)


def multiply_table(query: Tensor, table: Tensor) -> Tensor:
    """(B, H, Q, C) and (1 or H, N, C) -> (B, H, Q, N); a single product if heads share a table."""
    return F.linear(query, table[0]) if len(table) == 1 else query @ table.mT


# `by_row` returns what is added to a query's score at each index of the table, or of a part of it:
# (axes, 1 or B, H, rows, N). Query i reads row i % rows.
Bias: TypeAlias = DistanceBias | ContentBias


def look_up(rows: Tensor, rule: Rule, pair: Pair) -> Tensor:
    """Return what a bias adds to the score of a pair, or of all pairs its indices broadcast to."""
    b = pair.b if rows.shape[1] > 1 else torch.zeros_like(pair.b)
    row = pair.q.row % rows.shape[3]
    return sum_tensors(
        each[b, pair.h, row, index] for each, index in zip(rows, rule.indices(pair), strict=True)
    )


def look_up_all(rows: Tensor, rule: Rule, pairs: Pairs) -> Tensor:
    """Like `look_up` for all pairs, broadcasts to (B, H, Q, K); gradients are summed per row."""
    everywhere = pairs.everywhere()
    if rows.shape[3] < len(pairs.queries):
        return look_up(rows, rule, everywhere)
    found = []
    for each, index in zip(rows, rule.indices(everywhere), strict=True):
        batch = max(len(each), len(index))
        shape = batch, each.shape[1], len(pairs.queries), len(pairs.keys)
        found.append(each.expand(batch, -1, -1, -1).gather(-1, index.expand(shape)))
    return sum_tensors(found)


def sum_tensors(tensors: Iterable[Tensor]) -> Tensor:
    return reduce(add, tensors)


def upcast(x: Tensor) -> Tensor:
    """Cast 16 bits to 32: many pairs read one entry, and its gradient is the sum over them."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
