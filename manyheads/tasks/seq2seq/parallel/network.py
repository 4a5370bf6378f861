"""The base class of networks that write in parallel.

B batch, T tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import NOTHING
from manyheads.decoding.bounds import Hypothesis, forbid
from manyheads.decoding.config import DecodingConfig
from manyheads.modules.build import (
    build_embedding,
    build_encoder_side,
    build_head,
    build_stack,
    read_patterns,
)
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Decoder, EncoderDecoder, Tokens
from manyheads.tasks.seq2seq.parallel.config import ParallelConfig


class ParallelNetwork(EncoderDecoder, ABC):
    """An encoder-decoder whose decoder is not causal: each token sees all others."""

    config: ParallelConfig
    takes: ClassVar[frozenset[str]] = frozenset()  # the settings of a DecodingConfig that it reads
    validating: ClassVar[DecodingConfig] = DecodingConfig()  # a cheaper way, as greedy is

    def __init__(self, config: Any, source: int, target: int, joint: bool, special: SpecialTokens):
        reads = build_embedding(config, source)
        writes = reads if joint else build_embedding(config, target)
        read, wrote = (replace(config, depth=depth) for depth in config.depths)
        stack = build_stack(wrote, read_patterns(wrote), cross=True)
        super().__init__(
            build_encoder_side(read, reads),
            Decoder(writes, stack, build_head(config, writes), causal=False),
        )
        self.config, self.special = config, special

    @abstractmethod
    def forward(  # type: ignore[override]
        self, source: Tokens, wanted: Tensor, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """Return named loss terms, each summed; `wanted` (B, T) are the targets with their ends,
        and NOTHING.
        """

    @abstractmethod
    def write(
        self,
        memory: Memory,
        lengths: Tensor,
        how: DecodingConfig,
        numbers: Sequence[int] | None = None,
    ) -> list[Hypothesis]:
        """Return the hypothesis for each source, given its memory and its length; `numbers` are
        those of the sources in the whole input, which seed sampling.
        """

    def candidates(self, how: DecodingConfig) -> int:
        """Return how many sequences are decoded for a source; refuse too many."""
        return 1

    def count_passes(self, how: DecodingConfig, tokens: int) -> int:
        """Return the sequential decoder passes for a text of `tokens` tokens."""
        return 1

    def refuse(self, how: DecodingConfig, prefixed: bool = False) -> None:
        """Refuse decoding settings that this network does not have."""
        asked = [
            one.name
            for one in reversed(fields(DecodingConfig))  # nbest before the beam that it implies
            if one.name not in self.takes and getattr(how, one.name) != one.default
        ]
        if prefixed and "prefix" not in self.takes:
            asked.append("prefix")
        self.candidates(how)
        if asked:
            raise ValueError(
                f"a {self.config.kind} network writes in parallel and knows no {asked[0]}; "
                "leave it out"
            )

    def never(self, *allowed: int) -> list[int]:
        """Return the special tokens that no text contains, except those that are `allowed` here."""
        return sorted({*self.special.never, *self.special.all_eos} - {*allowed})


def forbid_in(scores: Tensor, tokens: list[int]) -> Tensor:
    """Set the scores of these tokens to -inf everywhere, in place: scores (B, N, V)"""
    forbid(scores.view(-1, scores.shape[-1]), tokens)
    return scores


def inside_of(counts: Tensor, width: int) -> Tensor:
    """Return a mask of the first `counts` places of each row: (B, N)"""
    return torch.arange(width, device=counts.device) < counts[:, None]


def split_wanted(wanted: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """Return the targets without their end tokens, padded (B, T), and their lengths (B)."""
    lengths = ((wanted != NOTHING).sum(1) - 1).clamp(min=0)
    tokens = wanted[:, :-1] if wanted.shape[1] > 1 else wanted
    return tokens.masked_fill(~inside_of(lengths, tokens.shape[1]), pad), lengths
