"""Build networks from settings."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from torch import nn

from manyheads.attention.evaluate import horizon
from manyheads.attention.notation import read
from manyheads.attention.patterns import Causal, Pattern
from manyheads.attention.positions import Position, Relative
from manyheads.modules.config import (
    NetworkConfig,
    Pooling,
    TransformerConfig,
)
from manyheads.modules.heads import EncoderHead, Guess
from manyheads.modules.layers import SMALL, init_normal
from manyheads.modules.stack import Stack
from manyheads.modules.transformer import (
    Capped,
    Decoder,
    Embedding,
    Encoder,
    EncoderDecoder,
    Tied,
)

# ---- networks of every kind -----------------------------------------------------------------


def build_encoder_decoder(
    network: NetworkConfig, source: int, target: int, joint: bool
) -> EncoderDecoder:
    """Build an encoder-decoder from a source to a target vocabulary; `joint` shares one table."""
    reads = build_embedding(network, source)
    writes = reads if joint else build_embedding(network, target)
    head = build_head(network, writes)
    sides = [replace(network, depth=depth) for depth in network.depths]
    build = find_builder(network)
    return EncoderDecoder(
        build.build_encoder_side(sides[0], reads),
        build.build_decoder_side(sides[1], writes, head, cross=True),
    )


def build_decoder(network: NetworkConfig, vocabulary: int) -> nn.Module:
    """Build a decoder-only (autoregressive) network."""
    table = build_embedding(network, vocabulary)
    head = build_head(network, table)
    return find_builder(network).build_decoder_side(network, table, head, cross=False)


def build_encoder(network: NetworkConfig, vocabulary: int) -> nn.Module:
    """Build a bidirectional encoder, with a state for each token."""
    if getattr(network, "logit_cap", 0):
        raise ValueError(
            "network.logit_cap is for a network that writes; this one only reads: 0 would do"
        )
    return find_builder(network).build_encoder_side(network, build_embedding(network, vocabulary))


def find_builder(network: NetworkConfig) -> Any:
    """Return the Python module with `build_encoder_side` and `build_decoder_side` of this kind."""
    return import_module(network.builder)


def build_masked_lm(network: NetworkConfig, vocabulary: int) -> Encoder:
    """Build an encoder with a masked-LM head."""
    if not isinstance(network, TransformerConfig):
        raise ValueError(
            f"hidden words are guessed by a transformer, not by a {network.kind} network"
        )
    encoder = cast(Encoder, build_encoder(network, vocabulary))
    encoder.head = Guess(cast(Embedding, encoder.embedding), network.width, network.norm_epsilon)
    return encoder


def build_classifier(
    network: NetworkConfig, vocabulary: int, outcomes: int, pooling: Pooling | None = "mean"
) -> EncoderHead:
    """Build an encoder that classifies a text, or each of its tokens if `pooling` is None."""
    return EncoderHead(
        build_encoder(network, vocabulary),
        network.width,
        outcomes,
        pooling=pooling,
        dropout=network.dropout,
    )


def build_embedding(network: NetworkConfig, vocabulary: int) -> Embedding:
    widths: tuple[int, ...] = ()
    if isinstance(network, TransformerConfig):
        channels = network.width // network.heads * (network.key_heads or network.heads)
        widths = (channels,) * network.value_embeddings
    return Embedding(
        vocabulary,
        network.width,
        scaled=network.scale_embeddings,
        types=network.token_types,
        value_widths=widths,
    )


def build_head(network: NetworkConfig, written: Embedding) -> nn.Module:
    head: nn.Module = Tied(written, bias=network.head_bias)
    if not network.tied:
        head = nn.Linear(network.width, written.table.num_embeddings, bias=network.head_bias)
        init = getattr(network, "init", "xavier")
        if init != "xavier":  # with xavier, nn.Linear's own init stays
            init_normal(head, std=0.0 if init == "zero" else SMALL)
    cap = getattr(network, "logit_cap", 0)
    return Capped(head, cap) if cap else head


# ---- transformers ---------------------------------------------------------------------------


def build_encoder_side(network: TransformerConfig, embedding: Embedding) -> Encoder:
    refuse_values(network)
    return Encoder(embedding, build_stack(network, read_patterns(network)))


def build_decoder_side(
    network: TransformerConfig, embedding: Embedding, head: nn.Module, cross: bool
) -> Decoder:
    if cross:
        refuse_values(network)
    return Decoder(embedding, build_stack(network, causal_patterns(network), cross), head)


def refuse_values(network: TransformerConfig) -> None:
    if network.value_embeddings:
        raise ValueError(
            "network.value_embeddings are for a network that writes without reading a source; "
            "0 would do"
        )


def build_stack(network: TransformerConfig, patterns: list[Pattern], cross: bool = False) -> Stack:
    return Stack.of(
        network,
        patterns,
        position=build_position(network),
        relative=build_relative(network),
        cross=cross,
    )


def read_patterns(network: TransformerConfig) -> list[Pattern]:
    """Return the pattern of each layer of an encoder."""
    times = network.one_depth() // len(network.patterns)
    return [read(text) for text in network.patterns] * times


def causal_patterns(network: TransformerConfig) -> list[Pattern]:
    """Return the pattern of each layer of a decoder: the same, and causal."""
    patterns = read_patterns(network)
    return [one if horizon(one) == 0 else Causal() & one for one in patterns]


def build_position(network: TransformerConfig) -> Position | None:
    """Make the position encoding that is added to the embeddings, if there is one."""
    value = network.position_value
    return cast(Position, value.build(network)) if value and not value.in_layers else None


def build_relative(network: TransformerConfig) -> Relative | None:
    """Make the position encoding of every layer, if there is one."""
    value = network.relative_value or network.position_value
    return cast(Relative, value.build(network)) if value and value.in_layers else None
