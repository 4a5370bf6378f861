"""The description of a model by which it is exported, imported and verified.

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
Row = tuple[list[int], ...]  # a text with its special tokens, or a source and its target
TOKENS = 64  # of each text to compare, and as many new ones
CONTEXT = 1024  # tokens, for a model without a maximum length
AT_ONCE = 50  # texts in a batch


@dataclass(frozen=True)
class VectorSettings:
    """How a text becomes a vector."""

    pooling: Pooling = "mean"
    normalised: bool = True  # scaled to length 1
    prompt: str = ""  # before every text
    dimensions: int = 0  # keep only this many first numbers; 0: all
    context: int = 0  # maximum number of tokens; 0: that of the model


@dataclass(frozen=True, eq=False)
class Portable:
    """The description of a model."""

    architecture: Architecture
    kind: str  # its task
    design: NetworkConfig
    codecs: tuple[Text, ...]  # one, or those of source and target
    context: int  # maximum number of tokens
    network: Any = None  # built from `design`; None if the weights are elsewhere
    name: str = ""
    labels: tuple[str, ...] = ()
    mean: float = 0.0  # of the numbers it has learned: outputs count from it,
    spread: float = 1.0  # in units of their standard deviation
    pooling: Pooling | None = None  # of a head for whole texts
    vectors: VectorSettings | None = None  # of an embedding model; `embed` computes them
    embed: Callable[[Sequence[str]], NDArray[np.float32]] | None = None
    chat: Any = None  # its chat template

    @property
    def writes(self) -> bool:
        return self.architecture != "encoder"

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens of the target, or of the only tokenizer."""
        return self.codecs[-1].special_tokens

    def rows(self, texts: Sequence[str]) -> list[Row]:
        """Encode texts with special tokens; the target of a source is what the network writes."""
        special, encoded = self.codecs[0].special_tokens, self.codecs[0].encode_all(list(texts))
        if self.architecture == "decoder":
            most = min(TOKENS, max(1, self.context // 2))  # so that there is room to continue
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
        """Pad rows to the inputs of the network."""
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
        """Decode greedily for each source, or on from each text, by the network or by `step`."""
        make = step or self.step
        return [greedy(make(row), *self.begin(row, longest))[0].ids for row in rows]

    def begin(self, row: Row, longest: int) -> tuple[Tensor, Bounds]:
        """Return the tokens to start from, (1, T), and the bounds of decoding."""
        start, special = self.start(row), self.special_tokens
        bounds = Bounds(special.all_eos, longest=self.room(start, longest), never=special.never)
        return torch.tensor([start], device=self.device), bounds

    def step(self, row: Row) -> CachedStep:
        """Return a decoding step, with the source already encoded."""
        if self.architecture == "decoder":
            return CachedStep(self.network)
        memory = self.network.encode(Tokens.padded(row[:1]).to(self.device))
        return CachedStep(self.network.decoder, memory)

    def start(self, row: Row) -> list[int]:
        """Return the tokens to start from."""
        return row[0] if self.architecture == "decoder" else list(self.special_tokens.bos)

    def room(self, start: Sequence[int], longest: int = TOKENS) -> int:
        """Return the maximum number of new tokens: learned positions have a last place."""
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
    """Describe the model of a task; by default, its context is the number of places of its network
    and it has one codec.
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
    """Return the description of a model; raise if its task gives none."""
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
