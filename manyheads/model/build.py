"""From a few settings to a network: the architectures, part by part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from manyheads.attention.patterns import Causal
from manyheads.attention.positions import Learned, Position, Sinusoidal
from manyheads.attention.relatives import Relative, RelativeBias, RelativeContent, Rotary
from manyheads.attention.rules import Bucketed, Clipped
from manyheads.model.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from manyheads.model.networks import Decoder, Embedding, Encoder, EncoderDecoder, Tied
from manyheads.model.parts import NormOrder
from manyheads.model.recurrent import SCORES, RecurrentDecoder, RecurrentEncoder
from manyheads.model.stack import Shape, Stack

Place = Literal["sinusoidal", "learned", "rotary", "bias", "content", "none"]


@dataclass(frozen=True)
class Network:
    """What a network is made of; each kind reads the settings that are its own."""

    kind: Literal["transformer", "recurrent", "convolutional"] = "transformer"
    width: int = 256
    depth: int = 4  # of the encoder and of the decoder each
    dropout: float = 0.3
    tied: bool = True  # the table that reads words also scores them

    heads: int = 4
    key_heads: int | None = None
    inner: int = 1024
    feed_forward: Literal["relu", "gelu", "swiglu", "geglu"] = "relu"
    norm: Literal["layer", "rms"] = "layer"
    order: NormOrder = "pre"
    residual: bool = True
    attention_dropout: float = 0.0
    position: Place = "sinusoidal"
    longest: int = 1024  # places a learned position knows

    cell: Literal["lstm", "gru"] = "lstm"
    score: Literal["dot", "multiplicative", "additive", "none"] = "additive"
    dilations: tuple[int, ...] = ()  # of each convolution; all 1 unless given

    def __post_init__(self) -> None:
        if self.dilations and len(self.dilations) != self.depth:
            raise ValueError(
                f"a network of depth {self.depth} has so many dilations, got {len(self.dilations)}"
            )
        self.shape()  # refuses what does not fit
        if self.kind == "transformer" and self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")
        if self.kind == "recurrent" and self.width % 2:
            raise ValueError(
                f"a recurrent network's width is even, got {self.width}: half each way"
            )

    def shape(self) -> Shape:
        return Shape(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            key_heads=self.key_heads,
            inner=self.inner,
            feed_forward=self.feed_forward,
            norm=self.norm,
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
    reading = Embedding(source, network.width)
    writing = reading if joint else Embedding(target, network.width)
    head: nn.Module = Tied(writing) if network.tied else nn.Linear(network.width, target)
    return BUILDERS[network.kind](network, reading, writing, head)


def transformer(
    network: Network, reading: Embedding, writing: Embedding, head: nn.Module
) -> EncoderDecoder:
    shape = network.shape()
    place: Any = {"position": below(network), "relative": within(network)}
    read = Stack.of(shape, **place)
    write = Stack.of(shape, Causal(), **place, cross=True)
    return EncoderDecoder(Encoder(reading, read), Decoder(writing, write, head))


def below(network: Network) -> Position | None:
    """How place enters below the first layer."""
    if network.position == "learned":
        return Learned(network.width, network.longest)
    return Sinusoidal() if network.position == "sinusoidal" else None


def within(network: Network) -> Relative | None:
    """How place enters in every layer."""
    relatives: dict[str, Callable[[], Relative]] = {
        "rotary": Rotary,
        "bias": lambda: RelativeBias(network.heads, Bucketed()),
        "content": lambda: RelativeContent(network.width // network.heads, Clipped(16)),
    }
    make = relatives.get(network.position)
    return make() if make else None


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
