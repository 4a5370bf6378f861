"""A decoder over the rows, columns and channels of an image.

B images, N tokens, T of them, F tokens that are read for one, P values of a token, D width.
"""

from __future__ import annotations

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
from manyheads.modules.transformer import Decoder, Tokens
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
        self.classes = nn.Embedding(len(codec.classes), width) if codec.classes else None
        for table in (*self.tables, *([] if self.classes is None else [self.classes])):
            init_table(table)
        if self.near is not None and self.mix is not None:
            init_normal(self.near, std=self.near.in_features**-0.5)
            init_normal(self.mix)

    def forward(self, ids: Tensor, classes: Tensor | None = None) -> Tensor:
        """ids (B, T, F), the last one first, and classes (B, 1) -> (B, T, D)"""
        values = self.codec.split(ids)  # (B, T, F, P)
        x = sum(table(values[:, :, 0, part]) for part, table in enumerate(self.tables))
        if self.near is not None and self.mix is not None:
            there = (ids[:, :, 1:] != self.codec.start)[..., None].to(x.dtype)
            bright = values[:, :, 1:] * (2 / (self.codec.levels - 1)) - 1
            seen = torch.cat([bright * there, there], -1).flatten(2)
            x = x + self.mix(nn.functional.gelu(self.near(seen)))
        if self.classes is None:
            return x
        if classes is None:
            raise ValueError("a network that knows classes draws one of them, and none came")
        return x + self.classes(classes)


class ImageDecoder(Decoder):
    """Tokens (B, T) -> what its head says of each, (B, T, O): its `likelihood` reads that.

    A row of what is read may be a number, of which those near it are looked up among the others,
    or all that is read for it, (B, T, F), where a step knows only what is new.
    """

    nearby: Tensor

    def __init__(
        self,
        embedding: PixelEmbedding,
        stack: Stack,
        head: nn.Module,
        likelihood: Likelihood,
        nearby: Tensor,
    ):
        super().__init__(embedding, stack, head)
        self.likelihood = likelihood
        self.register_buffer("nearby", nearby, persistent=False)

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

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, cache: Cache | None = None
    ) -> Tensor:
        states = self.states(tokens.ids, tokens.at, tokens.seen, tokens.types, memory, cache)
        return self.say(states)

    def say(self, states: Tensor) -> Tensor:
        """What the head says, in 32 bits: the logarithm of a small probability has many digits."""
        with torch.autocast(states.device.type, enabled=False):
            said: Tensor = self.head(states.float())
        return said


def build_image_network(network: ImageTransformerConfig, codec: PixelCodec) -> ImageDecoder:
    near = codec.nearby(network.neighbours)
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
    embedding = PixelEmbedding(codec, network.width, near.shape[1] - 1)
    return ImageDecoder(embedding, stack, head, likelihood, near)


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
