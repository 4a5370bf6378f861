"""What a model that judges texts is for, as commands."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.config.declare import setting
from manyheads.tasks.masked.verbs import VERBS as OF_ENCODERS
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import ExamplesOptions


@dataclass(frozen=True)
class ClassifyOptions(Options):
    """Give each text its class and its probability, its number, or a tag for each word.

    One line is written for each line read, at once.
    Where the model reads pairs of texts, a tab stands between the two.

    Example: manyheads classify --model runs/labels "It was a joy to watch."
    """

    texts: tuple[str, ...] = setting(
        (), "What to read; without any, the lines of stdin.", argument="TEXT"
    )
    as_json: bool = setting(
        False, "Write one JSON object a line, with all probabilities.", flag="--json"
    )


COMMANDS = "manyheads.tasks.classification.commands"
VERBS = {
    **OF_ENCODERS,
    "classify": Verb(ClassifyOptions, f"{COMMANDS}:classify"),
    "evaluate": Verb(ExamplesOptions, f"{COMMANDS}:evaluate_classifier"),
}
