"""Which tasks there are, and a recipe in a file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.config import load, peek

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

GROUP = "manyheads.tasks"  # of entry points: name = "module:class", for tasks from elsewhere
TASKS = {
    "translation": "manyheads.tasks.seq2seq.task:Seq2Seq",
    "summarization": "manyheads.tasks.seq2seq.task:Seq2Seq",
    "answering": "manyheads.tasks.seq2seq.task:Seq2Seq",
    "language": "manyheads.tasks.language.task:LanguageTask",
    "masked": "manyheads.tasks.masked.task:MaskedTask",
    "classification": "manyheads.tasks.classification.task:ClassificationTask",
    "regression": "manyheads.tasks.classification.task:ClassificationTask",
    "labelling": "manyheads.tasks.classification.task:ClassificationTask",
    "music": "manyheads.tasks.music.task:MusicTask",
    "embedding": "manyheads.tasks.masked.embedding:EmbeddingTask",
}

# What `train` lists: a line for each that is trained.
ABOUT = {
    "translation": "Texts in another language, from pairs of them.",
    "summarization": "Short texts of long ones.",
    "answering": "Answers to questions about a text.",
    "language": "Text that goes on.",
    "masked": "Hidden words: an encoder to start from.",
    "classification": "Which class a text is of.",
    "regression": "A number for a text.",
    "labelling": "A tag for each word.",
    "music": "Music that goes on.",
}


def trained_tasks() -> dict[str, str]:
    """Those that `train` knows, each with what it learns."""
    others = dict.fromkeys(task_names(), "A task that is installed beside.")
    return {**ABOUT, **{name: about for name, about in others.items() if name not in TASKS}}


@cache
def task_names() -> tuple[str, ...]:
    """Those here, and those that are installed beside."""
    return (*TASKS, *(point.name for point in entry_points(group=GROUP) if point.name not in TASKS))


@cache
def find_task(name: str) -> type[Task]:
    if name in TASKS:
        module, _, held = TASKS[name].partition(":")
        own: type[Task] = getattr(import_module(module), held)
        return own
    for point in entry_points(group=GROUP):
        if point.name == name:
            found: type[Task] = point.load()
            return found
    raise ValueError(f"there is no task {name!r}; there are {', '.join(task_names())}")


def load_recipe(path: Path, settings: Sequence[str] = ()) -> tuple[Any, type[Task]]:
    """The recipe in a file, as its `task:` says; what is no task is told as a mistake in it."""
    task = task_in(path)
    return load(task.Recipe, path, settings), task


def task_in(path: Path) -> type[Task]:
    """As the file's `task:` says, or nearly."""
    near = get_close_matches(peek(path, "task") or "", task_names(), n=1)
    return find_task(near[0] if near else next(iter(TASKS)))


def task_for(recipe: Any) -> type[Task]:
    return find_task(recipe.task)
