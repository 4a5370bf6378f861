"""Networks over the rows, columns and channels of an image.

B images, N tokens, T of these, F tokens read for each token, P values of a token, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from manyheads.attention.cache import Ring
from manyheads.attention.kernels.flex import block_truth
from manyheads.attention.patterns import Everything, Pattern
from manyheads.attention.places import Grid, Pairs, Places
from manyheads.attention.positions import Learned, Position, Relative, RelativeBias
from manyheads.attention.rules import Every
from manyheads.modules.build import build_position, build_relative, causal_patterns
from manyheads.modules.convolutional import HALF, Gated, Recent
from manyheads.modules.layers import init_normal, init_table
from manyheads.modules.positions import RelativeBiasValue, RelativeContentValue
from manyheads.modules.recurrent import RecurrentWriter
from manyheads.modules.stack import Stack
from manyheads.modules.transformer import Decoder, Encoder, SequenceNetwork, Tokens
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.likelihood import Categorical, Likelihood, LogisticMixture
from manyheads.tasks.image.settings import (
    ImageConvolutionalConfig,
    ImageNetworkConfig,
    ImageRecurrentConfig,
    ImageTransformerConfig,
    LearnedAxesValue,
)

SPAN = 3  # tokens that a convolution reads
STEP = 16  # tokens that are tested together: a finer test would cost more than it saves


class PixelEmbedding(nn.Module):
    """Embeds the last token, with a vector for each of its values, and the tokens near it, by their
    brightness and by whether they are drawn.

    In super-resolution, also the mean that the rest of a block must have, so that the block becomes
    the small pixel.
    """

    def __init__(self, codec: PixelCodec, width: int, near: int, block: int = 0):
        super().__init__()
        self.codec, self.width, self.block, parts = codec, width, block, codec.parts
        self.rest = nn.Linear(parts, width) if block else None
        self.tables = nn.ModuleList(nn.Embedding(codec.levels + 1, width) for _ in range(parts))
        self.near = nn.Linear(near * (parts + 1), width) if near else None
        self.mix = nn.Linear(width, width) if near else None
        for table in self.tables:
            init_table(cast(nn.Embedding, table))
        if self.near is not None and self.mix is not None:
            init_normal(self.near, std=self.near.in_features**-0.5)
            init_normal(self.mix)

    def forward(self, ids: Tensor, condition: Tensor | None = None) -> Tensor:
        """ids (B, T, F), the last token first, then those near, then those of the block; and a
        condition (B, 1 or T, D), in super-resolution with small values (B, T, D + P) -> (B, T, D)
        """
        ids = ids if ids.dim() == 3 else ids[..., None]
        values = self.codec.split(ids)  # (B, T, F, P)
        x = sum(table(values[:, :, 0, part]) for part, table in enumerate(self.tables))
        if self.near is not None and self.mix is not None:
            end = ids.shape[2] - self.block
            seen = torch.cat(self.see(ids[:, :, 1:end], values[:, :, 1:end]), -1).flatten(2)
            x = x + self.mix(nn.functional.gelu(self.near(seen.to(x.dtype))))
        if condition is None:
            return x
        if self.rest is not None:
            small = condition[..., self.width :].float()
            bright, there = self.see(ids[:, :, -self.block :], values[:, :, -self.block :])
            # The mean of what is not drawn: (sum of the block - sum of what is drawn) / their count
            left = self.block + 1 - there.sum(2)
            rest = ((self.block + 1) * small - bright.sum(2)) / left
            x = x + self.rest(rest.to(x.dtype))
        return x + condition[..., : self.width]

    def see(self, ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the brightness of tokens (B, T, F, P), 0 if not drawn, and whether they are."""
        there = (ids != self.codec.start)[..., None].float()
        return self.codec.scale(values) * there, there


