"""A sparse table with a number for each pair of nodes.

B graphs, T nodes, E pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manyheads.attention.intervals import Interval, pool_runs
from manyheads.devices import send


@dataclass(frozen=True, eq=False)
class PairTable:
    """A sparse tensor (B, T, T) in which nearly all entries are `other`."""

    places: Tensor  # (E,) ascending indices into the flattened tensor
    values: Tensor  # (E,)
    shape: tuple[int, int, int]
    other: int

    @staticmethod
    def of(places: Tensor, values: Tensor, shape: tuple[int, int, int], other: int) -> PairTable:
        """Build a table from entries in any order; of entries for one pair the last counts."""
        places, order = places.sort(stable=True)
        last = torch.ones_like(places, dtype=torch.bool)
        last[:-1] = places[1:] != places[:-1]
        return PairTable(places[last], values[order][last], shape, other)

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def pairs(self) -> tuple[Tensor, ...]:
        """The graph, query and key of each stored entry, (E,) each."""
        return torch.unravel_index(self.places, self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, pair: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Look up entries by graph, query and key, indices that broadcast as those of a tensor."""
        if not len(self.places):
            return torch.full_like(pair[0] + pair[1] + pair[2], self.other)
        _, rows, columns = self.shape
        asked = (pair[0] * rows + pair[1]) * columns + pair[2]
        near = torch.searchsorted(self.places, asked).clamp(max=len(self.places) - 1)
        return torch.where(self.places[near] == asked, self.values[near], self.other)

    def to(self, device: torch.device | str) -> PairTable:
        return replace(self, places=send(self.places, device), values=send(self.values, device))

    def select(self, graphs: Tensor) -> PairTable:
        """Keep these graphs, in this order."""
        b, q, k = self.pairs
        chosen, which = (graphs[:, None] == b).nonzero(as_tuple=True)
        shape = (len(graphs), *self.shape[1:])
        places = (chosen * shape[1] + q[which]) * shape[2] + k[which]
        return PairTable.of(places, self.values[which], shape, self.other)

    def pool(self, rows: int, columns: int) -> Interval:
        """Bound the entries of each block, (B, blocks, blocks): loose if a block has no `other`."""
        b, q, k = self.pairs
        blocks = len(self), -(-self.shape[1] // rows), -(-self.shape[2] // columns)
        flat = (b * blocks[1] + q // rows) * blocks[2] + k // columns
        empty = self.values.new_full((blocks[0] * blocks[1] * blocks[2],), self.other)
        low, high = (
            empty.scatter_reduce(0, flat, self.values, which).view(blocks)
            for which in ("amin", "amax")
        )
        return Interval(low, high)


def pool_blocks(table: Tensor | PairTable, rows: int, columns: int) -> Interval:
    """Bound the entries of each rows x columns block: (B, Q, K) -> (B, Q/rows, K/columns)"""
    if isinstance(table, PairTable):
        return table.pool(rows, columns)
    along = pool_runs(table, columns)  # (B, Q, blocks)
    low = pool_runs(along.low.mT, rows).low.mT
    high = pool_runs(along.high.mT, rows).high.mT
    return Interval(low, high)
