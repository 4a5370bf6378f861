"""The tasks by name, and the recipe in a file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from manyheads.config import Mistakes, load, peek_field

if TYPE_CHECKING:
    from manyheads.tasks.music.model import Musician
    from manyheads.tasks.recipe import Recipe
    from manyheads.tasks.seq2seq.model import Translator as Translator
    from manyheads.tasks.task import Task

    Translators = Literal["de-en", "en-de"]  # built-in models of this class
    Composer = Musician
    Composers = Literal["chorales"]

GROUP = "manyheads.tasks"  # entry points of installed tasks: name = "module:Recipe"
TASKS = {
    "translation": "manyheads.tasks.seq2seq.settings:Seq2SeqRecipe",
    "summarization": "manyheads.tasks.seq2seq.settings:Seq2SeqRecipe",
    "answering": "manyheads.tasks.seq2seq.settings:Seq2SeqRecipe",
    "pointing": "manyheads.tasks.pointing.settings:PointingRecipe",
    "language": "manyheads.tasks.language.settings:LanguageRecipe",
    "masked": "manyheads.tasks.masked.settings:MaskedRecipe",
    "classification": "manyheads.tasks.classification.settings:ClassificationRecipe",
    "regression": "manyheads.tasks.classification.settings:ClassificationRecipe",
    "labelling": "manyheads.tasks.classification.settings:ClassificationRecipe",
    "music": "manyheads.tasks.music.settings:MusicRecipe",
    "graph": "manyheads.tasks.graph.settings:GraphRecipe",
    "image": "manyheads.tasks.image.settings:ImageRecipe",
    "embedding": "manyheads.tasks.masked.settings:EmbeddingRecipe",
}

# Network settings of earlier versions.
RETIRED = ("inner", "order", "types", "scaled", "longest", "longest_wave", "reach", "window")

# What `train` lists: a line for each task.
ABOUT = {
    "translation": "Translation, trained on pairs of texts.",
    "summarization": "Summaries, trained on pairs of texts.",
    "answering": "An answer to a question about a text, written word by word.",
    "pointing": "An answer to a question about a text, as a span of the text.",
    "language": "A language model: continues a prompt.",
    "masked": "An encoder trained on masked words, like BERT: for vectors, or for fine-tuning.",
    "classification": "A class for each text.",
    "regression": "A number for each text.",
    "labelling": "A tag for each word of a text.",
    "music": "A model of music, trained on MIDI files.",
    "graph": "Numbers or classes for molecules, graphs, or the nodes of a graph.",
    "image": "Images, drawn pixel by pixel.",
}

# The commands that use a model, as `manyheads` lists them.
VERBS = {
    "translate": "Translate, summarize or answer, as the model was trained to.",
    "generate": "Write text from a prompt, or music, or draw images.",
    "classify": "Give each text its class, its number, or a tag for each word.",
    "embed": "Make a vector for each text.",
    "score": "Measure how likely a text is for a language model: bits per byte, perplexity.",
    "predict": "Predict numbers or classes of graphs; or use a model of an installed task.",
    "evaluate": "Measure a model on a test set.",
    "distill": "Let a model write new targets for a corpus, to train another model on.",
    "compress": "Compress images, music or text without loss, with the probabilities of a model.",
    "decompress": "Restore what `compress` has compressed.",
    "inspect": "Show what every head attends to, as a page for the browser.",
    "look": "Draw which notes, pixels or nodes of a graph a model attends to.",
}
MODELS = {"translate": "de-en", "inspect": "de-en"}  # where no --model is given


def trained_tasks() -> dict[str, str]:
    """Return the tasks that `train` knows, each with what it learns."""
    others = dict.fromkeys(task_names(), "An installed task.")
    return {**ABOUT, **{name: about for name, about in others.items() if name not in TASKS}}


@cache
def task_names() -> tuple[str, ...]:
    """Return the names of all tasks: those of the package and installed ones."""
    return (*TASKS, *(point.name for point in entry_points(group=GROUP) if point.name not in TASKS))


@cache
def find_recipe(name: str) -> type[Recipe]:
    """Return the recipe class of a task, without loading torch."""
    if name in TASKS:
        return find_object(TASKS[name])
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()
    raise ValueError(f"there is no task {name!r}; there are {', '.join(task_names())}")


@cache
def find_task(name: str) -> type[Task]:
    return find_object(find_recipe(name).implementation)


def find_object(place: str) -> Any:
    """ "module:name" -> the object of that name in the module"""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def load_recipe(path: Path, settings: Sequence[str] = ()) -> Any:
    """Load the recipe in a file, by its `task:`; a wrong task is reported as a mistake in it."""
    try:
        return load(recipe_in(path), path, settings)
    except Mistakes as error:
        for name in RETIRED:
            if f"network has no field {name!r}" in str(error):
                raise ValueError(
                    f"{path} was written by an earlier manyheads: network.{name} is not known "
                    "any more; a run of this one, trained or imported anew, would do"
                ) from None
        raise


def recipe_in(path: Path) -> type[Recipe]:
    """Return the recipe class for the file's `task:`, or for the task with the nearest name."""
    said = peek_field(path, "task")
    near = get_close_matches(said or "", task_names(), n=1)
    if not near and said:
        raise ValueError(f"{path}: task: there are {', '.join(task_names())}, got {said!r}")
    return find_recipe(near[0] if near else next(iter(TASKS)))
