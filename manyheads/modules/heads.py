"""Heads on an encoder: for masked language modelling and for classification.

B batch, T tokens, D model width, V vocabulary, N outcomes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from manyheads.modules.checks import mean_states, one_a_row
from manyheads.modules.config import Pooling
from manyheads.modules.layers import init_linear, init_normal
from manyheads.modules.transformer import Embedding, SequenceNetwork, Tied, Tokens


class Guess(nn.Module):
    """The masked-LM head: a dense layer, then logits of each word by the tied embedding."""

    def __init__(self, embedding: Embedding, width: int, norm_epsilon: float = 1e-5):
        super().__init__()
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=norm_epsilon)
        self.words = Tied(embedding, bias=True)
        init_linear(self.dense)

    def forward(self, states: Tensor) -> Tensor:
        """(..., D) -> (..., V)"""
        return self.words(self.norm(nn.functional.gelu(self.dense(states))))


class EncoderHead(SequenceNetwork):
    """Classify a text, or each of its tokens.

    Tokens (B, T) -> scores (B, N), or (B, T, N) if `pooling` is None. "first" takes the state of
    the first token through a dense layer, as BERT does; "mean" takes the mean of all states.
    """

    def __init__(
        self,
        encoder: nn.Module,
        width: int,
        outcomes: int,
        *,
        pooling: Pooling | None = "mean",
        dropout: float = 0.1,
    ):
        super().__init__()
        if pooling not in ("first", "mean", None):
            raise ValueError(f"a text is pooled by first or mean, got {pooling!r}")
        self.encoder: Any = encoder
        self.pooling = pooling
        self.pooler = nn.Linear(width, width) if pooling == "first" else None
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(width, outcomes)
        if self.pooler is not None:
            init_linear(self.pooler)
        init_normal(self.head)  # small: the first outputs are near 0

    def forward(self, tokens: Tokens) -> Tensor:
        if self.pooling is not None:
            one_a_row(tokens.seen, "a verdict on the whole")
        states = self.encoder(tokens)
        if self.pooler is not None:
            states = torch.tanh(self.pooler(states[:, 0]))
        elif self.pooling == "mean":
            states = mean_states(states, tokens.seen, tokens.at)
        with torch.autocast(states.device.type, enabled=False):
            # In 16 bits a number has three digits, and the square of a difference has fewer.
            return self.head(self.dropout(states).to(self.head.weight.dtype))
