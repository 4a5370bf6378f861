"""Scores: how well a key matches a query.

The default is the scaled dot product. Dot, multiplicative (Luong) and additive (Bahdanau) are the
scores of recurrent models; the first two are dot products of other vectors, so every kernel can
compute them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.biases import Feature


class Score(nn.Module):
    """The base class: prepare the query, scale the dot product. This one scales by 1/sqrt(C).

    With a `forward` of its own a score need not be a product; the reference kernel computes it.
    """

    features: frozenset[Feature] = frozenset()

    def __init_subclass__(cls) -> None:
        # With a definition of its own it is not what kernels compute from `query` and `scale`.
        if cls.forward is not Score.forward and not cls.features and "features" not in vars(cls):
            cls.features = frozenset({"score other than a product"})

    def query(self, query: Tensor) -> Tensor:
        return query

    def scale(self, channels: int) -> float:
        return 1 / math.sqrt(channels)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """The definition of the score: (B, H, Q, C), (B, H, K, C) -> (B, H, Q, K)."""
        return self.query(query) @ key.mT * self.scale(key.shape[-1])


class ScaledDot(Score):
    """query . key / sqrt(channels)"""


class Dot(Score):
    """query . key"""

    def scale(self, channels: int) -> float:
        return 1.0


class Multiplicative(Score):
    """query W key, with a learned W: queries and keys may differ in width."""

    def __init__(self, query_channels: int, key_channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_channels, key_channels))
        nn.init.xavier_uniform_(self.weight)

    def query(self, query: Tensor) -> Tensor:
        return query @ self.weight

    def scale(self, channels: int) -> float:
        return 1.0


class Additive(Score):
    """v . tanh(W query + U key): not a dot product, so only the reference kernel computes it."""

    def __init__(self, query_channels: int, key_channels: int, hidden: int):
        super().__init__()
        self.query_to_hidden = nn.Linear(query_channels, hidden, bias=False)
        self.key_to_hidden = nn.Linear(key_channels, hidden)
        self.hidden_to_score = nn.Linear(hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        hidden = (
            self.query_to_hidden(query)[..., :, None, :] + self.key_to_hidden(key)[..., None, :, :]
        )
        return self.hidden_to_score(torch.tanh(hidden))[..., 0]


# The score between states of a width, by its name in a recipe; "none" means no attention.
SCORES: dict[str, Callable[[int], Score | None]] = {
    "dot": lambda width: Dot(),
    "multiplicative": lambda width: Multiplicative(width, width),
    "additive": lambda width: Additive(width, width, width),
    "none": lambda width: None,
}


def build_score(name: str, width: int) -> Score | None:
    if name not in SCORES:
        raise ValueError(f"there is no score {name!r}; there are {', '.join(SCORES)}")
    return SCORES[name](width)


def check_score(score: Any, width: int, heads: int = 1, *, name: str, where: str) -> None:
    """Refuse a value that is no score between two vectors of this width, given as `name`."""
    if not isinstance(score, Score):
        makes = ""
        if isinstance(score, str) and score in SCORES:
            makes = f"; build_score({score!r}, width) makes one"
        if isinstance(score, type) and issubclass(score, Score):
            makes = f"; {score.__name__}(...) is one"
        raise ValueError(f"{name}= takes a score like Dot(), or None, got {score!r}{makes}")
    like = next(score.parameters(), torch.zeros(()))
    try:
        with torch.no_grad():
            scores = score(like.new_zeros(1, heads, 2, width), like.new_zeros(1, heads, 3, width))
    except RuntimeError as error:
        raise ValueError(
            f"{type(score).__name__} compares other widths than the {width} of {where}: {error}"
        ) from error
    if scores.shape != (1, heads, 2, 3):
        raise ValueError(
            f"{type(score).__name__} gives {tuple(scores.shape)} for 2 queries and 3 keys; "
            f"a score is (B, H, Q, K), here (1, {heads}, 2, 3)"
        )
