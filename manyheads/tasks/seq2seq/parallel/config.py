"""The settings of parallel networks: those of a Transformer, and a few of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from manyheads.config.declare import setting
from manyheads.modules.config import TransformerConfig

MOST_CODES = 2**16


@dataclass(frozen=True)
class ParallelConfig(TransformerConfig):
    """An encoder, and a decoder whose tokens all see each other."""

    packs: ClassVar[bool] = False
    slower: ClassVar[int] = 3  # times as many epochs as a network that writes token by token

    def refuse_pair(self, source: int, target: int, repeats: int) -> str:
        """Return why this many target tokens cannot be written for the source; empty if they can.

        `repeats` is the number of target tokens that equal the one before them.
        """
        return ""


@dataclass(frozen=True)
class CTCConfig(ParallelConfig):
    """One pass: each state of the encoder becomes several, each writes a token or nothing, and
    what is written twice in a row counts once.
    """

    kind: Literal["ctc"] = setting("ctc", "Kind of network.")  # type: ignore[assignment]
    upsample: int = setting(
        2,
        "States for each source token; a target cannot have more tokens than states.",
        least=1,
        most=16,
    )
    glancing: float = setting(
        0.0,
        "In training, show the decoder this many right tokens for each that it guessed wrong, "
        "and let it guess again; 0: it guesses once.",
        least=0,
        most=1,
    )

    def refuse_pair(self, source: int, target: int, repeats: int) -> str:
        if target + repeats <= self.upsample * source:
            return ""
        return f"longer than {self.upsample} times the source, which is all that ctc can write"


@dataclass(frozen=True)
class MaskPredictConfig(ParallelConfig):
    """A few passes: all tokens at once, then those that are least certain again."""

    kind: Literal["mask-predict"] = setting(  # type: ignore[assignment]
        "mask-predict", "Kind of network."
    )
    length_range: int = setting(
        64,
        "Largest difference between target and source length, in tokens.",
        least=1,
        most=4096,
    )


@dataclass(frozen=True)
class LatentConfig(ParallelConfig):
    """A shorter sequence of codes, written one after another, then decoded all at once."""

    kind: Literal["latent"] = setting("latent", "Kind of network.")  # type: ignore[assignment]
    compression: int = setting(3, "Target tokens per code.", least=1, most=64)
    levels: tuple[int, ...] = setting(
        (8, 8, 8), "Levels of each number of a code.", least=2, most=64
    )
    latent_depth: int = setting(
        2,
        "Layers of the network that encodes a target into codes, and of the one that "
        "predicts codes.",
        least=1,
        most=1000,
    )

    def misfits(self) -> Iterator[str]:
        yield from super().misfits()
        if not 1 <= math.prod(self.levels) <= MOST_CODES or not self.levels:
            yield (
                f"levels: {[*self.levels]} make {math.prod(self.levels):,} codes, "
                f"{MOST_CODES:,} are the most; [8, 8, 8] would do"
            )


PARALLEL: dict[str, type[ParallelConfig]] = {
    "ctc": CTCConfig,
    "mask-predict": MaskPredictConfig,
    "latent": LatentConfig,
}
ParallelNetworkConfig = CTCConfig | MaskPredictConfig | LatentConfig