class CausalConvolutions(SequenceNetwork):
    """Gated causal convolutions, as in PixelCNN; with a dilation of a row, a token also sees the
    one above it. Tokens (B, T, F) -> states (B, T, D).
    """

    causal = True

    def __init__(self, embedding: nn.Module, width: int, dilations: Sequence[int], dropout: float):
        super().__init__()
        self.embedding, self.dropout = embedding, nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Gated(width, SPAN, step, dropout) for step in dilations)

    def new_cache(self) -> Recent:
        return Recent()

    def forward(self, tokens: Tokens, memory: None = None, cache: Recent | None = None) -> Tensor:
        x = self.dropout(self.embedding(tokens.ids, tokens.types))
        if cache is not None:
            cache.resume(tokens, len(x))
        for i, block in enumerate(cast(list[Gated], self.blocks)):
            if cache is None:
                before = x.new_zeros(len(x), block.reach, x.shape[2])
            else:
                before = cache.before(i, x, block.reach)
            x = (x + block(self.dropout(torch.cat([before, x], 1)).mT).mT) * HALF
        if cache is not None:
            cache.first, cache.read = cache.read, cache.read + x.shape[1]
        return x


class PixelNetwork(SequenceNetwork):
    """Tokens (B, T) -> outputs of the head for each, (B, T, O), for its `likelihood`.

    The input is (B, T), where the tokens near each one are looked up among the others; or
    (B, T, F) with the near tokens included, for a decoding step that gets only new tokens.
    """

    nearby: Tensor
    below: Tensor
    channels: Tensor
    causal = True

    def __init__(
        self,
        writer: SequenceNetwork,
        head: nn.Module,
        likelihood: Likelihood,
        codec: PixelCodec,
        nearby: Tensor,
        encoder: Encoder | None = None,
    ):
        """`writer` turns tokens into states, and has a cache; `encoder` reads small images."""
        super().__init__()
        self.writer: Any = writer
        self.head, self.likelihood, self.encoder = head, likelihood, encoder
        width = cast(nn.Linear, head).in_features
        self.classes = nn.Embedding(len(codec.classes), width) if codec.classes else None
        if self.classes is not None:
            init_table(self.classes)
        # Not saved with the weights: the codec gives it.
        self.register_buffer("nearby", nearby, persistent=False)
        self.register_buffer("below", codec.find_below(), persistent=False)
        self.register_buffer("channels", codec.find_channels(), persistent=False)
        self.codec = codec

    def condition(self, classes: Tensor | None, small: Tokens | None) -> Tensor | None:
        """Classes (B, 1) and a small image -> a condition (B, 1 or N, D) to add to embeddings; in
        super-resolution with the small values of each token behind it, (B, N, D + P).
        """
        parts = []
        if self.classes is not None:
            if classes is None:
                raise ValueError("a network that knows classes draws one of them, and none came")
            parts.append(self.classes(classes))
        if self.encoder is not None:
            if small is None:
                raise ValueError("a network that enlarges images needs a small one, and none came")
            parts.append(self.encoder(small)[:, self.below])
        if not parts:
            return None
        whole = sum(parts[1:], start=parts[0])
        if small is None or self.encoder is None:
            return whole
        values = self.codec.small_codec.split(small.ids)[:, self.below]  # (B, N, channels)
        if not self.codec.whole:
            values = values.gather(2, self.channels.expand(len(values), -1)[..., None])
        return torch.cat([whole, self.codec.scale(values).to(whole.dtype)], -1)

    def states(
        self, ids: Tensor, at: Places, condition: Tensor | None = None, cache: Any = None
    ) -> Tensor:
        if ids.dim() == 2:
            ids = ids[:, self.nearby[: ids.shape[1]]]
        states: Tensor = self.writer(Tokens(ids, at, types=condition), None, cache)
        return states

    def forward(self, *inputs: Any) -> Tensor:
        """The input is tokens, with classes as types; in super-resolution, small images first."""
        *small, tokens = inputs
        condition = self.condition(tokens.types, next(iter(small), None))
        return self.say(self.states(tokens.ids, tokens.at, condition))

    def say(self, states: Tensor) -> Tensor:
        """Return the outputs of the head in the type of its weights, also under autocast: logs of
        small probabilities need precision.
        """
        with torch.autocast(states.device.type, enabled=False):
            said: Tensor = self.head(states.to(next(self.head.parameters()).dtype))
        return said

    def new_cache(self) -> Any:
        return self.writer.new_cache()

    def make_ring(self, places: Grid) -> Ring | None:
        """Return a cache of the tokens that can still be seen; None if all of them can."""
        if not isinstance(self.writer, Decoder):
            return None
        stack = self.writer.stack
        slots = max(count_visible(pattern, places, stack.heads) for pattern in {*stack.patterns})
        return Ring(places, slots) if slots < len(places) else None


