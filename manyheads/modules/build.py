"""From a few settings to a network: the architectures, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import nn

from manyheads.attention.patterns import Causal, Everything, Pattern, Window
from manyheads.attention.positions import Concatenated, Learned, Position, Sinusoidal
from manyheads.attention.relatives import Relative, RelativeBias, RelativeContent, Rotary
from manyheads.attention.rules import Bucketed, Clipped, Every
from manyheads.config.declare import check, setting
from manyheads.modules.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from manyheads.modules.heads import EncoderHead, Guess, Pooling
from manyheads.modules.layers import NormOrder
from manyheads.modules.recurrent import (
    SCORES,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentWriter,
)
from manyheads.modules.stack import Shape, Stack
from manyheads.modules.transformer import Decoder, Embedding, Encoder, EncoderDecoder, Tied

Place = Literal["sinusoidal", "learned", "concatenated", "rotary", "bias", "content", "none"]
Within = Literal["none", "rotary", "bias", "content", "score"]


@dataclass(frozen=True)
class Network:
    """What a network is made of; each kind reads the settings that are its own."""

    kind: Literal["transformer", "recurrent", "convolutional"] = setting(
        "transformer", "What it is made of."
    )
    width: int = setting(
        256, "Numbers that a token is on its way through the network.", least=1, most=2**17
    )
    depth: int = setting(4, "Layers, of the encoder and of the decoder each.", least=1, most=1000)
    dropout: float = setting(
        0.3, "Share of the numbers that are left out while it learns.", least=0, below=1
    )
    tied: bool = setting(True, "The table that reads words also scores them.")
    head_bias: bool = setting(False, "A number for each word beside its score.")
    scaled: bool = setting(True, "Words are multiplied by the root of the width.")
    types: int = setting(
        0,
        "Parts of a text that are told apart, as a question and what it is asked of.",
        least=0,
        most=2**16,
    )

    heads: int = setting(
        4, "Heads of an attention layer; they divide the width.", least=1, most=2**12
    )
    key_heads: int | None = setting(
        None,
        "Heads of keys and values, shared by groups of heads; null: each has its own.",
        least=1,
        most=2**12,
    )
    inner: int = setting(1024, "Width of the feed-forward layers.", least=1, most=2**20)
    feed_forward: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu"] = setting(
        "relu", "What bends in the feed-forward layers; the last two are gates."
    )
    bias: bool = setting(
        True, "A bias beside the weights of attention, feed-forward layers and norms."
    )
    norm: Literal["layer", "rms"] = setting("layer", "With a mean (layer) or without (rms).")
    norm_epsilon: float = setting(1e-5, "What a norm adds before it divides.", above=0)
    embedding_norm: bool = setting(False, "One more norm, below the first layer.")
    order: NormOrder = setting("pre", "Norms before each part of a layer, or after it.")
    residual: bool = setting(True, "What enters a part of a layer is added to what it makes.")
    attention_dropout: float = setting(
        0.0, "Share of the attention weights that are left out while it learns.", least=0, below=1
    )
    position: Place = setting(
        "sinusoidal",
        "How places enter: added to the words, or (rotary, bias, content) in every layer, alone.",
    )
    relative: Within = setting(
        "none",
        "What enters in every layer beside what enters below the first; score is the content of "
        "distances in time, in steps and in pitch, for music.",
    )
    reach: int = setting(
        16,
        "Distances that content tells apart, each way; 0: all of `longest`, for each head.",
        least=0,
        most=2**20,
    )
    longest: int = setting(1024, "Places that a learned position knows.", least=1, most=2**24)
    longest_wave: float = setting(
        10_000.0, "The slowest wave of sinusoidal and rotary positions.", above=1
    )
    window: int = setting(
        0, "Tokens back, and ahead where they are read, itself counted; 0: all.", least=0
    )

    cell: Literal["lstm", "gru"] = setting("lstm", "Of a recurrent network.")
    score: Literal["dot", "multiplicative", "additive", "none"] = setting(
        "additive", "How a recurrent decoder compares what it looks for with what it reads."
    )
    dilations: tuple[int, ...] = setting(
        (), "Step of each convolution, one a layer; all 1 unless given.", least=1, most=65_536
    )

    def __post_init__(self) -> None:
        check(self, self.misfits())

    def misfits(self) -> Iterator[str]:
        """What does not go together."""
        if self.dilations and len(self.dilations) != self.depth:
            yield (
                f"a network of depth {self.depth} has so many dilations, got {len(self.dilations)}"
            )
        if self.relative != "none" and self.position in RELATIVES:
            yield (
                f"position: {self.position} and relative: {self.relative} both enter in every "
                f"layer; relative: {self.relative} with position: none would do"
            )
        if self.kind == "transformer" and self.heads > 0 and self.width % self.heads:
            yield f"{self.heads} heads do not divide a width of {self.width}"
        if self.kind == "recurrent" and self.width % 2:
            yield f"a recurrent network's width is even, got {self.width}: half each way"

    def shape(self) -> Shape:
        return Shape(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            key_heads=self.key_heads,
            inner=self.inner,
            feed_forward=self.feed_forward,
            norm=self.norm,
            norm_epsilon=self.norm_epsilon,
            embedding_norm=self.embedding_norm,
            bias=self.bias,
            order=self.order,
            residual=self.residual,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
        )

    @property
    def packs(self) -> bool:
        """Whether it keeps sequences apart that lie in one row: only attention does."""
        return self.kind == "transformer"


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


def stack(network: Network, pattern: Pattern, cross: bool = False) -> Stack:
    return Stack.of(
        network.shape(), pattern, position=below(network), relative=within(network), cross=cross
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
