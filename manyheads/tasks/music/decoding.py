"""How music is written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from manyheads.config.declare import setting
from manyheads.decoding.config import Sampling

VOICE_LEADING = 5.0


@dataclass(frozen=True)
class MusicDecoding(Sampling):
    """What is left to chance; at temperature 0 the likeliest token is taken."""

    truncate: bool = setting(
        False, "Take the end of a beginning longer than the context; else refuse it."
    )
    voice_leading: float = setting(
        VOICE_LEADING,
        "Of chorales: what parallel fifths, octaves and crossings of voices cost, in nats; "
        "0: nothing.",
    )

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if not 0 <= self.voice_leading < math.inf:
            yield f"voice_leading is 0 nats (no penalty) or more, got {self.voice_leading:g}"
