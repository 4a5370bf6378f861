"""Continuous batching: sequences join and leave a batch one by one, each row at its own place.

B rows of the batch, T new tokens, S tokens of a memory, D model width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from manyheads.attention.cache import Growing, Static, check_crop
from manyheads.attention.patterns import Lengths
from manyheads.attention.places import Grid, line
from manyheads.decoding.bounds import check_start
from manyheads.decoding.step import CachedStep, Writer
from manyheads.devices import use_threads_for
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Tokens


class RowStep:
    """A decoder that writes `rows` sequences side by side along `places`, `line(512)` for a text.

    Between two steps a sequence may leave its row and another may take it, with its own memory of
    up to `memory_tokens` tokens: it continues as it would alone, and no other row changes.
    """

    def __init__(self, decoder: Writer, rows: int, places: Grid, memory_tokens: int = 0):
        if rows < 1:
            raise ValueError(f"a batch has 1 row or more, got {rows}")
        self.decoder, self.places, self.memory_tokens = decoder, places, memory_tokens
        kept: Any = decoder.new_cache()
        self.cache: Any = Static(places) if isinstance(kept, Growing) else kept
        self.lengths: list[int | None] = [None] * rows  # tokens read; None if a row is free
        self.memory: Memory | None = None  # of all rows

    @torch.no_grad()
    def put(self, row: int, start: Tensor, memory: Memory | None = None) -> Tensor:
        """Put a sequence with `start` (1, T) into a free row; return its next logits (1, V)."""
        if not 0 <= row < len(self.lengths):
            raise ValueError(f"rows are numbered 0 to {len(self.lengths) - 1}, got {row}")
        if self.lengths[row] is not None:
            raise ValueError(f"row {row} holds a sequence; remove({row}) lets it out first")
        if len(start) != 1:
            raise ValueError(f"one sequence is put into a row, {len(start)} came")
        memory = None if memory is None else self.cut_padding(memory)
        alone = CachedStep(self.decoder, memory, places=self.places)
        logits = alone(check_start(start))
        self.cache.put(row, alone.cache, len(self.lengths), self.memory_tokens)
        if memory is not None:
            self.put_memory(row, memory.states[0])
        self.lengths[row] = alone.length
        return logits

    def put_memory(self, row: int, new: Tensor) -> None:
        """Replace the memory of this row by these states (T, D)."""
        if self.memory is None:
            states = new.new_zeros(len(self.lengths), self.memory_tokens, new.shape[1])
            lengths = torch.ones(len(states), dtype=torch.long, device=new.device)
        else:
            states, lengths = self.memory.states, cast(Lengths, self.memory.seen).lengths.clone()
        states[row].zero_()
        states[row, : len(new)] = new
        lengths[row] = len(new)
        at = line(self.memory_tokens, device=new.device)
        self.memory = Memory(states, at, Lengths(lengths))

    def cut_padding(self, memory: Memory) -> Memory:
        """Return the memory of one sequence without its padding; an error if it is too long."""
        if len(memory.states) != 1:
            raise ValueError(f"one sequence came with the memory of {len(memory.states)}")
        tokens = memory.states.shape[1]
        for part in memory.seen.parts():
            if not isinstance(part, Lengths):
                raise ValueError(
                    f"the memory of a row hides nothing but padding, {part} came; "
                    "Lengths(...) would do"
                )
            tokens = min(tokens, int(part.lengths[0]))
        if tokens > self.memory_tokens:
            raise ValueError(
                f"rows have room for a memory of {self.memory_tokens} tokens, {tokens} came; "
                f"RowStep(..., memory_tokens={tokens}) would do"
            )
        return Memory(memory.states[:, :tokens], line(tokens, device=memory.states.device))

    def remove(self, row: int) -> None:
        """Free this row; its logits have no meaning until another sequence is put in."""
        self.count_read(row)
        self.lengths[row] = None

    def crop(self, row: int, length: int) -> None:
        """Shorten the sequence of this row to its first `length` tokens."""
        check_crop(length, self.count_read(row), getattr(self.cache, "together", 0))
        if not isinstance(self.cache, Static):
            raise ValueError(
                f"a row goes back by itself in a Static cache, a {type(self.cache).__name__} holds "
                "what the rows have come to together"
            )
        self.lengths[row] = length

    def __call__(self, ids: Tensor) -> Tensor:
        return self.read(ids)[:, -1]

    @torch.no_grad()
    def read(self, ids: Tensor) -> Tensor:
        """Read new tokens (B, T), any for a free row; return the logits after each (B, T, V)."""
        count, new = ids.shape
        taken = [length for length in self.lengths if length is not None]
        if count != len(self.lengths) or not taken:
            raise ValueError(
                f"{count} sequences came to {len(self.lengths)} rows, {len(taken)} of them taken; "
                "each row reads on, and put() fills one"
            )
        if max(taken) + new > len(self.places):
            raise ValueError(
                f"there are {len(self.places)} places to write, a sequence of {max(taken) + new} "
                "tokens was asked for"
            )
        # A free row reads at the place of another one; all it writes is overwritten later.
        starts = [taken[0] if length is None else length for length in self.lengths]
        index = (torch.tensor(starts)[:, None] + torch.arange(new)).to(self.places.device)
        at = replace(self.places.each(lambda x: x[index]), first=None)
        with use_threads_for(self.decoder, ids):
            logits: Tensor = self.decoder(Tokens(ids, at), self.memory, self.cache)
        self.lengths = [None if length is None else length + new for length in self.lengths]
        return logits

    def count_read(self, row: int) -> int:
        """Return how many tokens the sequence of this row has read."""
        length = self.lengths[row] if 0 <= row < len(self.lengths) else None
        if length is None:
            raise ValueError(f"row {row} holds no sequence")
        return length
