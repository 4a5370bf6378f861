"""Several sequences packed into one, in which each sees only its own tokens: one pass reads new
tokens of any of them, without padding.

B sequences, N new tokens of all, K tokens in the cache, M tokens of all memories, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.kernels import is_wrapper
from manyheads.attention.places import Grid, line
from manyheads.decoding.branches import Branching, Lineage
from manyheads.decoding.graphed_rows import lengths_of
from manyheads.decoding.step import CachedStep, check_length
from manyheads.devices import use_threads_for
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Decoder, Tokens


class PackedStep:
    """A decoder that generates several sequences, each at its own place.

    Attention compares every token with those of all sequences: use it for a few short ones, where
    the overhead of a pass costs more than its products.
    """

    def __init__(self, decoder: Decoder, memory: Memory | None = None):
        self.decoder, self.memory, self.cache = decoder, memory, Branching()
        self.held: list[int] = []  # the sequence of each token in the cache; -1: removed by `crop`
        self.slots: dict[int, list[int]] = {}  # where the cache has the tokens of each sequence
        if memory is not None:
            rows = len(memory.states)
            lengths = lengths_of(memory, rows)
            there = torch.arange(memory.states.shape[1], device=lengths.device) < lengths[:, None]
            self.states = memory.states[there][None]  # (1, M, D)
            self.owners = torch.arange(rows, device=lengths.device).repeat_interleave(lengths)

    @torch.no_grad()
    def read(self, new: Mapping[int, Sequence[int]]) -> Tensor:
        """Read new tokens, given by the number of their sequence; return the logits after each
        of them, in the same order (N, V)."""
        device = next(self.decoder.parameters()).device
        ids = [token for some in new.values() for token in some]
        rows = [row for row, some in new.items() for _ in some]
        begun = {row: len(self.slots.get(row, ())) for row in new}
        places = [begun[row] + i for row, some in new.items() for i in range(len(some))]
        rows_of, order = (torch.tensor(x, device=device) for x in (rows, places))
        held = torch.tensor([*self.held, *rows], device=device)
        at = Grid(order, (order,), (max(places) + 1,))
        tokens = torch.tensor([ids], device=device)
        read = Tokens(tokens, at, Lineage((held == rows_of[:, None])[None]))
        with use_threads_for(self.decoder, tokens):
            logits: Tensor = self.decoder(read, self.find_memory(rows_of), self.cache)
        for slot, row in enumerate(rows, start=len(self.held)):
            self.slots.setdefault(row, []).append(slot)
        self.held += rows
        return logits[0]

    def find_memory(self, rows: Tensor) -> Memory | None:
        """Return all memories as one, in which each token sees only its own sequence's memory."""
        if self.memory is None:
            return None
        seen = Lineage((self.owners == rows[:, None])[None])
        return Memory(self.states, line(self.states.shape[1], device=rows.device), seen)

    def crop(self, row: int, length: int) -> None:
        """Shorten this sequence to its first `length` tokens."""
        slots = self.slots.get(row, [])
        check_length(length, len(slots))
        for slot in slots[length:]:
            self.held[slot] = -1
        del slots[length:]

    def separate(self, row: int) -> CachedStep:
        """Return a new step for this sequence alone, which has read nothing yet."""
        rows = torch.tensor([row], device=next(self.decoder.parameters()).device)
        return CachedStep(self.decoder, None if self.memory is None else self.memory.select(rows))


def can_be_packed(decoder: Any) -> bool:
    """Whether tokens depend only on their ids and places, so that they may be packed in any order.
    Not if a wrapper records attention: it would see packed sources."""
    if not isinstance(decoder, Decoder) or is_wrapper(decoder.stack.kernel):
        return False
    return decoder.causal and type(decoder).places_and_types is Decoder.places_and_types
