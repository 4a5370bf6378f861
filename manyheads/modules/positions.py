"""How place enters a network, as a recipe writes it: `Rotary(base=500)`, its sizes left to `build`.

Values of numbers alone, read without torch; each makes its module when a network is built.
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
    """The seam: a subclass has its numbers as fields, and `build`.

    An entry point in the group `manyheads.positions` lets one from elsewhere be written too.
    """

    in_layers: ClassVar[bool] = False  # a Relative, in every layer; else below the first

    def build(self, network: Any) -> Position | Relative:
        """The module, for a network of these measures."""
        raise NotImplementedError


@dataclass(frozen=True)
class SinusoidalValue(PositionValue):
    """Waves, added to the words."""

    base: float = setting(10_000.0, "Length of the slowest wave.", above=1)

    def build(self, network: Any) -> Position:
        from manyheads.attention.positions import Sinusoidal

        return Sinusoidal(self.base)


@dataclass(frozen=True)
class ConcatenatedValue(SinusoidalValue):
    """Waves beside the words, both mixed back to the width."""

    def build(self, network: Any) -> Position:
        from manyheads.attention.positions import Concatenated

        return Concatenated(super().build(network), network.width, network.width)


@dataclass(frozen=True)
class LearnedValue(PositionValue):
    """A vector for each place, added to the words."""

    places: int = setting(1024, "Number of places that have a vector.", least=1, most=2**24)

    def build(self, network: Any) -> Position:
        from manyheads.attention.positions import Learned

        return Learned(network.width, self.places)


@dataclass(frozen=True)
class RotaryValue(PositionValue):
    """Queries and keys turned by their place."""

    base: float = setting(10_000.0, "Length of the slowest rotation.", above=1)
    in_layers: ClassVar[bool] = True

    def build(self, network: Any) -> Relative:
        from manyheads.attention.positions import Rotary

        return Rotary(self.base)


@dataclass(frozen=True)
class RelativeBiasValue(PositionValue):
    """A number for each head and distance, far ones together (T5)."""

    in_layers: ClassVar[bool] = True

    def build(self, network: Any) -> Relative:
        from manyheads.attention.positions import RelativeBias
        from manyheads.attention.rules import Bucketed

        return RelativeBias(network.heads, Bucketed())


@dataclass(frozen=True)
class RelativeContentValue(PositionValue):
    """Distances whose meaning depends on the query: few for all heads, `RelativeContent(16)`
    (Shaw), or every one for each head, `RelativeContent(every=1024)` (Music Transformer).
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
        """`least`: every distance up to this at least."""
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
