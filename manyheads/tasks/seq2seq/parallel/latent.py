"""Latent: a short sequence of codes is written token by token, then decoded in one pass.

B batch, N tokens of a target with its end, M = N / compression codes, C numbers of a code, D model
width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.patterns import Lengths
from manyheads.attention.places import line
from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import NOTHING
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.graphed_step import GraphedStep, can_be_graphed
from manyheads.decoding.step import CachedStep
from manyheads.decoding.strategies import decode
from manyheads.modules.build import (
    build_decoder_side,
    build_embedding,
    build_head,
    build_stack,
    read_patterns,
)
from manyheads.modules.layers import init_linear
from manyheads.modules.losses import sum_losses
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.parallel.config import LatentConfig
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork, forbid_in, inside_of


class LatentNetwork(ParallelNetwork):
    """A network that encodes a target into codes, one that predicts codes, and one that decodes
    them.
    """

    config: LatentConfig
    takes = frozenset({"beam", "length_penalty", "early_stopping", "temperature", "seed"})

    def __init__(self, config: Any, source: int, target: int, joint: bool, special: SpecialTokens):
        super().__init__(config, source, target, joint, special)
        small, width = replace(config, depth=config.latent_depth), config.width
        self.codes = ScalarCodes(config.levels)
        self.reader = build_stack(small, read_patterns(small), cross=True)
        self.squeeze = nn.Linear(config.compression * width, len(config.levels))
        self.spread = nn.Linear(len(config.levels), config.compression * width)
        init_linear(self.squeeze, self.spread)
        self.stop, self.start = self.codes.size, self.codes.size + 1
        words = build_embedding(config, self.codes.size + 2)
        self.prior = build_decoder_side(small, words, build_head(config, words), cross=True)

    # ---- learning ------------------------------------------------------------------------------

    def forward(  # type: ignore[override]
        self, source: Tokens, wanted: Tensor, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        times = self.config.compression
        wanted = F.pad(wanted, (0, -wanted.shape[1] % times), value=NOTHING)
        counts = (wanted != NOTHING).sum(1)  # with the end
        memory, groups = self.encode(source), -(-counts // times)
        numbers = self.read_target(wanted, counts, memory)  # (B, M, C)
        scores = self.decode_codes(numbers, groups, memory)
        ids = self.codes.number(numbers.detach())
        return {
            "codes": self.prior_loss(ids, groups, counts, memory),
            "tokens": sum_losses(scores, wanted, smoothing),
        }

    def read_target(self, wanted: Tensor, counts: Tensor, memory: Memory) -> Tensor:
        """Encode a target into codes, each as its numbers: (B, M, C)"""
        ids = wanted.masked_fill(wanted == NOTHING, self.special.pad)
        at, seen = line(ids.shape[1], device=ids.device), Lengths(counts.clamp(min=1))
        states = self.reader(self.decoder.embedding(ids), at, seen, memory)
        states = states * inside_of(counts, ids.shape[1])[..., None]
        grouped = states.unflatten(1, (-1, self.config.compression)).flatten(2)
        return self.codes.quantise(self.squeeze(grouped).float())

    def decode_codes(self, numbers: Tensor, groups: Tensor, memory: Memory) -> Tensor:
        """Return the logits of all tokens at once, (B, N, V)"""
        x = self.spread(numbers.to(self.spread.weight.dtype))
        x = x.unflatten(2, (self.config.compression, -1)).flatten(1, 2)
        at = line(x.shape[1], device=x.device)
        seen = Lengths((groups * self.config.compression).clamp(min=1))
        return self.decoder.head(self.decoder.stack(x, at, seen, memory))

    def prior_loss(self, ids: Tensor, groups: Tensor, counts: Tensor, memory: Memory) -> Tensor:
        """Return the loss of the codes and their end token, given the source and earlier codes."""
        inside = inside_of(groups, ids.shape[1])
        begun = F.pad(ids.masked_fill(~inside, self.stop), (1, 0), value=self.start)
        after = F.pad(ids.masked_fill(~inside, NOTHING), (0, 1), value=NOTHING)
        after = after.scatter(1, groups[:, None], self.stop)
        after = after.masked_fill((counts == 0)[:, None], NOTHING)  # a row may be empty
        at = line(begun.shape[1], device=ids.device)
        scores = self.prior(Tokens(begun, at, Lengths(groups + 1)), memory)
        return sum_losses(scores, after)

    # ---- writing -------------------------------------------------------------------------------

    def candidates(self, how: DecodingConfig) -> int:
        return how.beam

    def count_passes(self, how: DecodingConfig, tokens: int) -> int:
        return math.ceil(tokens / self.config.compression) + 2  # the end, and one for all tokens

    def write(
        self,
        memory: Memory,
        lengths: Tensor,
        how: DecodingConfig,
        numbers: Sequence[int] | None = None,
    ) -> list[Hypothesis]:
        found = self.write_codes(memory, lengths.tolist(), how, numbers)
        groups = torch.tensor([max(1, len(one.ids)) for one in found], device=lengths.device)
        ids = torch.zeros(len(found), int(groups.max()), dtype=torch.long)
        for row, one in zip(ids, found, strict=True):
            row[: len(one.ids)] = torch.tensor(one.ids, dtype=torch.long)
        looked_up = self.codes.look_up(ids.to(lengths.device))
        scores = self.decode_codes(looked_up, groups, memory).float()
        best = F.log_softmax(forbid_in(scores, [*self.special.never]), -1).max(-1)
        sizes = (groups * self.config.compression).tolist()
        rows = zip(best.indices.tolist(), best.values.tolist(), sizes, found, strict=True)
        return [
            self.cut(tokens[:size], logs[:size], codes.log_prob)
            for tokens, logs, size, codes in rows
        ]

    def write_codes(
        self,
        memory: Memory,
        lengths: list[int],
        how: DecodingConfig,
        numbers: Sequence[int] | None,
    ) -> list[Hypothesis]:
        """Decode the codes token by token, by the strategy that was asked for."""
        longest = [-(-(2 * length + 20) // self.config.compression) for length in lengths]
        start = torch.full((len(lengths), 1), self.start, device=memory.states.device)
        bounds = Bounds(self.stop, longest, shortest=1, never=(self.start,))
        step: Any = CachedStep(self.prior, memory)
        if can_be_graphed(self.prior, memory):
            step = GraphedStep(self.prior, memory, max(longest) + 1)
        return [best for best, *_ in decode(step, start, bounds, how, numbers)]

    def cut(self, tokens: list[int], logs: list[float], log_prob: float) -> Hypothesis:
        """Cut the tokens at the first end token."""
        ends = (i for i, token in enumerate(tokens) if token in self.special.all_eos)
        size = next(ends, len(tokens))
        return Hypothesis(
            tokens[:size], log_prob + math.fsum(logs[: size + 1]), logs[: size + 1], True
        )


class ScalarCodes(nn.Module):
    """Finite scalar quantisation: each number of a code is rounded to one of a few levels."""

    def __init__(self, levels: tuple[int, ...]):
        super().__init__()
        self.size = math.prod(levels)
        bases = [math.prod(levels[:i]) for i in range(len(levels))]
        self.levels: Tensor
        self.bases: Tensor
        self.register_buffer("levels", torch.tensor(levels), persistent=False)
        self.register_buffer("bases", torch.tensor(bases), persistent=False)

    def quantise(self, values: Tensor) -> Tensor:
        """Round each number to a level between -1 and 1; gradients ignore the rounding."""
        top = (self.levels - 1).to(values.dtype)
        bounded = (values.tanh() + 1) / 2 * top  # 0 to levels - 1
        rounded = bounded + (bounded.round() - bounded).detach()
        return 2 * rounded / top - 1

    def number(self, numbers: Tensor) -> Tensor:
        """(..., C) -> the id of each code, (...)"""
        top = (self.levels - 1).to(numbers.dtype)
        return (((numbers + 1) / 2 * top).round().long() * self.bases).sum(-1)

    def look_up(self, ids: Tensor) -> Tensor:
        """The inverse of `number`: (...) -> (..., C)"""
        steps = ids[..., None] // self.bases % self.levels
        return 2 * steps.float() / (self.levels - 1) - 1
