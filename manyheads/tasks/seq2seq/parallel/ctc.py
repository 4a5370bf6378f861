"""CTC: one pass writes all tokens, and a token repeated in a row counts once.

B batch, S tokens of the source, T = S * upsample states, D model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.patterns import Lengths, Pattern
from manyheads.attention.places import Places, line
from manyheads.codecs.text import SpecialTokens
from manyheads.decoding.bounds import Hypothesis
from manyheads.decoding.config import DecodingConfig
from manyheads.modules.layers import init_fused
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.parallel.config import CTCConfig
from manyheads.tasks.seq2seq.parallel.network import (
    ParallelNetwork,
    forbid_in,
    inside_of,
    split_wanted,
)


class Frames(NamedTuple):
    """The decoder's input states: their places, and how many of each row count."""

    states: Tensor  # (B, T, D)
    at: Places
    seen: Pattern
    lengths: Tensor  # (B)


class CTCNetwork(ParallelNetwork):
    """The padding token serves as the blank: no text contains it."""

    config: CTCConfig

    def __init__(self, config: Any, source: int, target: int, joint: bool, special: SpecialTokens):
        super().__init__(config, source, target, joint, special)
        self.upsample = nn.Linear(config.width, config.upsample * config.width)
        init_fused(self.upsample, config.width)

    def forward(  # type: ignore[override]
        self, source: Tokens, wanted: Tensor, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        # torch's loss needs lengths on the host: copied before the step begins.
        lengths = source.lengths()
        tokens, counts = split_wanted(wanted, self.special.pad)
        on_host = torch.stack([lengths * self.config.upsample, counts]).cpu()
        memory = self.encode(source)
        frames = self.frames(memory, lengths)
        if self.training and self.config.glancing:
            frames = self.glance(frames, memory, tokens, on_host)
        logs = self.log_probs(frames, memory)
        there = (wanted[:, :1] >= 0)[:, 0].float()  # a row may be empty
        losses = self.ctc_losses(logs, tokens, on_host) * there
        terms = {"ctc": losses.sum()}
        if smoothing:
            flat = -logs.mean(-1) * inside_of(frames.lengths, logs.shape[1]) * there[:, None]
            # Weighted per token, as in cross-entropy, not per state.
            share = counts / frames.lengths.clamp(min=1)
            terms["smoothing"] = smoothing * (flat.sum(1) * share).sum()
        return terms

    def frames(self, memory: Memory, lengths: Tensor) -> Frames:
        """Turn each state of the encoder into several."""
        (rows, width, _), times = memory.states.shape, self.config.upsample
        states = self.upsample(memory.states).view(rows, width * times, -1)
        at = line(width * times, device=states.device)
        seen = memory.seen if not memory.seen.parts() else Lengths(lengths * times)
        return Frames(states, at, seen, lengths * times)

    def log_probs(self, frames: Frames, memory: Memory) -> Tensor:
        """(B, T, V), in 32 bits"""
        scores = self.decoder.head(
            self.decoder.stack(frames.states, frames.at, frames.seen, memory)
        )
        return F.log_softmax(scores.float(), -1)

    def ctc_losses(self, logs: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the CTC loss of each row, (B); 0 for a target that is too long for its source."""
        with torch.autocast(logs.device.type, enabled=False):
            return F.ctc_loss(
                logs.transpose(0, 1),
                tokens,
                lengths[0],
                lengths[1],
                blank=self.special.pad,
                reduction="none",
                zero_infinity=True,
            )

    def glance(self, frames: Frames, memory: Memory, tokens: Tensor, lengths: Tensor) -> Frames:
        """Where a first guess is wrong, show some right tokens; none for half of the sentences, at
        random, so that the network also learns to do without.
        """
        with torch.no_grad():
            guessed = self.log_probs(frames, memory)
        right = self.align(guessed, tokens, lengths)  # (B, T)
        inside = inside_of(frames.lengths, right.shape[1])
        wrong = ((guessed.argmax(-1) != right) & inside).sum(1)
        share = self.config.glancing * wrong / frames.lengths.clamp(min=1)
        share = share * (torch.rand(len(share), device=share.device) < 0.5)
        shown = torch.rand(right.shape, device=right.device) < share[:, None]
        words = self.decoder.embedding(right).to(frames.states.dtype)
        return frames._replace(states=torch.where(shown[..., None], words, frames.states))

    def align(self, logs: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the most likely token of each state, given the target: (B, T).

        The gradient of the loss is the model's probabilities minus those given the target.
        """
        with torch.enable_grad():
            given = logs.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.ctc_losses(given, tokens, lengths).sum(), given)
        return (logs.exp() - gradient).argmax(-1)

    def candidates(self, how: DecodingConfig) -> int:
        return self.config.upsample  # as many states as that many sequences

    def write(
        self,
        memory: Memory,
        lengths: Tensor,
        how: DecodingConfig,
        numbers: Sequence[int] | None = None,
    ) -> list[Hypothesis]:
        frames, blank = self.frames(memory, lengths), self.special.pad
        logs = self.log_probs(frames, memory)
        forbid_in(logs, self.never(blank))
        best, ids = logs.max(-1)
        before = F.pad(ids[:, :-1], (1, 0), value=blank)
        inside = inside_of(frames.lengths, ids.shape[1])
        kept = (ids != before) & (ids != blank) & inside
        rows = zip(*(one.cpu() for one in (ids, best, kept, inside)), strict=True)
        return [
            Hypothesis(row[some].tolist(), float(logs[all_].sum()), logs[some].tolist(), True)
            for row, logs, some, all_ in rows
        ]
