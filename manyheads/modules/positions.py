"""Position encodings as a recipe writes them: `Rotary(base=500)`; `build` gets the network's sizes.

These values hold only numbers and need no torch; each makes its module when a network is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from manyheads.config.declare import TypedSettings, setting

if TYPE_CHECKING:
    from manyheads.attention.positions import Position, Relative


@dataclass(frozen=True)
class PositionValue(TypedSettings):
    """The base class: a subclass has its numbers as fields, and `build`.

    An entry point in the group `manyheads.positions` adds one from another package.
    """

    in_layers: ClassVar[bool] = False  # True: in every layer; False: below the first one

    def build(self, network: Any) -> Position | Relative:
        """Make the module for a network of this width and these heads."""
        raise NotImplementedError


@dataclass(frozen=True)
class SinusoidalValue(PositionValue):
    """Sines and cosines, added to the embeddings."""

    base: float = setting(10_000.0, "Length of the slowest wave.", above=1)

    def build(self, network: Any) -> Position:
        from manyheads.attention.positions import Sinusoidal

        return Sinusoidal(self.base)


@dataclass(frozen=True)
class ConcatenatedValue(SinusoidalValue):
    """Sines and cosines, concatenated to the embeddings and projected back to the width."""

    def build(self, network: Any) -> Position:
        from manyheads.attention.positions import Concatenated

        return Concatenated(super().build(network), network.width, network.width)


@dataclass(frozen=True)
class LearnedValue(PositionValue):
    """A learned vector for each place, added to the embeddings."""

    places: int = setting(1024, "Number of places that have a vector.", least=1, most=2**24)

    def build(self, network: Any) -> Position:
        from manyheads.attention.positions import Learned

        return Learned(network.width, self.places)


@dataclass(frozen=True)
class RotaryValue(PositionValue):
    """Queries and keys rotated by their place."""

    base: float = setting(10_000.0, "Length of the slowest rotation.", above=1)
    in_layers: ClassVar[bool] = True

    def build(self, network: Any) -> Relative:
        from manyheads.attention.positions import Rotary

        return Rotary(self.base)


@dataclass(frozen=True)
class RelativeBiasValue(PositionValue):
    """A learned bias for each head and distance, far distances in buckets (T5)."""

    in_layers: ClassVar[bool] = True

    def build(self, network: Any) -> Relative:
        from manyheads.attention.positions import RelativeBias
        from manyheads.attention.rules import Bucketed

        return RelativeBias(network.heads, Bucketed())


@dataclass(frozen=True)
class RelativeContentValue(PositionValue):
    """Learned vectors for distances, multiplied with the query: for near distances and shared by
    all heads, `RelativeContent(16)` (Shaw), or for all distances and per head,
    `RelativeContent(every=1024)` (Music Transformer).
    """

    reach: int = setting(
        0, "Distances up to this are distinguished, in each direction.", least=0, most=2**20
    )
    every: int = setting(
        0, "Every distance is, in sequences of at most this many tokens.", least=0, most=2**24
    )
    in_layers: ClassVar[bool] = True

    def misfits(self) -> Iterator[str]:
        if bool(self.reach) == bool(self.every):
            yield "RelativeContent takes one number, a reach, as in (16), or (every=1024)"

    def build(self, network: Any, axes: int = 1, least: int = 0) -> Relative:
        """`least` is the smallest length for `every`."""
        from manyheads.attention.positions import RelativeContent
        from manyheads.attention.rules import Clipped, Every

        channels = network.width // network.heads
        if self.reach:
            return RelativeContent(channels, Clipped(self.reach), axes=axes)
        every = Every(max(self.every, least))
        return RelativeContent(channels, every, heads=network.heads, axes=axes)


POSITIONS: dict[str, type[PositionValue]] = {
    "Sinusoidal": SinusoidalValue,
    "Learned": LearnedValue,
    "Concatenated": ConcatenatedValue,
    "Rotary": RotaryValue,
    "RelativeBias": RelativeBiasValue,
    "RelativeContent": RelativeContentValue,
}
