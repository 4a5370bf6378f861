"""From a few settings to a network: the architectures, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import nn

from manyheads.attention.patterns import Causal, Everything, Pattern, Window
from manyheads.attention.positions import Concatenated, Learned, Position, Sinusoidal
from manyheads.attention.relatives import Relative, RelativeBias, RelativeContent, Rotary
from manyheads.attention.rules import Bucketed, Clipped, Every
from manyheads.modules.config import Network, Pooling
from manyheads.modules.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from manyheads.modules.heads import EncoderHead, Guess
from manyheads.modules.recurrent import (
    SCORES,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentWriter,
)
from manyheads.modules.stack import Shape, Stack
from manyheads.modules.transformer import Decoder, Embedding, Encoder, EncoderDecoder, Tied


def encoder_decoder(network: Network, source: int, target: int, joint: bool) -> EncoderDecoder:
    """A network that reads one vocabulary and writes another, or the same where they are joint."""
    reading = words(network, source)
    writing = reading if joint else words(network, target)
    return BUILDERS[network.kind](network, reading, writing, scores(network, writing))


def words(network: Network, vocabulary: int) -> Embedding:
    return Embedding(vocabulary, network.width, scaled=network.scaled, types=network.types)


def scores(network: Network, written: Embedding) -> nn.Module:
    if network.tied:
        return Tied(written, bias=network.head_bias)
    return nn.Linear(network.width, written.table.num_embeddings, bias=network.head_bias)


# ---- one side alone: language, understanding -------------------------------------------------


def decoder(network: Network, vocabulary: int) -> nn.Module:
    """A network that writes on from what it has written."""
    table = words(network, vocabulary)
    head = scores(network, table)
    if network.kind == "recurrent":
        return RecurrentWriter(
            table,
            head,
            network.width,
            network.depth,
            cell=network.cell,
            dropout=network.dropout,
        )
    if network.kind == "convolutional":
        raise ValueError(
            "a convolutional network writes from a source and has none here; "
            "transformer or recurrent would do"
        )
    return Decoder(table, stack(network, written(network)), head)


def encoder(network: Network, vocabulary: int) -> nn.Module:
    """A network that sees both ways: a state for each token."""
    table = words(network, vocabulary)
    if network.kind == "recurrent":
        return RecurrentEncoder(
            table, network.width, network.depth, cell=network.cell, dropout=network.dropout
        )
    if network.kind == "convolutional":
        dilations = network.dilations or (1,) * network.depth
        return ConvolutionalEncoder(
            table, network.width, dilations, position=Sinusoidal(), dropout=network.dropout
        )
    return Encoder(table, stack(network, seen(network)))


def guesser(network: Network, vocabulary: int) -> Encoder:
    """An encoder that guesses hidden words."""
    read = encoder(network, vocabulary)
    if not isinstance(read, Encoder):
        raise ValueError(
            f"hidden words are guessed by a transformer, not by a {network.kind} network"
        )
    read.head = Guess(cast(Embedding, read.embedding), network.width, network.norm_epsilon)
    return read


def reader(
    network: Network, vocabulary: int, outcomes: int, pooling: Pooling | None = "mean"
) -> EncoderHead:
    """An encoder that judges a text, or each token of it where nothing is pooled."""
    return EncoderHead(
        encoder(network, vocabulary),
        network.width,
        outcomes,
        pooling=pooling,
        dropout=network.dropout,
    )


def shape_of(network: Network) -> Shape:
    return Shape(
        width=network.width,
        depth=network.depth,
        heads=network.heads,
        key_heads=network.key_heads,
        inner=network.inner,
        feed_forward=network.feed_forward,
        norm=network.norm,
        norm_epsilon=network.norm_epsilon,
        embedding_norm=network.embedding_norm,
        bias=network.bias,
        order=network.order,
        residual=network.residual,
        dropout=network.dropout,
        attention_dropout=network.attention_dropout,
    )


def stack(network: Network, pattern: Pattern, cross: bool = False) -> Stack:
    return Stack.of(
        shape_of(network), pattern, position=below(network), relative=within(network), cross=cross
    )


# ---- both sides: translation, summaries, answers ---------------------------------------------


def transformer(
    network: Network, reading: Embedding, writing: Embedding, head: nn.Module
) -> EncoderDecoder:
    read = stack(network, seen(network))
    write = stack(network, written(network), cross=True)
    return EncoderDecoder(Encoder(reading, read), Decoder(writing, write, head))


def seen(network: Network) -> Pattern:
    """What a token that is read sees: all others, or those near it."""
    return Window(network.window - 1) if network.window else Everything()


def written(network: Network) -> Pattern:
    """What a token that is written sees of the others."""
    return Causal() & seen(network) if network.window else Causal()


def below(network: Network) -> Position | None:
    """How place enters below the first layer."""
    if network.position == "concatenated":
        return Concatenated(Sinusoidal(network.longest_wave), network.width, network.width)
    if network.position == "learned":
        return Learned(network.width, network.longest)
    return Sinusoidal(network.longest_wave) if network.position == "sinusoidal" else None


def within(network: Network) -> Relative | None:
    """How place enters in every layer."""
    if network.relative == "score":
        raise ValueError(
            "relative: score measures steps and pitches, which only music has; "
            "relative: content would do"
        )
    kind = network.position if network.relative == "none" else network.relative
    return RELATIVES[kind](network) if kind in RELATIVES else None


def content(network: Network, axes: int = 1, longest: int = 0) -> Relative:
    """Few distances for all heads (Shaw), or every one for each head (Music Transformer)."""
    channels = network.width // network.heads
    if network.reach:
        return RelativeContent(channels, Clipped(network.reach), axes=axes)
    every = Every(max(network.longest, longest))
    return RelativeContent(channels, every, heads=network.heads, axes=axes)


RELATIVES: dict[str, Callable[[Network], Relative]] = {
    "rotary": lambda network: Rotary(network.longest_wave),
    "bias": lambda network: RelativeBias(network.heads, Bucketed()),
    "content": content,
}


def recurrent(
    network: Network, reading: Embedding, writing: Embedding, head: nn.Module
) -> EncoderDecoder:
    shape: Any = {
        "width": network.width,
        "depth": network.depth,
        "cell": network.cell,
        "dropout": network.dropout,
    }
    return EncoderDecoder(
        RecurrentEncoder(reading, **shape),
        RecurrentDecoder(writing, head, **shape, attention=SCORES[network.score](network.width)),
    )


def convolutional(
    network: Network, reading: Embedding, writing: Embedding, head: nn.Module
) -> EncoderDecoder:
    shape: Any = {
        "width": network.width,
        "dilations": network.dilations or (1,) * network.depth,
        "dropout": network.dropout,
    }
    return EncoderDecoder(
        ConvolutionalEncoder(reading, **shape, position=Sinusoidal()),
        ConvolutionalDecoder(writing, head, **shape, position=Sinusoidal()),
    )


BUILDERS = {
    "transformer": transformer,
    "recurrent": recurrent,
    "convolutional": convolutional,
}
