"""What a language model is for, as commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from manyheads.config.declare import setting, with_default
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.recipe import Options, Verb


@dataclass(frozen=True)
class GenerateOptions(LanguageDecoding, Options):
    """Write on from a prompt, word by word as it comes."""

    prompt: str | None = setting(None, "What to go on from; without it, all of stdin.")
    count: int = setting(1, "Write so many, each drawn anew.", least=1)
    keep_newline: bool = setting(False, "Keep the line break that stdin ends with.")
    as_json: bool = setting(
        False, "Write a JSON object for each: prompt, text, score.", flag="--json"
    )
    max_new_tokens: int = with_default(LanguageDecoding, "max_new_tokens", 200)

    @classmethod
    def of(cls, **typed: Any) -> Self:
        wide = typed.get("beam", 1) > 1
        if wide and typed.get("count", 1) > 1:
            raise ValueError(
                f"a beam finds the same each time, and --count asks for {typed['count']} drawn "
                "anew; leave out one of them"
            )
        return cls(**({"temperature": 0.0} if wide else {}) | typed)


@dataclass(frozen=True)
class ScoreOptions(Options):
    """How likely a model finds the text on stdin: bits per byte, perplexity."""

    lines: bool = setting(False, "Each line of stdin is a text of its own.")
    stride: int = setting(
        0,
        "Of a text longer than the context, move the window by so many tokens; 0: half the "
        "context.",
    )
    context: str = setting("", "What comes before each text, and is not scored itself.")
    as_json: bool = setting(
        False, "A JSON object a text, with each token's log-probability.", flag="--json"
    )


@dataclass(frozen=True)
class EvaluateTextOptions(Options):
    """Measure how well a model foresees texts: bits per byte, perplexity."""

    text: tuple[Path, ...] = setting((), "Files, folders, .jsonl.")
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json")

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("a test set is text: --text book.txt")


COMMANDS = "manyheads.tasks.language.commands"
VERBS = {
    "generate": Verb(GenerateOptions, f"{COMMANDS}:generate"),
    "score": Verb(ScoreOptions, f"{COMMANDS}:score"),
    "evaluate": Verb(EvaluateTextOptions, f"{COMMANDS}:evaluate_text"),
}
