"""One step of writing: the tokens that are new in, scores of the next token out.

B batch, T new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from manyheads.attention.cache import Cache, Growing
from manyheads.attention.places import line
from manyheads.model.networks import Decoder, Tokens
from manyheads.model.stack import Memory

Step: TypeAlias = Callable[[Tensor], Tensor]  # (B, T) -> (B, V)


class CachedStep:
    """A decoder that remembers what it has read, so each step costs one token."""

    def __init__(self, decoder: Decoder, memory: Memory | None = None, cache: Cache | None = None):
        self.decoder, self.memory = decoder, memory
        self.cache: Cache = cache or Growing()
        self.read = 0

    @torch.no_grad()
    def __call__(self, ids: Tensor) -> Tensor:
        at = line(ids.shape[1], start=self.read, device=ids.device)
        self.read += ids.shape[1]
        scores: Tensor = self.decoder(Tokens(ids, at), self.memory, self.cache)
        return scores[:, -1]
