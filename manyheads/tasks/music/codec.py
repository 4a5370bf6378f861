"""Music to numbers and back, whichever way: what every codec of music offers, and its file."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from manyheads.codecs.text import SpecialTokens
from manyheads.tasks.music.chorales import Chorales
from manyheads.tasks.music.notes import Piece
from manyheads.tasks.music.performance import Performance

CODEC = "codec.json"  # in the folder of a run
KINDS = ("performance", "chorales", "remi")


class MusicCodec(Protocol):
    """Pieces as numbers, the signs around them left to whoever lays out a batch."""

    @property
    def kind(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def special_tokens(self) -> SpecialTokens: ...
    @property
    def beat(self) -> int:
        """How many numbers make a step that is not cut."""

    def encode(self, piece: Piece) -> list[int]: ...
    def render(self, ids: Sequence[int]) -> Piece: ...
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each number says, to label a picture with."""

    def pitches(self) -> list[int]:
        """For every number there is, the pitch that it speaks of; 0 where it speaks of none."""

    def room(self, ids: Sequence[int]) -> range:
        """By how many semitones these can move and stay on a piano."""

    def tables(self, shifts: Sequence[int]) -> NDArray[np.int64]:
        """(shifts, size): where each number goes, so many semitones higher."""

    def kept(self) -> dict[str, Any]:
        """What its file says beside its kind."""


def new_codec(kind: str) -> MusicCodec:
    if kind not in KINDS:
        raise ValueError(f"there is no codec {kind!r} for music; there are {', '.join(KINDS)}")
    return make_codec(kind, {})


def make_codec(kind: str, held: dict[str, Any]) -> MusicCodec:
    if kind == "remi":
        from manyheads.tasks.music.remi import Remi  # miditok is an extra

        return Remi.of(held)
    if kind == "chorales":
        return Chorales()
    return Performance(**{name: operator.index(number) for name, number in held.items()})


def save_codec(codec: MusicCodec, path: Path) -> None:
    held = {"kind": codec.kind, **codec.kept()}
    path.write_text(json.dumps(held, ensure_ascii=False) + "\n", encoding="utf-8")


def load_codec(path: Path) -> MusicCodec:
    try:
        held = cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        kind = held.pop("kind")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (ValueError, TypeError, AttributeError, KeyError):
        raise ValueError(f"{path} does not say how music is numbered") from None
    if kind not in KINDS:
        raise ValueError(f"{path}: there is no codec {kind!r}; there are {', '.join(KINDS)}")
    try:
        return make_codec(kind, held)
    except (TypeError, AttributeError):
        raise ValueError(f"{path} does not say how music is numbered") from None