def count_visible(pattern: Pattern, places: Grid, heads: int) -> int:
    """Return how many tokens back any token looks, itself included: `Blocks(8, 8)` -> 16"""
    pairs = Pairs(1, heads, places, places)
    some = block_truth(pattern, pairs, STEP).some.flatten(0, 1).any(0)  # (N / STEP, N / STEP)
    first = some.int().argmax(1)
    reach = (torch.arange(len(first), device=first.device) - first + 1) * STEP
    return min(int(reach.max()), len(places))


# ---- from settings to a network ----------------------------------------------------------------


def build_image_network(network: ImageNetworkConfig, codec: PixelCodec) -> PixelNetwork:
    near, block = codec.find_nearby(network.neighbours), 0
    nearby = near
    if codec.small:
        others = codec.find_block()
        nearby, block = torch.cat([near, others], 1), others.shape[1]
    likelihood = build_likelihood(network, codec)
    head = nn.Linear(network.width, likelihood.outputs)
    init_normal(head)
    with torch.no_grad():
        head.bias.copy_(likelihood.first_outputs())
    embedding = PixelEmbedding(codec, network.width, near.shape[1] - 1, block)
    writer, encoder = build_writer(network, codec, embedding), None
    if codec.small:
        encoder = build_small_encoder(cast(ImageTransformerConfig, network), codec.small_codec)
    return PixelNetwork(writer, head, likelihood, codec, nearby, encoder)


def build_writer(
    network: ImageNetworkConfig, codec: PixelCodec, embedding: PixelEmbedding
) -> SequenceNetwork:
    depth = network.depths[1]
    if isinstance(network, ImageRecurrentConfig):
        measures: Any = {"cell": network.cell, "dropout": network.dropout}
        return RecurrentWriter(embedding, nn.Identity(), network.width, depth, **measures)
    if isinstance(network, ImageConvolutionalConfig):
        row = codec.columns * codec.places.sizes[2] if codec.places.sizes[2:] else codec.columns
        dilations = network.dilations or [(1, row)[i % 2] for i in range(depth)]
        return CausalConvolutions(embedding, network.width, dilations, network.dropout)
    config = replace(network, depth=depth)
    return Decoder(embedding, build_layers(config, codec, causal_patterns(config)), nn.Identity())


def build_small_encoder(network: ImageTransformerConfig, small: PixelCodec) -> Encoder:
    """Build the encoder of small images, whose pixels all attend to each other."""
    depth, _ = network.depths
    config = replace(network, depth=depth, pattern="Everything()")
    layers = build_layers(config, small, Everything())
    return Encoder(PixelEmbedding(small, network.width, 0), layers)


def build_layers(network: ImageTransformerConfig, codec: PixelCodec, patterns: Any) -> Stack:
    position, relative = build_below(network, codec), build_between(network, codec)
    return Stack.of(network, patterns, position=position, relative=relative)


def build_likelihood(network: ImageNetworkConfig, codec: PixelCodec) -> Likelihood:
    if network.head == "mixture":
        return LogisticMixture(codec.levels, codec.parts, network.mixtures)
    return Categorical(codec.levels)


def build_below(network: ImageTransformerConfig, codec: PixelCodec) -> Position | None:
    """Build the absolute position, which is added below the first layer."""
    if isinstance(network.position_value, LearnedAxesValue):
        return Learned(network.width, *codec.places.sizes)
    return build_position(network)


def build_between(network: ImageTransformerConfig, codec: PixelCodec) -> Relative | None:
    """Build the relative position: the distance of two pixels on each axis, in every layer."""
    value, sizes = network.relative_value or network.position_value, codec.places.sizes
    if isinstance(value, RelativeContentValue):
        return value.build(network, len(sizes), max(sizes))
    if isinstance(value, RelativeBiasValue):
        return RelativeBias(network.heads, Every(max(sizes)), len(sizes))
    return build_relative(network)
