"""Which task is of which family, and a recipe in a file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from manyheads.recipes import embedding, labels, language, masked, music, pairs
from manyheads.recipes.family import Family
from manyheads.settings import load, peek

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
