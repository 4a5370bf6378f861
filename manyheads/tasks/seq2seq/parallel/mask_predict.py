"""Mask-predict: predict all tokens at once, then the least certain ones again, a few times.

B batch, L lengths, N tokens of a target, D model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.patterns import Lengths
from manyheads.attention.places import line
from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import NOTHING
from manyheads.decoding.bounds import Hypothesis, find_room
from manyheads.decoding.config import DecodingConfig
from manyheads.modules.checks import mean_states
from manyheads.modules.layers import init_linear
from manyheads.modules.losses import sum_losses
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.parallel.config import MaskPredictConfig
from manyheads.tasks.seq2seq.parallel.network import (
    ParallelNetwork,
    forbid_in,
    inside_of,
    split_wanted,
)


class MaskPredictNetwork(ParallelNetwork):
    """The start token serves as the mask: no text contains it."""

    config: MaskPredictConfig
    takes = frozenset({"passes", "lengths"})
    validating = DecodingConfig(passes=4, lengths=1)

    def __init__(self, config: Any, source: int, target: int, joint: bool, special: SpecialTokens):
        super().__init__(config, source, target, joint, special)
        self.length_head = nn.Linear(config.width, 2 * config.length_range + 1)
        init_linear(self.length_head)

    # ---- learning ------------------------------------------------------------------------------

    def forward(  # type: ignore[override]
        self, source: Tokens, wanted: Tensor, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        tokens, counts = split_wanted(wanted, self.special.pad)
        memory, hides = self.encode(source), self.hide(counts, tokens.shape[1])
        losses = [
            sum_losses(
                self.score(tokens.masked_fill(hidden, self.mask), counts, memory),
                tokens.masked_fill(~hidden, NOTHING),
                smoothing,
            )
            for hidden in hides
        ]
        asked = torch.stack([hidden.sum() for hidden in hides]).sum()
        apart = (counts - source.lengths()).clamp(-self.reach, self.reach) + self.reach
        apart = apart.masked_fill(counts == 0, NOTHING)  # a row may be empty
        return {
            # Scaled to all tokens: otherwise steps with few masked tokens would count less.
            "tokens": torch.stack(losses).sum() * (counts.sum() / asked.clamp(min=1)),
            "length": F.cross_entropy(
                self.length_scores(memory), apart, ignore_index=NOTHING, reduction="sum"
            ),
        }

    def hide(self, counts: Tensor, width: int) -> list[Tensor]:
        """Return which tokens to mask, (B, N): a random number in each target, one at least; in
        validation, every other token, and then the others.
        """
        inside = inside_of(counts, width)
        if not self.training:
            even = torch.arange(width, device=counts.device) % 2 == 0
            return [inside & even, inside & ~even]
        most = 1 + (torch.rand(len(counts), device=counts.device) * counts).long()
        order = torch.rand(inside.shape, device=counts.device).masked_fill(~inside, 2.0)
        return [(rank_in_row(order) < most[:, None]) & inside]

    @property
    def mask(self) -> int:
        return self.special.bos[-1]

    @property
    def reach(self) -> int:
        """The largest difference between the lengths of a target and its source."""
        return self.config.length_range

    def length_scores(self, memory: Memory) -> Tensor:
        """Return logits of the difference between target and source length, (B, 2 reach + 1),
        float32
        """
        return self.length_head(mean_states(memory.states, memory.seen, memory.at)).float()

    def score(self, ids: Tensor, counts: Tensor, memory: Memory) -> Tensor:
        """Return the logits of each token, (B, N, V), given the tokens that are not masked."""
        at = line(ids.shape[1], device=ids.device)
        return self.decoder(Tokens(ids, at, Lengths(counts.clamp(min=1))), memory)

    # ---- writing -------------------------------------------------------------------------------

    def candidates(self, how: DecodingConfig) -> int:
        known = 2 * self.reach + 1
        if how.lengths > known:
            raise ValueError(
                f"{how.lengths} lengths were asked for, this model knows {known}, up to "
                f"{self.reach} tokens from that of the source; --lengths {known} would do"
            )
        return how.lengths

    def count_passes(self, how: DecodingConfig, tokens: int) -> int:
        return how.passes

    def write(
        self,
        memory: Memory,
        lengths: Tensor,
        how: DecodingConfig,
        numbers: Sequence[int] | None = None,
    ) -> list[Hypothesis]:
        several = self.candidates(how)
        likely = F.log_softmax(self.length_scores(memory), -1).topk(several)  # (B, L)
        apart, most = likely.indices - self.reach, find_room(self.decoder)
        counts = (lengths[:, None] + apart).clamp(1, most).flatten()  # (B L)
        rows = torch.arange(len(lengths), device=lengths.device).repeat_interleave(several)
        ids, logs = self.refine(memory.select(rows), counts, how.passes)
        # The log-probability of the length counts like that of an end token.
        ends = likely.values.flatten()
        values = ((logs.sum(1) + ends) / (counts + 1)).view(-1, several)
        best = values.argmax(1) + several * torch.arange(len(values), device=values.device)
        found = zip(*(one[best].tolist() for one in (ids, logs, ends, counts)), strict=True)
        return [
            Hypothesis(row[:count], sum(some[:count]) + end, [*some[:count], end], True)
            for row, some, end, count in found
        ]

    def refine(self, memory: Memory, counts: Tensor, passes: int) -> tuple[Tensor, Tensor]:
        """Predict all tokens, then in each pass fewer of the least certain again; return the tokens
        and their log-probabilities, each (B, N)
        """
        hidden = inside = inside_of(counts, int(counts.max()))
        ids = torch.full(inside.shape, self.mask, device=counts.device)
        logs = torch.zeros(inside.shape, device=counts.device)
        for number in range(1, passes + 1):
            scores = self.score(ids, counts, memory).float()
            likely = F.log_softmax(forbid_in(scores, self.never()), -1).max(-1)
            ids = torch.where(hidden, likely.indices, ids)
            logs = torch.where(hidden, likely.values, logs)
            again = counts * (passes - number) // passes
            hidden = (rank_in_row(logs.masked_fill(~inside, torch.inf)) < again[:, None]) & inside
            if number < passes:
                ids = ids.masked_fill(hidden, self.mask)
        return ids, logs


def rank_in_row(values: Tensor) -> Tensor:
    """Return each value's rank in its row, the smallest first: [0.3, 0.1] -> [1, 0]"""
    return values.argsort(dim=1, stable=True).argsort(1)
