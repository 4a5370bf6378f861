"""A decoder over the rows, columns and channels of an image.

B images, N tokens, T of them, F tokens that are read for one, P values of a token, D width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from manyheads.attention.cache import Cache
from manyheads.attention.patterns import Everything, Pattern
from manyheads.attention.places import Places
from manyheads.attention.positions import Learned, Position
from manyheads.attention.relatives import Relative, RelativeBias
from manyheads.attention.rules import Every
from manyheads.modules.build import build_position, build_relative, causal_patterns
from manyheads.modules.init import init_normal, init_table
from manyheads.modules.positions import RelativeBiasValue, RelativeContentValue
from manyheads.modules.stack import Memory, Stack
from manyheads.modules.transformer import Decoder, Encoder, Tokens
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.likelihood import Categorical, Likelihood, LogisticMixture
from manyheads.tasks.image.settings import ImageTransformerConfig, LearnedAxesValue


class PixelEmbedding(nn.Module):
    """What was drawn last, each value by a vector of its own; and what is near, by how bright it
    is and whether it is there.
    """

    def __init__(self, codec: PixelCodec, width: int, near: int):
        super().__init__()
        self.codec, parts = codec, codec.parts
        self.tables = nn.ModuleList(nn.Embedding(codec.levels + 1, width) for _ in range(parts))
        self.near = nn.Linear(near * (parts + 1), width) if near else None
        self.mix = nn.Linear(width, width) if near else None
        for table in self.tables:
            init_table(cast(nn.Embedding, table))
        if self.near is not None and self.mix is not None:
            init_normal(self.near, std=self.near.in_features**-0.5)
            init_normal(self.mix)

    def forward(self, ids: Tensor, condition: Tensor | None = None) -> Tensor:
        """ids (B, T, F), the last one first; what is to be drawn, (B, 1 or T, D) -> (B, T, D)"""
        ids = ids if ids.dim() == 3 else ids[..., None]
        values = self.codec.split(ids)  # (B, T, F, P)
        x = sum(table(values[:, :, 0, part]) for part, table in enumerate(self.tables))
        if self.near is not None and self.mix is not None:
            there = (ids[:, :, 1:] != self.codec.start)[..., None].to(x.dtype)
            bright = values[:, :, 1:] * (2 / (self.codec.levels - 1)) - 1
            seen = torch.cat([bright * there, there], -1).flatten(2)
            x = x + self.mix(nn.functional.gelu(self.near(seen)))
        return x if condition is None else x + condition


class ImageDecoder(Decoder):
    """Tokens (B, T) -> what its head says of each, (B, T, O): its `likelihood` reads that.

    A row of what is read may be a number, of which those near it are looked up among the others,
    or all that is read for it, (B, T, F), where a step knows only what is new.
    """

    nearby: Tensor
    below: Tensor

    def __init__(
        self,
        embedding: PixelEmbedding,
        stack: Stack,
        head: nn.Module,
        likelihood: Likelihood,
        nearby: Tensor,
        below: Tensor,
        *,
        classes: int = 0,
        encoder: Encoder | None = None,
    ):
        """`below` says of each token (N,) which pixel of the small image it lies in."""
        super().__init__(embedding, stack, head)
        self.likelihood, self.encoder = likelihood, encoder
        self.classes = nn.Embedding(classes, stack.width) if classes else None
        if self.classes is not None:
            init_table(self.classes)
        self.register_buffer("nearby", nearby, persistent=False)
        self.register_buffer("below", below, persistent=False)

    def condition(self, classes: Tensor | None, small: Tokens | None) -> Tensor | None:
        """What is to be drawn: classes (B, 1) and a small image -> (B, 1 or N, D), to be added."""
        parts = []
        if self.classes is not None:
            if classes is None:
                raise ValueError("a network that knows classes draws one of them, and none came")
            parts.append(self.classes(classes))
        if self.encoder is not None:
            if small is None:
                raise ValueError("a network that enlarges images needs a small one, and none came")
            parts.append(self.encoder(small)[:, self.below])
        return sum(parts[1:], start=parts[0]) if parts else None

    def states(
        self,
        ids: Tensor,
        at: Places,
        seen: Pattern = Everything(),
        types: Tensor | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        if ids.dim() == 2:
            ids = ids[:, self.nearby[: ids.shape[1]]]
        return super().states(ids, at, seen, types, memory, cache)

    def forward(self, *inputs: Any) -> Tensor:
        """Of images with their classes as types; behind the small ones they are made from."""
        *small, tokens = inputs
        condition = self.condition(tokens.types, next(iter(small), None))
        return self.say(self.states(tokens.ids, tokens.at, tokens.seen, condition))

    def say(self, states: Tensor) -> Tensor:
        """What the head says, in 32 bits: the logarithm of a small probability has many digits."""
        with torch.autocast(states.device.type, enabled=False):
            said: Tensor = self.head(states.float())
        return said


def build_image_network(network: ImageTransformerConfig, codec: PixelCodec) -> ImageDecoder:
    near = codec.nearby(network.neighbours)
    network = replace(network, depth=network.depths[1])
    stack = Stack.of(
        network,
        causal_patterns(network),
        position=build_below(network, codec),
        relative=build_between(network, codec),
    )
    likelihood = build_likelihood(network, codec)
    head = nn.Linear(network.width, likelihood.outputs)
    init_normal(head)
    with torch.no_grad():
        head.bias.copy_(likelihood.first_outputs())
    return ImageDecoder(
        PixelEmbedding(codec, network.width, near.shape[1] - 1),
        stack,
        head,
        likelihood,
        near,
        codec.below(),
        classes=len(codec.classes),
        encoder=build_small_encoder(network, codec.small_codec) if codec.small else None,
    )


def build_small_encoder(network: ImageTransformerConfig, small: PixelCodec) -> Encoder:
    """All pixels of a small image see each other."""
    depth, _ = network.depths
    config = replace(network, depth=depth, pattern="Everything()")
    position, relative = build_below(config, small), build_between(config, small)
    stack = Stack.of(config, Everything(), position=position, relative=relative)
    return Encoder(PixelEmbedding(small, network.width, 0), stack)


def build_likelihood(network: ImageTransformerConfig, codec: PixelCodec) -> Likelihood:
    if network.head == "mixture":
        return LogisticMixture(codec.levels, codec.parts, network.mixtures)
    return Categorical(codec.levels)


def build_below(network: ImageTransformerConfig, codec: PixelCodec) -> Position | None:
    """How rows, columns and channels enter below the first layer."""
    if isinstance(network.position_value, LearnedAxesValue):
        return Learned(network.width, *codec.places.sizes)
    return build_position(network)


def build_between(network: ImageTransformerConfig, codec: PixelCodec) -> Relative | None:
    """How far two pixels are apart, on each axis, in every layer."""
    value, sizes = network.relative_value or network.position_value, codec.places.sizes
    if isinstance(value, RelativeContentValue):
        return value.build(network, len(sizes), max(sizes))
    if isinstance(value, RelativeBiasValue):
        return RelativeBias(network.heads, Every(max(sizes)), len(sizes))
    return build_relative(network)
