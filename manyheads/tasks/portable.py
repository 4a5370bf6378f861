"""A model as others know it: all that an export, an import and a check know of one.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep, Step
from manyheads.modules.config import NetworkConfig, Pooling
from manyheads.modules.transformer import Tokens

Architecture = Literal["encoder-decoder", "decoder", "encoder"]
Row = tuple[list[int], ...]  # a text with its special, or a source and what is written for it
TOKENS = 64  # of each text that is compared, and as many are written
CONTEXT = 1024  # tokens, of what was made for no length in particular
AT_ONCE = 50  # texts that are compared together


@dataclass(frozen=True)
class VectorSettings:
    """How a text becomes a vector."""

    pooling: Pooling = "mean"
    normalised: bool = True  # brought to length 1
    prompt: str = ""  # before every text
    dimensions: int = 0  # so many numbers of it, the first; 0: all
    context: int = 0  # tokens that are read; 0: as many as the model reads


@dataclass(frozen=True, eq=False)
class Portable:
    """What a model says of itself."""

    architecture: Architecture
    kind: str  # what it is for
    design: NetworkConfig
    codecs: tuple[Text, ...]  # one, or that of what is read and that of what is written
    context: int  # tokens that it was made for
    network: Any = None  # of these settings; None where its weights lie elsewhere
    name: str = ""
    labels: tuple[str, ...] = ()
    pooling: Pooling | None = None  # of a head that speaks of a whole text
    vectors: VectorSettings | None = None  # of what was made for vectors, and what makes them
    embed: Callable[[Sequence[str]], NDArray[np.float32]] | None = None
    chat: Any = None  # how a conversation is written down for it

    @property
    def writes(self) -> bool:
        return self.architecture != "encoder"

    @property
    def special_tokens(self) -> SpecialTokens:
        """Of what is written, or read where nothing is."""
        return self.codecs[-1].special_tokens

    def rows(self, texts: Sequence[str]) -> list[Row]:
        """Texts with the signs around them; of a source the target is what the network writes."""
        special, encoded = self.codecs[0].special_tokens, self.codecs[0].encode_all(list(texts))
        if self.architecture == "decoder":
            most = min(TOKENS, max(1, self.context // 2))  # so that it can go on
            begun = [[*special.bos, *ids][:most] for ids in encoded]
            return [(row,) for row in begun if row]
        most = min(TOKENS, self.context) - len(special.encoder_bos) - 1
        read: list[Row] = [
            ([*special.encoder_bos, *ids[:most], special.eos],) for ids in encoded if ids
        ]
        if self.architecture == "encoder":
            return read
        written = self.write([(source, []) for (source,) in read])
        starts = self.special_tokens.bos
        return [(row[0], [*starts, *ids]) for row, ids in zip(read, written, strict=True)]

    def batch(self, rows: Sequence[Row]) -> tuple[Tokens, ...]:
        """What the network reads of them."""
        pads = [self.codecs[0].special_tokens.pad, self.special_tokens.pad]
        sides = zip(zip(*rows, strict=True), pads, strict=False)
        return tuple(Tokens.padded(side, pad).to(self.device) for side, pad in sides)

    @torch.no_grad()
    def write(
        self,
        rows: Sequence[Row],
        longest: int = TOKENS,
        step: Callable[[Row], Step] | None = None,
    ) -> list[list[int]]:
        """Greedily for each source, or on from each text; by the network, or by another `step`."""
        make = step or self.step
        return [greedy(make(row), *self.begin(row, longest))[0].ids for row in rows]

    def begin(self, row: Row, longest: int) -> tuple[Tensor, Bounds]:
        """What is written on from, and how far."""
        start, special = self.start(row), self.special_tokens
        bounds = Bounds(special.all_eos, longest=self.room(start, longest), never=special.never)
        return torch.tensor([start], device=self.device), bounds

    def step(self, row: Row) -> CachedStep:
        """To write with, the source read."""
        if self.architecture == "decoder":
            return CachedStep(self.network)
        memory = self.network.encode(Tokens.padded(row[:1]).to(self.device))
        return CachedStep(self.network.decoder, memory)

    def start(self, row: Row) -> list[int]:
        """What is written on from."""
        return row[0] if self.architecture == "decoder" else list(self.special_tokens.bos)

    def room(self, start: Sequence[int], longest: int = TOKENS) -> int:
        """So many tokens at most: a learned position knows only so many places."""
        places = self.design.places
        return min(longest, places - len(start)) if places is not None else longest

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.network.parameters()).device
        return device


def describe(
    model: Any,
    architecture: Architecture,
    context: int = 0,
    codecs: tuple[Text, ...] = (),
    **more: Any,
) -> Portable:
    """What a model of a task says of itself; where nothing else is said, by its network's places
    and its one codec.
    """
    task, design = model.task, model.task.recipe.network
    known = context or design.places or CONTEXT
    both = codecs or (task.codec,)
    return Portable(
        architecture, model.kind, design, both, known, model.network, model.name, **more
    )


def chunks(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[i : i + AT_ONCE] for i in range(0, len(rows), AT_ONCE)]


def require_portable(model: Any) -> Portable:
    """What a model says of itself; refused where it says nothing."""
    if isinstance(model, Portable):
        return model
    describe = getattr(model, "portable", None)
    if describe is None:
        raise ValueError(
            f"{model.name} is of a task whose models do not say what they are elsewhere; "
            "a method `portable` on its model would do"
        )
    found: Portable = describe()
    return found
