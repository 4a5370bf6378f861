"""The settings of a recipe's `network:`, one class for each kind of network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from manyheads.attention.calls import Notation
from manyheads.config.declare import Settings, setting
from manyheads.modules.positions import POSITIONS, LearnedValue, PositionValue

if TYPE_CHECKING:
    from manyheads.attention.patterns import Pattern

    PatternText = str | Pattern | Sequence[str | Pattern]  # kept as text
else:
    PatternText = str | tuple[str, ...]

NormPosition = Literal["pre", "post"]
Pooling = Literal["first", "mean"]
Layout = Literal["packed", "padded"]  # how sequences are put into the rows of a batch
EVERYTHING = "Everything()"


@dataclass(frozen=True)
class NetworkBase(Settings):
    """The settings that all kinds of networks have."""

    kind: str = setting("", "Kind of network.")
    width: int = setting(
        256, "Width of the model: size of the vector of each token (d_model).", least=1, most=2**17
    )
    depth: int | tuple[int, int] = setting(
        4,
        "Number of layers; [12, 1]: 12 in the encoder and 1 in the decoder.",
        least=1,
        most=1000,
    )
    dropout: float = setting(0.3, "Dropout probability.", least=0, below=1)
    tied: bool = setting(True, "Tie the input and output embeddings.")
    head_bias: bool = setting(False, "Add a bias to the output layer.")
    scale_embeddings: bool = setting(True, "Multiply embeddings by the square root of the width.")
    token_types: int = setting(
        0,
        "Number of token types, each with its own embedding, such as question and text, or voices.",
        least=0,
        most=2**16,
    )
    packs: ClassVar[bool] = False  # can keep packed sequences apart: only attention can
    builder: ClassVar[str]  # the Python module that builds encoder and decoder

    def __post_init__(self) -> None:
        own = type(self)
        if self.kind != own.kind:
            raise ValueError(f"a {own.__name__} is of kind {own.kind}, got {self.kind!r}")
        super().__post_init__()

    @property
    def places(self) -> int | None:
        """The number of places of a learned position encoding; None if there is no limit."""
        return None

    @property
    def depths(self) -> tuple[int, int]:
        """The numbers of layers of the encoder and of the decoder."""
        return (self.depth, self.depth) if isinstance(self.depth, int) else self.depth

    def one_depth(self) -> int:
        """Return the number of layers of a network that is only an encoder or only a decoder."""
        if isinstance(self.depth, int):
            return self.depth
        raise ValueError(
            f"network.depth: {[*self.depth]} is for an encoder and a decoder, and this has one "
            f"side; network.depth: {self.depth[0]} would do"
        )


@dataclass(frozen=True)
class TransformerConfig(NetworkBase):
    """Attention and feed-forward layers."""

    kind: Literal["transformer"] = setting("transformer", "Kind of network.")
    heads: int = setting(
        4, "Number of attention heads; it must divide the width.", least=1, most=2**12
    )
    key_heads: int | None = setting(
        None,
        "Number of key and value heads (grouped-query attention); null: as many as heads.",
        least=1,
        most=2**12,
    )
    ffn_width: int = setting(None, "Width of the feed-forward layers.", least=1, most=2**20)
    feed_forward: Literal["relu", "relu2", "gelu", "gelu-tanh", "silu", "swiglu", "geglu"] = (
        setting(
            "relu",
            "Activation of the feed-forward layers; relu2 is relu squared, swiglu and geglu are "
            "gated.",
        )
    )
    bias: bool = setting(True, "Add a bias to attention, feed-forward layers and norms.")
    init: Literal["xavier", "gpt2", "zero"] = setting(
        "xavier",
        "Initialisation: Xavier; small normal values as in GPT-2; or the same with zero output "
        "projections.",
    )
    qk_norm: bool = setting(False, "Normalise the queries and keys of each head (QK-norm).")
    residual_scalars: bool = setting(
        False, "Each layer reads a learned mix of its input and of the input of the first layer."
    )
    value_embeddings: int = setting(
        0,
        "This many first and last layers add a token embedding to the values of attention; the "
        "first and the last layer share a table, and so on. For decoder-only models.",
        least=0,
        most=1000,
    )
    logit_cap: float = setting(0.0, "Soft cap of the logits; 0: none.", least=0)
    norm: Literal["layer", "rms"] = setting(
        "layer", "Normalisation: LayerNorm (layer) or RMSNorm (rms)."
    )
    norm_epsilon: float = setting(1e-5, "Epsilon of the norms.", above=0)
    norm_position: NormPosition = setting(
        "pre", "Norms before (pre) or after (post) each part of a layer."
    )
    embedding_norm: bool = setting(False, "Add a norm after the embeddings.")
    residual: bool = setting(True, "Use residual connections.")
    attention_dropout: float = setting(
        0.0, "Dropout probability of the attention weights.", least=0, below=1
    )
    pattern: PatternText = setting(
        EVERYTHING,
        "Attention pattern, such as Window(64). A list has one for each layer, and repeats if "
        "its length divides the depth. Autoregressive decoders are always causal as well.",
    )
    position: str | None = setting(
        "Sinusoidal()",
        "Position encoding: added to the embeddings (Sinusoidal(), Learned(1024), "
        "Concatenated()), or in every layer (Rotary(), RelativeBias(), RelativeContent(16)); "
        "null: none.",
    )
    relative: str | None = setting(
        None, "A second position encoding, in every layer, if position is added to the embeddings."
    )
    packs: ClassVar[bool] = True
    builder = "manyheads.modules.build"
    positions: ClassVar[Mapping[str, type[PositionValue]]] = POSITIONS  # by name

    def __post_init__(self) -> None:
        given: Any = self.pattern
        text = tuple(map(str, given)) if isinstance(given, list | tuple) else str(given)
        object.__setattr__(self, "pattern", text)
        if self.ffn_width is None and isinstance(self.width, int):
            object.__setattr__(self, "ffn_width", max(1, 4 * self.width))
        super().__post_init__()

    @property
    def patterns(self) -> tuple[str, ...]:
        """One pattern for all layers, or one for each."""
        kept: Any = self.pattern
        return (kept,) if isinstance(kept, str) else kept

    @property
    def position_value(self) -> PositionValue | None:
        return self.read_position(self.position)

    @property
    def relative_value(self) -> PositionValue | None:
        return self.read_position(self.relative)

    @property
    def places(self) -> int | None:
        value = self.position_value
        return value.places if isinstance(value, LearnedValue) else None

    def read_position(self, text: str | None) -> PositionValue | None:
        if text is None:
            return None
        notation = Notation("position", "Rotary()", self.positions, "manyheads.positions")
        value: PositionValue = notation.read(text)
        return value

    def misfits(self) -> Iterator[str]:
        if self.heads > 0 and self.width % self.heads:
            yield f"{self.heads} heads do not divide a width of {self.width}"
        if not self.patterns:
            yield "pattern: a list has a pattern for each layer, and this one is empty"
            return
        if any(depth % len(self.patterns) for depth in self.depths):
            yield (
                f"pattern: {len(self.patterns)} patterns came, one for each layer is {self.depth}; "
                "one alone holds for all layers"
            )
        if 2 * self.value_embeddings > min(self.depths):
            yield (
                f"value_embeddings: {self.value_embeddings} of the first layers and as many of the "
                f"last are more than the {min(self.depths)} there are"
            )
        if wrong := [*self.unreadable()]:
            yield from wrong
            return
        position, relative = self.position_value, self.relative_value
        if relative and not relative.in_layers:
            yield (
                f"relative: {self.relative} enters below the first layer; "
                f"position: {self.relative} would do"
            )
        if relative and position and position.in_layers:
            yield (
                f"position: {self.position} and relative: {self.relative} both enter in every "
                f"layer; relative: {self.relative} with position: null would do"
            )

    def unreadable(self) -> Iterator[str]:
        """Yield an error for each pattern and position that cannot be read."""
        asked: list[tuple[str, Any, str | None]] = [
            *(("pattern", check_pattern, text) for text in dict.fromkeys(self.patterns)),
            ("position", self.read_position, self.position),
            ("relative", self.read_position, self.relative),
        ]
        for name, read, text in asked:
            try:
                read(text)
            except ValueError as error:
                yield f"{name}: {error}"


@dataclass(frozen=True)
class RecurrentConfig(NetworkBase):
    """LSTM or GRU layers."""

    builder = "manyheads.modules.recurrent"
    kind: Literal["recurrent"] = setting("recurrent", "Kind of network.")
    cell: Literal["lstm", "gru"] = setting("lstm", "Recurrent cell.")
    score: str = setting(
        "additive",
        "Attention score of the decoder: dot, multiplicative or additive; none: the decoder sees "
        "only the mean of the source.",
    )

    def misfits(self) -> Iterator[str]:
        if self.width % 2:
            yield f"a recurrent network's width is even, got {self.width}: half each way"
        if self.score != "additive":  # do not import torch for the default
            from manyheads.attention.scores import SCORES

            if self.score not in SCORES:
                yield f"score is one of {', '.join(SCORES)}, got {self.score!r}"


@dataclass(frozen=True)
class ConvolutionalConfig(NetworkBase):
    """Gated convolutions over neighbouring tokens."""

    builder = "manyheads.modules.convolutional"
    kind: Literal["convolutional"] = setting("convolutional", "Kind of network.")
    dilations: tuple[int, ...] = setting(
        (), "Dilation of the convolution of each layer; empty: 1 for all.", least=1, most=65_536
    )

    def misfits(self) -> Iterator[str]:
        if self.dilations and {len(self.dilations)} != {*self.depths}:
            yield (
                f"a network of depth {self.depth} has so many dilations, got {len(self.dilations)}"
            )


NetworkConfig = TransformerConfig | RecurrentConfig | ConvolutionalConfig
CONFIGS: dict[str, type[NetworkConfig]] = {
    "transformer": TransformerConfig,
    "recurrent": RecurrentConfig,
    "convolutional": ConvolutionalConfig,
}
NETWORK_KINDS = tuple(CONFIGS)


def change_kind(network: Any, kind: str, configs: Mapping[str, Any] = CONFIGS) -> Any:
    """Return a config of another kind, with the settings that both kinds have."""
    if network.kind == kind:
        return network
    names = {one.name for one in fields(network)} & {one.name for one in fields(configs[kind])}
    return configs[kind](**{name: getattr(network, name) for name in names - {"kind"}})


def position_name(text: str | None) -> str | None:
    """Drop the numbers: "Learned(512)" -> "Learned()"."""
    return None if text is None else f"{text.partition('(')[0].strip()}()"


def check_pattern(text: str) -> None:
    """Refuse text that is no fixed pattern; those of presets are checked without torch."""
    if re.fullmatch(r"Everything\(\)|Window\(\d{1,9}\)", text):
        return
    from manyheads.attention.notation import read

    if not read(text).fixed:
        raise ValueError(
            f"{text} belongs to one batch; a layer owns a pattern that holds for all, like Causal()"
        )
