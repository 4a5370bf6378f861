"""The beams of a sentence as branches of one sequence: to reorder beams copies no cache.

S sentences in the batch, W branches of each, K tokens in the cache.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.cache import Growing, in_order
from manyheads.attention.patterns import Everything, Pattern
from manyheads.attention.places import Pair, Places, line
from manyheads.decoding.step import CachedStep
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Decoder, Tokens


class Lineage(Pattern):
    """Each token sees only the tokens of its own branch."""

    seen: Tensor  # (B, Q, K)

    def allows(self, pair: Pair) -> Tensor:
        return self.seen[pair.b, pair.q.row, pair.k.row]


class Branching(Growing):
    """A growing cache that takes several tokens at the same place, one of each branch."""

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        new = in_order(at)
        self.coming = new if self.places is None else self.places.then(new)
        return self.coming, Everything()


class BranchedStep(CachedStep):
    """A step for `width` beams, which the decoder reads as new tokens of one sequence with one
    memory. Row `s * W + w` is branch w of sentence s; the first `select` creates the branches.
    """

    def __init__(self, decoder: Decoder, memory: Memory | None, width: int):
        super().__init__(decoder, memory, Branching())
        self.width = width
        self.lineage: Tensor | None = None  # (S, W, K), None before there are branches

    def read(self, ids: Tensor) -> Tensor:
        if self.lineage is None:
            return super().read(ids)
        if ids.shape[1] != 1:
            raise ValueError(f"branches grow by one token at a time, {ids.shape[1]} came")
        itself = torch.eye(self.width, dtype=torch.bool, device=ids.device)
        lineage = torch.cat([self.lineage, itself.expand(len(self.lineage), -1, -1)], 2)
        at = line(1, start=self.length, device=ids.device).each(lambda x: x.expand(self.width))
        tokens = Tokens(ids.view(-1, self.width), replace(at, first=None), Lineage(lineage))
        logits = self.run(tokens)
        self.lineage = lineage
        return logits.view(len(ids), 1, -1)

    def crop(self, length: int) -> None:
        if self.lineage is not None:
            raise ValueError("branches do not go back; a CachedStep does")
        super().crop(length)

    def select(self, rows: Tensor) -> None:
        if self.lineage is None:
            shape = len(rows) // self.width, self.width, self.length
            self.lineage = torch.ones(shape, dtype=torch.bool, device=rows.device)
            return
        self.reorder(rows)
        super().select(rows[:: self.width] // self.width)

    def reorder(self, rows: Tensor) -> None:
        assert self.lineage is not None
        self.lineage = self.lineage.flatten(0, 1)[rows].unflatten(0, (-1, self.width))
