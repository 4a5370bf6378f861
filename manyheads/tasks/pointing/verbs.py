"""The commands of a question answering model, and their options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from manyheads.config.declare import setting, with_default
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.seq2seq.verbs import EvaluateOptions, TranslateOptions, refuse_both_inputs
from manyheads.tasks.verbs import InspectOptions, refuse_unwritable


@dataclass(frozen=True)
class AnswerOptions(Options):
    """Find the answer to a question in the text that follows it.

    Example: manyheads translate --model runs/spans "Who wrote it? A play by Goethe."

    Example: manyheads translate --model runs/spans --records < questions.jsonl
    """

    texts: tuple[str, ...] = with_default(TranslateOptions, "texts", ())
    records: bool = with_default(TranslateOptions, "records", False)
    as_json: bool = with_default(TranslateOptions, "as_json", False)
    precision: str = with_default(TranslateOptions, "precision", "float32")
    nbest: int = setting(
        0,
        "Print this many of the best answers, each with the number of its question (from 1) and "
        "its log-probability, separated by tabs.",
        instead="only the best, without number and score",
        least=0,
    )

    def __post_init__(self) -> None:
        refuse_both_inputs(self.records, self.texts)


@dataclass(frozen=True)
class EvaluateAnswersOptions(Options):
    """Measure the answers of a model by exact match and F1, alone or against another.

    Example: manyheads evaluate --model runs/spans --pairs test.jsonl
    """

    pairs: Path | None = setting(None, "Questions with their texts and answers, .jsonl.")
    against: str | None = with_default(EvaluateOptions, "against", None)
    write_to: Path | None = with_default(EvaluateOptions, "write_to", None)
    as_json: bool = with_default(EvaluateOptions, "as_json", False)
    metric: tuple[str, ...] = with_default(EvaluateOptions, "metric", ())

    def __post_init__(self) -> None:
        if self.pairs is None:
            raise ValueError("a test set is a file of questions: --pairs test.jsonl")
        if self.write_to is not None:
            refuse_unwritable("--write", self.write_to, reads=[self.pairs])


COMMANDS = "manyheads.tasks.pointing.commands"
VERBS = {
    "translate": Verb(AnswerOptions, f"{COMMANDS}:answer"),
    "inspect": Verb(InspectOptions, "manyheads.cli.inspect:inspect_text"),
    "evaluate": Verb(EvaluateAnswersOptions, f"{COMMANDS}:evaluate_answers"),
}
