"""The codec of a task: learned from texts or brought by another run, and opened from a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from manyheads.codecs.text import Text
from manyheads.tasks.task import Task

TOKENIZER = "tokenizer.json"  # in the folder of a run
CHARACTERS_A_TOKEN = 4  # about, where a token is more than a character


def choose_codec(recipe: Any, texts: Iterable[str], masked: bool = True) -> Text:
    """That of the run it starts from, else one learned from these texts."""
    if recipe.start_from is not None:
        return Text.load(recipe.start_from / TOKENIZER)
    return Text.train(texts, recipe.codec.kind, recipe.codec.size, masked)


class CodecTask(Task):
    """A task with its codec, which is one of text unless a task opens another."""

    def __init__(self, recipe: Any, codec: Any, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.codec = codec

    @classmethod
    def open(cls, recipe: Any, folder: Path) -> Self:
        return cls(recipe, Text.load(folder / TOKENIZER), folder)
