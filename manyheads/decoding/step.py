"""One decoding step: new tokens in, logits of the next token out.

B batch, T new tokens, V vocabulary; S sentences that have W sequences each.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from manyheads.attention.cache import Static
from manyheads.attention.patterns import Everything, Pattern
from manyheads.attention.places import Grid, line
from manyheads.devices import use_threads_for
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Tokens


class Step(Protocol):
    """What greedy, beam and sample use: a batch of sequences that advance together."""

    def __call__(self, ids: Tensor) -> Tensor:
        """Read new tokens (B, T); return next logits (B, V), which the caller may overwrite."""

    def select(self, rows: Tensor) -> None:
        """Keep these sequences, in this order: without finished ones, or repeated for a beam."""

    def reorder(self, rows: Tensor) -> None:
        """Continue each sequence from the tokens of this row, but keep its own memory."""


class RewindableStep(Step, Protocol):
    """A step that scores every new token and can go back, which checking a draft needs."""

    def read(self, ids: Tensor) -> Tensor:
        """Read new tokens (B, T); return the logits after each of them (B, T, V)."""

    def crop(self, length: int) -> None:
        """Go back to the first `length` tokens, as if the others had never been read."""


class Kept(Protocol):
    """The cache of a decoder."""

    def select(self, rows: Tensor) -> None: ...
    def reorder(self, rows: Tensor) -> None: ...
    def crop(self, length: int) -> None: ...


class Writer(Protocol):
    """Any kind of decoder, with its own kind of cache."""

    def __call__(self, tokens: Tokens, memory: Memory | None, cache: Any) -> Tensor: ...
    def new_cache(self) -> Kept: ...


class CachedStep:
    """A decoder with a cache, so that each step computes only the new tokens.

    Tokens lie on a line, or at the given places: `grid(32, 32)` for an image.
    """

    def __init__(
        self,
        decoder: Writer,
        memory: Memory | None = None,
        cache: Kept | None = None,
        places: Grid | None = None,
        seen: Pattern = Everything(),
    ):
        """`seen` is a pattern of this batch for every step, such as a Prefix per sequence."""
        self.decoder, self.memory, self.places, self.seen = decoder, memory, places, seen
        self.cache = decoder.new_cache() if cache is None else cache
        self.length = 0  # tokens read
        self.held = self.idle = 0  # sequences in the cache, and how many of them are unused

    def __call__(self, ids: Tensor) -> Tensor:
        return self.read(ids)[:, -1]

    @torch.no_grad()
    def read(self, ids: Tensor) -> Tensor:
        """Read new tokens (B, T); return the logits after each of them (B, T, V)."""
        count, new = ids.shape
        if self.places is None:
            at = line(new, start=self.length, device=ids.device)
        elif self.length + new > len(self.places):
            raise ValueError(
                f"there are {len(self.places)} places to write, one more was asked for"
            )
        else:
            at = self.places[self.length : self.length + new]
        logits = self.run(Tokens(self.with_idle(ids), at, self.seen), new)
        self.held = count + self.idle
        return logits[:count]

    def run(self, tokens: Tokens, new: int = 1) -> Tensor:
        """Run the decoder, which adds `new` tokens to its cache, and return the logits."""
        with use_threads_for(self.decoder, tokens.ids):
            logits: Tensor = self.decoder(tokens, self.memory, self.cache)
        self.length += new  # only now: a refused step has read nothing
        return logits

    def crop(self, length: int) -> None:
        """Go back to the first `length` tokens, as if the others had never been read."""
        check_length(length, self.length)
        self.cache.crop(length)
        self.length = length

    def select(self, rows: Tensor) -> None:
        if isinstance(self.cache, Static):  # its batch size is fixed: dropped rows run on unused
            self.idle = max(self.held - len(rows), 0)
        rows = self.with_idle(rows)
        self.cache.select(rows)
        self.seen = self.seen.select(rows)
        if self.memory is not None:
            self.memory = self.memory.select(rows)

    def reorder(self, rows: Tensor) -> None:
        self.cache.reorder(self.with_idle(rows))

    def with_idle(self, rows: Tensor) -> Tensor:
        """Append copies of the first row for the unused rows of a Static cache."""
        return torch.cat([rows, rows[:1].expand(self.idle, *rows.shape[1:])]) if self.idle else rows


def check_length(length: int, read: int) -> None:
    if not 0 <= length <= read:
        raise ValueError(
            f"{read} tokens were read: a step goes back to 0 to {read} of them, not {length}"
        )


BLOCK = 64  # size of the blocks of tokens whose maxima are compared first


def to_log_probs(logits: Tensor) -> Tensor:
    """Log-softmax, in place if the logits allow it, which takes half the time."""
    if logits.dtype == torch.float32 and logits.is_contiguous():
        return torch.log_softmax(logits, -1, out=logits)
    return logits.log_softmax(-1, dtype=torch.float32)


def blockwise_topk(totals: Tensor, logs: Tensor, best: int = 2) -> Tensor:
    """Return indices w V + v of continuations (S, ...), which include each sentence's `best` best.

    A topk of a whole vocabulary is slow. The best tokens are in the blocks with the best maxima.
    """
    (sentences, width), vocabulary = totals.shape, logs.shape[1]
    block = min(BLOCK, vocabulary)
    count, rest = divmod(vocabulary, block)
    tops = logs[:, : vocabulary - rest].unflatten(1, (count, block)).amax(-1)  # (S W, count)
    tops = (tops + totals.reshape(-1, 1)).view(sentences, -1)
    chosen = tops.topk(min(best, tops.shape[1])).indices
    starts = chosen // count * vocabulary + chosen % count * block
    tokens = torch.arange(vocabulary, device=logs.device)
    within = (starts[..., None] + tokens[:block]).flatten(1)
    # The last few tokens, which fill no block, are all included.
    ends = torch.arange(width, device=logs.device)[:, None] * vocabulary + tokens[block * count :]
    return torch.cat([within, ends.flatten().expand(sentences, -1)], 1)


def are_few(going: int, batch: int) -> bool:
    """Whether to drop finished sequences: a copy of the cache once, fewer rows at each step."""
    return 4 * going <= 3 * batch
