"""What a model that judges texts is for, as commands."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.config.declare import setting
from manyheads.tasks.masked.verbs import VERBS as OF_ENCODERS
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import ExamplesOptions


@dataclass(frozen=True)
class ClassifyOptions(Options):
    """Say what each text is: its class and how sure that is, its number, or its words' tags.

    A line is written for each line read, as they come.
    Two texts of one line have a tab between them.
    """

    texts: tuple[str, ...] = setting(
        (), "What to read; without any, the lines of stdin.", argument="TEXT"
    )
    as_json: bool = setting(False, "A JSON object a line, with all probabilities.", flag="--json")


COMMANDS = "manyheads.tasks.classification.commands"
VERBS = {
    **OF_ENCODERS,
    "classify": Verb(ClassifyOptions, f"{COMMANDS}:classify"),
    "evaluate": Verb(ExamplesOptions, f"{COMMANDS}:evaluate_classifier"),
}
