"""Decoding settings of a language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from manyheads.config.declare import setting, with_default
from manyheads.decoding.config import BEAM, DecodingConfig, DecodingOptions


@dataclass(frozen=True)
class LanguageDecoding(DecodingConfig):
    """Sample at random; with temperature 0, take the likeliest token or search with a beam."""

    temperature: float = with_default(DecodingConfig, "temperature", 0.8)
    max_new_tokens: int = setting(256, "Maximum number of new tokens.", least=1)
    stop: tuple[str, ...] = setting((), "Stop before this text; can be given several times.")
    truncate: bool = setting(
        False,
        "Read only the end of a prompt that is longer than the context; without it, that is "
        "an error.",
    )
    special: bool = setting(
        False, "Read special tokens such as <|im_start|> in the prompt as tokens, not as text."
    )
    chat: bool = setting(
        False, "Put the prompt into the chat template of the model, and write the answer."
    )

    def misfits(self) -> Iterator[str]:
        yield from super().misfits()
        if isinstance(self.stop, str) or not all(self.stop):
            yield f'stop lists texts of a character or more, as ("\\n",), got {self.stop!r}'
        if self.stop and self.chosen == "beam":
            yield "stop ends a text that is written once; leave it out with a beam"


class LanguageOptions(DecodingOptions, total=False):
    """The options of a `LanguageDecoding`, as keyword arguments."""

    beam: int
    stop: tuple[str, ...]
    truncate: bool
    special: bool
    chat: bool


def add_implied(options: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the options imply: a beam strategy has a width, and a wide beam does not sample."""
    implied: dict[str, Any] = {"beam": BEAM} if options.get("strategy") == "beam" else {}
    beam = {**implied, **options}.get("beam")
    if isinstance(beam, int) and beam > 1:
        implied["temperature"] = 0.0
    return {**implied, **options}
