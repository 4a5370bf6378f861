"""How text is written: the choices a user has, and many sources at once in their own order."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from manyheads.attention.positions import Learned
from manyheads.codecs.text import Signs
from manyheads.data.layout import alike
from manyheads.decoding.beam import Beam, beam
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.greedy import greedy
from manyheads.decoding.sample import Sampling, sample
from manyheads.decoding.step import CachedStep
from manyheads.modules.transformer import EncoderDecoder, Tokens
from manyheads.tasks.checks import check_types
from manyheads.threads import sharing, using, work_of

Ids = Sequence[int]
BEAM = 5
LOOP = 64  # tokens that only repeat each other end a text
T = TypeVar("T")


@dataclass(frozen=True)
class Writing:
    """Greedy unless a beam of more than 1 or a temperature is asked for."""

    beam: int = 1
    nbest: int = 1
    length_penalty: float = 1.0
    temperature: float = 0.0  # above 0: draw at random
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    min_new_tokens: int = 0
    max_new_tokens: int = 0  # 0: as many as the source makes likely

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"a temperature is a finite number from 0 (greedy) up, got {self.temperature}"
            )
        if self.temperature and self.beam > 1:
            raise ValueError("a beam searches and a temperature draws; ask for one of them")
        if self.temperature == 0 and (self.top_k or self.top_p < 1):
            raise ValueError("top_k and top_p narrow what is drawn; give a temperature too")
        if self.nbest > max(1, self.beam):
            raise ValueError(
                f"{self.nbest} best were asked for, a beam of {self.beam} finds {self.beam} at most"
            )
        if self.max_new_tokens < 0 or self.min_new_tokens < 0:
            raise ValueError("min_new_tokens and max_new_tokens are 0 or more")
        if 0 < self.max_new_tokens < self.min_new_tokens:
            raise ValueError(
                f"min_new_tokens={self.min_new_tokens} is over max_new_tokens={self.max_new_tokens}"
            )
        Beam(width=self.beam, nbest=self.nbest, length_penalty=self.length_penalty)
        self.sampling()

    def sampling(self) -> Sampling:
        return Sampling(self.temperature or 1.0, top_k=self.top_k, top_p=self.top_p, seed=self.seed)

    def longest(self, source: int, begun: int = 0) -> int:
        """Tokens at most, from those of the source alone: never from what else is in the batch.

        A beginning that is forced takes no room from what follows it.
        """
        return self.max_new_tokens or begun + max(self.min_new_tokens, 2 * source + 20)


def beam_for(asked: int | None, temperature: float) -> int:
    """As wide as was asked for; else the usual, where nothing is drawn."""
    if asked is not None:
        return asked
    return 1 if temperature else BEAM


@torch.no_grad()
def write(
    network: EncoderDecoder,
    sources: Sequence[Ids],
    how: Writing = Writing(),
    *,
    prefixes: Sequence[Ids] = (),
    signs: tuple[Signs, Signs] = (Signs(), Signs()),
    numbers: Sequence[int] | None = None,
    tokens: int = 8192,
) -> list[list[Hypothesis]]:
    """For each source the best that can be written, in the order of the sources.

    Sources of like length go together, about so many `tokens` of all beams at once. `numbers` are
    those of the sources in the whole input, by which each draws. `signs` are those of what is read
    and of what is written.
    """
    network.eval()
    reads, writes = signs
    device, work = next(network.parameters()).device, work_of(network)
    found: dict[int, list[Hypothesis]] = {}
    for rows in alike(sources, tokens // max(1, how.beam)):
        framed = [[*reads.opens, *sources[i], reads.stop] for i in rows]
        read = Tokens.padded(framed, reads.pad).to(device)
        with using(sharing(work, read.ids)):
            memory = network.encode(read)
        step = CachedStep(network.decoder, memory)
        start = torch.tensor([writes.starts] * len(rows), device=device)
        prefix = [prefixes[i] if prefixes else () for i in rows]
        longest = [
            min(how.longest(len(sources[i]), len(begun)), room(network.decoder))
            for i, begun in zip(rows, prefix, strict=True)
        ]
        bounds = Bounds(
            writes.stops,
            longest=longest,
            shortest=how.min_new_tokens,
            prefix=prefix,
            never=writes.never,
            loop=LOOP if max(how.min_new_tokens, *map(len, prefix)) < LOOP else 0,
        )
        if how.temperature:
            own = rows if numbers is None else [numbers[i] for i in rows]
            written = [[one] for one in sample(step, start, bounds, how.sampling(), own)]
        elif how.beam > 1:
            wide = Beam(how.beam, nbest=how.nbest, length_penalty=how.length_penalty)
            written = beam(step, start, bounds, wide)
        else:
            written = [[one] for one in greedy(step, start, bounds)]
        found |= dict(zip(rows, written, strict=True))
    return [found[i] for i in range(len(sources))]


def room(side: nn.Module) -> int:
    """How many tokens it can read or write: a learned position knows only so many places."""
    position = getattr(getattr(side, "stack", None), "position", None)
    return position.sizes[0] if isinstance(position, Learned) else sys.maxsize
