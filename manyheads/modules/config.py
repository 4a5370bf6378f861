"""What a network is made of: the settings of a recipe's `network:`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from manyheads.config.declare import check, setting

NetworkKind = Literal["transformer", "recurrent", "convolutional"]
NormOrder = Literal["pre", "post"]
Pooling = Literal["first", "mean"]
Layout = Literal["packed", "padded"]  # how sequences lie in the rows of a batch
NETWORK_KINDS = get_args(NetworkKind)
Place = Literal["sinusoidal", "learned", "concatenated", "rotary", "bias", "content", "none"]
Within = Literal["none", "rotary", "bias", "content", "score"]


@dataclass(frozen=True)
class Network:
    """What a network is made of; each kind reads the settings that are its own."""

    kind: NetworkKind = setting("transformer", "What it is made of.")
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
        if self.relative != "none" and self.position in ("rotary", "bias", "content"):
            yield (
                f"position: {self.position} and relative: {self.relative} both enter in every "
                f"layer; relative: {self.relative} with position: none would do"
            )
        if self.kind == "transformer" and self.heads > 0 and self.width % self.heads:
            yield f"{self.heads} heads do not divide a width of {self.width}"
        if self.kind == "recurrent" and self.width % 2:
            yield f"a recurrent network's width is even, got {self.width}: half each way"

    @property
    def packs(self) -> bool:
        """Whether it keeps sequences apart that lie in one row: only attention does."""
        return self.kind == "transformer"
