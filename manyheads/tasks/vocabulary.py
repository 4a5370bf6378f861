"""The tokenizer of a task: trained on texts, taken from another run, or loaded from a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from manyheads.codecs.text import Text
from manyheads.tasks.task import Task

TOKENIZER = "tokenizer.json"  # in the folder of a run
CHARACTERS_A_TOKEN = 4  # roughly, if tokens are longer than a character


def choose_codec(recipe: Any, texts: Iterable[str], masked: bool = True) -> Text:
    """Load the tokenizer of the run in `start_from`, or train one on these texts."""
    if recipe.start_from is not None:
        return Text.load(recipe.start_from / TOKENIZER)
    return Text.train(texts, recipe.codec.kind, recipe.codec.size, masked)


class CodecTask(Task):
    """A task with a codec: a text tokenizer, unless a subclass opens another."""

    def __init__(self, recipe: Any, codec: Any, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.codec = codec

    @classmethod
    def open(cls, recipe: Any, folder: Path) -> Self:
        return cls(recipe, Text.load(folder / TOKENIZER), folder)
