"""The commands of a classifier, and their options."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.config.declare import setting
from manyheads.tasks.masked.verbs import VERBS as OF_ENCODERS
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import ExamplesOptions


@dataclass(frozen=True)
class ClassifyOptions(Options):
    """Print the class of each text with its probability, its number, or a tag for each word.

    The command prints one line for each line, as soon as it is read.
    If the model reads pairs of texts, separate the two with a tab.

    Example: manyheads classify --model runs/labels "It was a joy to watch."
    """

    texts: tuple[str, ...] = setting((), "Texts; without any, the lines of stdin.", argument="TEXT")
    as_json: bool = setting(
        False, "Print one JSON object per line, with all probabilities.", flag="--json"
    )


COMMANDS = "manyheads.tasks.classification.commands"
VERBS = {
    **OF_ENCODERS,
    "classify": Verb(ClassifyOptions, f"{COMMANDS}:classify"),
    "evaluate": Verb(ExamplesOptions, f"{COMMANDS}:evaluate_classifier"),
}
