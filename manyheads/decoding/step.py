"""One step of writing: the tokens that are new in, scores of the next token out.

B batch, T new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from manyheads.attention.cache import Cache, Growing
from manyheads.attention.places import Grid, line
from manyheads.model.networks import Decoder, Tokens
from manyheads.model.stack import Memory

Step: TypeAlias = Callable[[Tensor], Tensor]  # (B, T) -> (B, V)


class CachedStep:
    """A decoder that remembers what it has read, so each step costs one token.

    It writes along a line, or along the places given: `grid(32, 32)` for an image.
    """

    def __init__(
        self,
        decoder: Decoder,
        memory: Memory | None = None,
        cache: Cache | None = None,
        places: Grid | None = None,
    ):
        self.decoder, self.memory, self.places = decoder, memory, places
        self.cache: Cache = cache or Growing()
        self.read = 0

    @torch.no_grad()
    def __call__(self, ids: Tensor) -> Tensor:
        new = ids.shape[1]
        if self.places is None:
            at = line(new, start=self.read, device=ids.device)
        elif self.read + new > len(self.places):
            raise ValueError(
                f"there are {len(self.places)} places to write, one more was asked for"
            )
        else:
            at = self.places[self.read : self.read + new]
        scores: Tensor = self.decoder(Tokens(ids, at), self.memory, self.cache)
        self.read += new  # only now: a step that was refused has read nothing
        return scores[:, -1]
