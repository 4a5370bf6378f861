"""Make music codecs by their name, save and load them."""

from __future__ import annotations

import json
import operator
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from manyheads.tasks.music.chorales import Chorales
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.performance import Performance

CODEC = "codec.json"  # in the folder of a run
KINDS = ("performance", "chorales", "remi")


def new_codec(kind: str, **held: Any) -> MusicCodec:
    """Make a codec with the settings of its file, or with the defaults."""
    if kind not in KINDS:
        raise ValueError(f"there is no codec {kind!r}; there are {', '.join(KINDS)}")
    if kind == "remi":
        from manyheads.tasks.music.remi import Remi  # miditok is an extra

        return Remi.of(held)
    if kind == "chorales":
        return Chorales()
    return Performance(**{name: operator.index(number) for name, number in held.items()})


def save_codec(codec: MusicCodec, path: Path) -> None:
    held = {"kind": codec.kind, **codec.describe()}
    path.write_text(json.dumps(held, ensure_ascii=False) + "\n", encoding="utf-8")


def load_codec(path: Path) -> MusicCodec:
    try:
        return new_codec(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (JSONDecodeError, UnicodeDecodeError, TypeError, AttributeError):
        raise ValueError(f"{path} does not say how music is numbered") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
