"""One step of writing: the tokens that are new in, logits of the next token out.

B batch, T new tokens, V vocabulary.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from manyheads.attention.cache import Static
from manyheads.attention.patterns import Everything, Pattern
from manyheads.attention.places import Grid, line
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Tokens
from manyheads.threads import sharing, using, work_of


class Step(Protocol):
    """What greedy, beam and sample write with: a batch of sequences that go on together."""

    def __call__(self, ids: Tensor) -> Tensor:
        """New tokens (B, T) -> logits of the next (B, V), for the caller to write over."""

    def select(self, rows: Tensor) -> None:
        """Keep these sequences, in this order: fewer where some are done, repeated for a beam."""

    def reorder(self, rows: Tensor) -> None:
        """Each goes on from what this row has written; what it reads from stays its own."""


class Kept(Protocol):
    """What a decoder remembers of the tokens it has read."""

    def select(self, rows: Tensor) -> None: ...
    def reorder(self, rows: Tensor) -> None: ...


class Writer(Protocol):
    """A decoder of any kind, with a cache of its own kind."""

    def __call__(self, tokens: Tokens, memory: Memory | None, cache: Any) -> Tensor: ...
    def new_cache(self) -> Kept: ...


class CachedStep:
    """A decoder that remembers what it has read, so each step costs one token.

    It writes along a line, or along the places given: `grid(32, 32)` for an image.
    """

    def __init__(
        self,
        decoder: Writer,
        memory: Memory | None = None,
        cache: Kept | None = None,
        places: Grid | None = None,
        seen: Pattern = Everything(),
    ):
        """`seen` is what holds for this batch in every step, as a Prefix for each sequence does."""
        self.decoder, self.memory, self.places, self.seen = decoder, memory, places, seen
        self.cache = decoder.new_cache() if cache is None else cache
        self.read = 0  # tokens
        self.held = self.idle = 0  # sequences in the cache, and those of them that nobody wants
        self.work = work_of(decoder)

    @torch.no_grad()
    def __call__(self, ids: Tensor) -> Tensor:
        count, new = ids.shape
        if self.places is None:
            at = line(new, start=self.read, device=ids.device)
        elif self.read + new > len(self.places):
            raise ValueError(
                f"there are {len(self.places)} places to write, one more was asked for"
            )
        else:
            at = self.places[self.read : self.read + new]
        ids = self.with_idle(ids)
        with using(sharing(self.work, ids)):
            logits = self.decoder(Tokens(ids, at, self.seen), self.memory, self.cache)
        self.read += new  # only now: a step that was refused has read nothing
        self.held = count + self.idle
        return logits[:count, -1]

    def select(self, rows: Tensor) -> None:
        if isinstance(self.cache, Static):  # its size stays: those left out go on unread
            self.idle = max(self.held - len(rows), 0)
        rows = self.with_idle(rows)
        self.cache.select(rows)
        self.seen = self.seen.select(rows)
        if self.memory is not None:
            self.memory = self.memory.select(rows)

    def reorder(self, rows: Tensor) -> None:
        self.cache.reorder(self.with_idle(rows))

    def with_idle(self, rows: Tensor) -> Tensor:
        """Something for those that nobody wants: what the first one gets."""
        return torch.cat([rows, rows[:1].expand(self.idle, *rows.shape[1:])]) if self.idle else rows
