"""Which task is of which family, and a recipe in a file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from manyheads.config import load, peek
from manyheads.tasks.classification import settings as labels
from manyheads.tasks.family import Family
from manyheads.tasks.language import settings as language
from manyheads.tasks.masked import embedding
from manyheads.tasks.masked import settings as masked
from manyheads.tasks.music import settings as music
from manyheads.tasks.seq2seq import settings as pairs

FAMILIES: dict[str, Family] = {
    "translation": pairs,
    "summarization": pairs,
    "answering": pairs,
    "language": language,
    "masked": masked,
    "music": music,
    "embedding": embedding,
    "classification": labels,
    "regression": labels,
    "labelling": labels,
}


def load_recipe(path: Path, settings: Sequence[str] = ()) -> tuple[Any, Family]:
    """The recipe in a file, as its `task:` says; what is no task is told as a mistake in it."""
    family = family_in(path)
    return load(family.Recipe, path, settings), family


def family_in(path: Path) -> Family:
    """As the file's `task:` says, or nearly."""
    near = get_close_matches(peek(path, "task") or "", FAMILIES, n=1)
    return FAMILIES[near[0]] if near else pairs


def family_of(recipe: Any) -> Family:
    return FAMILIES[recipe.task]
