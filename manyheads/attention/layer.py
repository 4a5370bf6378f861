"""Multi-head attention: combines pattern, position and kernel.

B batch, H heads, G key/value heads, Q queries, K keys, C channels of one head, D model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.biases import Feature
from manyheads.attention.cache import KeyValue, Slot
from manyheads.attention.kernels import Plan, Work
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Pairs
from manyheads.attention.positions import Position, Relative
from manyheads.attention.scores import ScaledDot, Score, check_score

ALL = slice(None)


class JointLinear(nn.Linear):
    """Several linear layers in one matrix; `rows` computes only those rows of the weights."""

    def forward(self, x: Tensor, rows: slice = ALL) -> Tensor:
        if rows == ALL:
            return super().forward(x)
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


class Attention(nn.Module):
    """Multi-head attention: each query is compared with the keys it may see, and returns a weighted
    mean of their values.

    Self-attention without a memory, cross-attention with one. With fewer `key_heads` than `heads`
    it is grouped-query attention: several heads share their keys and values.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_heads: int | None = None,
        relative: Relative | None = None,
        score: Score | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        qk_norm: bool = False,
        value_mix: bool = False,
    ):
        """`qk_norm`: normalize queries and keys of each head (RMS); `value_mix`: add `given_values`
        to each token's value, weighted by two learned numbers.
        """
        super().__init__()
        key_heads = heads if key_heads is None else key_heads
        check_heads(width, heads, key_heads)
        if not isinstance(relative, Relative | None):
            raise ValueError(describe_misplaced(relative, "relative", Position))
        self.width, self.heads, self.key_heads = width, heads, key_heads
        self.channels = width // heads
        self.relative = relative or Relative()
        if reason := self.relative.misfit(heads, self.channels):
            raise ValueError(reason)
        if score is not None:
            check_score(score, self.channels, heads, name="score", where="a head")
        self.score = ScaledDot() if score is None else score
        self.dropout, self.qk_norm = dropout, qk_norm
        self.value_mix = nn.Parameter(torch.full((2,), 0.5)) if value_mix else None
        self.sizes = [width, key_heads * self.channels, key_heads * self.channels]
        # Query, key and value in one product.
        self.inward = JointLinear(width, sum(self.sizes), bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in self.inward.weight.split(self.sizes):
            nn.init.xavier_uniform_(weight)
        nn.init.xavier_uniform_(self.out.weight)
        for linear in (self.inward, self.out):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def work(self, pattern: Pattern, pairs: Pairs, x: Tensor) -> Work:
        """Describe what this layer will ask of a kernel."""
        features: set[Feature] = {*self.score.features}
        if torch.is_grad_enabled():
            features.add("gradient")
        if self.training and self.dropout:
            features.add("dropout")
        if reason := self.relative.refuses(pairs):
            raise ValueError(reason)
        asked, kinds = frozenset(features), self.relative.kinds()
        return Work(pattern, pairs, asked, computed_in(x), self.channels, self.key_heads, kinds)

    def forward(
        self,
        x: Tensor,
        plan: Plan,
        memory: Tensor | None = None,
        slot: Slot | None = None,
        given_values: Tensor | None = None,
    ) -> Tensor:
        """If the layer has a value_mix, `given_values` (B, T, G C) are mixed into the values."""
        at = plan.work.pairs
        if memory is None:
            query, key, value = map(self.split, self.inward(x).split(self.sizes, -1))
            if self.value_mix is not None and given_values is not None:
                own, given = self.value_mix.to(value.dtype)
                value = own * value + given * self.split(given_values).to(value.dtype)
            # Rotated before it goes into the cache: a key's place never changes.
            key = self.relative.rotate(self.one_size(key), at.queries)
            if slot is not None:
                key, value = slot.extend(key, value)
        else:
            read = memory
            remember = lambda: self.remember(read, at)  # noqa: E731
            query = self.split(self.inward(x, slice(0, self.width)))
            key, value = slot.recall(remember) if slot is not None else remember()
        query = self.one_size(query)
        mixed = plan(
            self.relative.rotate(query, at.queries),
            key,
            value,
            score=self.score,
            biases=self.relative.biases(query),
            dropout=self.dropout if self.training else 0.0,
        )
        return self.out(mixed.transpose(1, 2).flatten(2))

    def remember(self, memory: Tensor, at: Pairs) -> KeyValue:
        """Compute keys and values of a memory, once for all the tokens that will attend to it."""
        both = self.inward(memory, slice(self.width, None))
        key, value = map(self.split, both.split(self.sizes[1:], -1))
        return self.relative.rotate(self.one_size(key), at.keys), value

    def one_size(self, x: Tensor) -> Tensor:
        """Normalize queries or keys if `qk_norm`, keeping their dtype also under autocast."""
        return F.rms_norm(x, (self.channels,), eps=1e-6).to(x.dtype) if self.qk_norm else x

    def split(self, x: Tensor) -> Tensor:
        """(B, T, H C) -> (B, H, T, C)"""
        return x.unflatten(2, (x.shape[2] // self.channels, self.channels)).transpose(1, 2)

    def extra_repr(self) -> str:
        shared = "" if self.key_heads == self.heads else f", key_heads={self.key_heads}"
        return f"width={self.width}, heads={self.heads}{shared}, dropout={self.dropout}"


def describe_misplaced(part: object, name: str, other: type) -> str:
    """Say why this value is not the kind of position that the argument takes."""
    if isinstance(part, other):
        where, meant = ("below the first layer", "position")
        if name == "position":
            where, meant = ("in every layer", "relative")
        return f"{type(part).__name__} works {where}: give it as {meant}=, not as {name}="
    if isinstance(part, type):
        return f"{name}= takes a part, {part.__name__} is a class; {part.__name__}(...) is one"
    return f"{name}= takes a part like Rotary() or Sinusoidal(), got {part!r}"


def check_heads(width: int, heads: int, key_heads: int) -> None:
    if min(width, heads) < 1 or width % heads:
        fit = [h for h in range(1, width + 1) if width % h == 0]
        near = sorted(sorted(fit, key=lambda h: abs(h - heads))[:3])
        raise ValueError(
            f"{heads} heads do not divide a width of {width}; "
            f"{', '.join(map(str, near))} heads would"
        )
    if key_heads < 1 or heads % key_heads:
        raise ValueError(
            f"{heads} heads cannot share {key_heads} key heads evenly; "
            f"{', '.join(str(g) for g in range(1, heads + 1) if heads % g == 0)} key heads would do"
        )


def computed_in(x: Tensor) -> torch.dtype:
    """Return the dtype of matrix products of x: autocast's dtype if autocast is on."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
