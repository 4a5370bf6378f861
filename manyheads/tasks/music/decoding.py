"""Decoding settings of a music model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from manyheads.config.declare import setting
from manyheads.decoding.config import Sampling, SamplingOptions


@dataclass(frozen=True)
class MusicDecoding(Sampling):
    """Sample at random; with temperature 0, take the likeliest token."""

    truncate: bool = setting(
        False,
        "Read only the end of a --prime that is longer than the context; without it, that is "
        "an error.",
    )
    voice_leading: float = setting(
        5.0,
        "Penalty, in nats, for parallel fifths and octaves and for crossed voices in chorales; "
        "0: none.",
    )

    def misfits(self) -> Iterator[str]:
        yield from super().misfits()
        if not 0 <= self.voice_leading < math.inf:
            yield f"voice_leading is 0 nats (no penalty) or more, got {self.voice_leading:g}"


class MusicOptions(SamplingOptions, total=False):
    """The options of a `MusicDecoding`, as keyword arguments."""

    truncate: bool
    voice_leading: float
