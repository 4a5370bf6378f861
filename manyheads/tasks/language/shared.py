"""What the families that learn from running text share: its files and its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from manyheads.codecs.text import Text
from manyheads.config.declare import check, setting
from manyheads.tasks.language.corpus import Running, Texts, about, learned
from manyheads.tasks.language.corpus import gather as read

FILES: tuple[str, ...] = ("text", "valid_text")


@dataclass(frozen=True)
class Codec:
    """How text becomes numbers."""

    kind: Literal["bpe", "unigram", "word", "character", "byte", "given"] = setting(
        "bpe", "What text is cut into; given: the vocabulary of a model from elsewhere."
    )
    size: int = setting(4000, "Pieces of the vocabulary, at most.", least=1, most=10**7)

    def __post_init__(self) -> None:
        check(self)


def data_of(files: Mapping[str, Any]) -> Running:
    return Running(**files)


def gather(recipe: Any) -> Texts:
    return read(recipe.data)


def tokens(gathered: Texts, recipe: Any) -> int:
    return about(gathered.characters(), recipe.codec.kind)


def counted(gathered: Texts) -> str:
    return str(gathered)


def codec_of(gathered: Texts, recipe: Any, masked: bool = False) -> Text:
    """That of the run it starts from, else one learned from these texts."""
    if recipe.start_from is not None:
        return Text.load(recipe.start_from / "tokenizer.json")
    return learned(gathered, recipe.codec.kind, recipe.codec.size, masked)
