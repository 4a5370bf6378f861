"""The commands of a language model, and their options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from manyheads.config.declare import setting, with_default
from manyheads.data.documents import check_split
from manyheads.tasks.language.decoding import LanguageDecoding, add_implied
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import InspectTextOptions, refuse_unwritable


@dataclass(frozen=True)
class GenerateOptions(LanguageDecoding, Options):
    """Continue a prompt, and print the text while it is written.

    Example: manyheads generate --model runs/lm --prompt "ROMEO:" --max-new-tokens 100 --seed 7
    """

    prompt: str | None = setting(None, "Text to continue; without it, all of stdin.")
    count: int = setting(1, "Number of texts to sample.", least=1)
    keep_newline: bool = setting(False, "Keep the line break at the end of stdin.")
    as_json: bool = setting(
        False, "Print one JSON object for each text: prompt, text, score.", flag="--json"
    )
    max_new_tokens: int = with_default(LanguageDecoding, "max_new_tokens", 200)

    @classmethod
    def of(cls, **typed: Any) -> Self:
        typed = add_implied(typed)
        if typed.get("beam", 1) > 1 and typed.get("count", 1) > 1:
            raise ValueError(
                f"a beam finds the same each time, and --count asks for {typed['count']} drawn "
                "anew; leave out one of them"
            )
        return cls(**typed)


@dataclass(frozen=True)
class ScoreOptions(Options):
    """Measure how likely a text is for a language model: bits per byte, perplexity.

    Example: manyheads score --model runs/lm < text.txt
    """

    texts: tuple[str, ...] = setting((), "Texts to score; without any, stdin.", argument="TEXT")
    lines: bool = setting(False, "Score each line of stdin as a separate text.")
    stride: int = setting(
        0,
        "Stride of the window, in tokens, for a text longer than the context; 0: half the context.",
    )
    context: str = setting("", "Text that comes before each text and is not scored.")
    as_json: bool = setting(
        False,
        "Print one JSON object for each text, with the log-probability of each token.",
        flag="--json",
    )

    def __post_init__(self) -> None:
        if self.texts and self.lines:
            raise ValueError("--lines is of stdin, and texts were typed; leave out one of them")


@dataclass(frozen=True)
class EvaluateTextOptions(Options):
    """Measure how well a language model predicts texts: bits per byte, perplexity.

    Example: manyheads evaluate --model runs/lm --text test.txt
    """

    text: tuple[Path, ...] = setting(
        (), "Text files, folders of text files, or .jsonl; can be given several times."
    )
    split: str | None = setting(
        None,
        "What a document is, as in data.split: file, line, blank, or a separator.",
        instead="as in training",
    )
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json")

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("a test set is text: --text book.txt")
        if self.split is not None:
            check_split(self.split)


@dataclass(frozen=True)
class CompressTextOptions(Options):
    """Compress a text without loss, with the probabilities of a language model.

    Example: manyheads compress book.txt --model runs/lm --out book.mh
    """

    files: tuple[Path, ...] = setting((), "The text file.", argument="FILES")
    out: Path | None = setting(None, "The .mh file to write.")

    def __post_init__(self) -> None:
        if len(self.files) != 1:
            raise ValueError(f"one text is compressed at a time, got {len(self.files)}")
        if self.out is None or self.out.suffix != ".mh":
            raise ValueError("a compressed text is written to a .mh file: --out book.mh")
        refuse_unwritable("--out", self.out, reads=self.files)


@dataclass(frozen=True)
class DecompressTextOptions(Options):
    """Restore a compressed text; the file names its model.

    Example: manyheads decompress book.mh --out book.txt
    """

    file: tuple[Path, ...] = setting((), "The .mh file that `compress` wrote.", argument="FILE")
    out: Path | None = setting(None, "The text file to write.")

    def __post_init__(self) -> None:
        if len(self.file) != 1 or self.out is None:
            raise ValueError("one file is decompressed at a time: book.mh --out book.txt")
        refuse_unwritable("--out", self.out, reads=self.file)


COMMANDS = "manyheads.tasks.language.commands"


@dataclass(frozen=True)
class InspectLanguageOptions(InspectTextOptions):
    """Show what every head attends to in a text and in its continuation, as a page in one file;
    live without --out.

    Example: manyheads inspect --model runs/lm "ROMEO:" --out page.html
    """

    max_new_tokens: int = setting(20, "Tokens to write after the text; 0: none.", least=0)

    def look_at_output(self, wrote: str) -> Self:
        return replace(self, text=wrote, max_new_tokens=0)


VERBS = {
    "generate": Verb(GenerateOptions, f"{COMMANDS}:generate"),
    "score": Verb(ScoreOptions, f"{COMMANDS}:score"),
    "inspect": Verb(InspectLanguageOptions, "manyheads.cli.inspect:inspect_text"),
    "evaluate": Verb(EvaluateTextOptions, f"{COMMANDS}:evaluate_text"),
    "compress": Verb(CompressTextOptions, f"{COMMANDS}:pack_text"),
    "decompress": Verb(DecompressTextOptions, f"{COMMANDS}:unpack_text"),
}
