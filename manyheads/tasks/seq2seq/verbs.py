"""The commands of a model that reads a source and writes a target, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from manyheads.config.declare import setting, with_default
from manyheads.decoding.config import BEAM, SEARCH, DecodingConfig, choose_beam
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import InspectTextOptions, refuse_unwritable


def refuse_both_inputs(records: bool, texts: Sequence[str]) -> None:
    if records and texts:
        raise ValueError("--records reads stdin, and texts were given too; one of them is enough")


@dataclass(frozen=True)
class TranslateOptions(DecodingConfig, Options):
    """Translate, summarize or answer, as the model was trained to.

    The command prints one line for each line, as soon as it is read, in the same order.
    For a text of several lines, or a question with its text, use --records: one JSON object per
    line, as in a .jsonl file.

    Example: manyheads translate "Ich habe keine Zeit."

    Example: manyheads translate --model runs/de-en < in.txt > out.txt
    """

    texts: tuple[str, ...] = setting((), "Texts; without any, the lines of stdin.", argument="TEXT")
    records: bool = setting(
        False,
        "Read one JSON object per line from stdin, with the fields of the training file: a "
        "source, a document, or a context with questions.",
    )
    as_json: bool = setting(
        False, "Print one JSON object per line: text, score, word alignment.", flag="--json"
    )
    prefix: str = setting("", "Beginning of each output.")
    long: str | None = setting(
        None,
        "For a line with several sentences, or one that is too long: split translates each "
        "sentence alone, truncate reads the beginning, refuse ends with an error.",
        instead="split for translations, else truncate",
    )
    precision: str = setting(
        "float32",
        "int8: matrix products in 8 bits, faster on a CPU; bfloat16: faster on a GPU. Both cost "
        "little quality.",
    )
    beam: int = with_default(DecodingConfig, "beam", BEAM)
    nbest: int = setting(
        0,
        "Print this many of the best outputs, each with the number of its source (from 1) and "
        "its score (log-probability / length ** penalty), separated by tabs.",
        instead="only the best, without number and score",
        panel=SEARCH,
        least=0,
    )

    @classmethod
    def of(cls, **typed: Any) -> Self:
        refuse_both_inputs(typed.get("records", False), typed.get("texts", ()))
        drawn = typed.get("temperature", 0) != 0
        if drawn and typed.get("nbest", 1) > 1:
            raise ValueError(
                "a --temperature draws one, --nbest lists what a beam found; ask for one"
            )
        if typed.get("nbest", 1) < 1:
            raise ValueError(f"--nbest is 1 or more, got {typed['nbest']}")
        return cls(**{**typed, "beam": choose_beam(typed.get("beam"), typed)})

    def decoding(self) -> DecodingConfig:
        own = {one.name: getattr(self, one.name) for one in fields(DecodingConfig)}
        return DecodingConfig(**{**own, "nbest": max(1, self.nbest)})


@dataclass(frozen=True)
class EvaluateOptions(Options):
    """Measure a model on a test set, alone or against another.

    Metrics: BLEU and chrF (sacreBLEU) for translations, ROUGE for summaries, exact match and F1
    for answers.

    Example: manyheads evaluate --model runs/de-en --source test.de --reference test.en
    """

    source: Path | None = setting(None, "Source texts, one per line.")
    reference: Path | None = setting(None, "Reference for each source, one per line.")
    pairs: Path | None = setting(None, "Source and reference in one file, .tsv or .jsonl.")
    against: str | None = setting(
        None, "Another model to compare with, by a paired bootstrap test."
    )
    write_to: Path | None = setting(
        None, "Write the outputs of the model to this file.", flag="--write"
    )
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json")
    beam: int = with_default(DecodingConfig, "beam", BEAM)
    length_penalty: float = with_default(DecodingConfig, "length_penalty", 1.0)
    passes: int = with_default(DecodingConfig, "passes", 10)
    lengths: int = with_default(DecodingConfig, "lengths", 3)
    tokenize: str | None = setting(
        None,
        "Tokenizer of sacreBLEU: 13a, zh, ja-mecab, char; none if the texts are already tokenized.",
        instead="by the script of the references",
    )
    metric: tuple[str, ...] = setting((), "Another metric; can be given several times.")

    def __post_init__(self) -> None:
        files = {"--source": self.source, "--reference": self.reference, "--pairs": self.pairs}
        given = [name for name, path in files.items() if path is not None]
        if given not in (["--source", "--reference"], ["--pairs"]):
            raise ValueError(
                "a test set is --source with --reference, or --pairs alone; "
                f"got {' and '.join(given) or 'none of them'}"
            )
        if self.write_to is not None:
            refuse_unwritable("--write", self.write_to, reads=files.values())
        self.decoding()

    def decoding(self) -> DecodingConfig:
        names = ("beam", "length_penalty", "passes", "lengths")
        return DecodingConfig(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class DistillOptions(Options):
    """Let a model write new targets for the sources of a corpus, to train another model on.

    Example: manyheads distill --model runs/de-en --data train.tsv --out distilled.tsv
    """

    data: Path | None = setting(None, "Sources and targets in one file, .tsv or .jsonl.")
    source: Path | None = setting(None, "Or source texts, one per line.")
    target: Path | None = setting(None, "With --source: the existing targets, one per line.")
    out: Path | None = setting(None, "File to write, with the new targets: .tsv or .jsonl.")
    beam: int = with_default(DecodingConfig, "beam", BEAM)

    def __post_init__(self) -> None:
        files = {"--data": self.data, "--source": self.source, "--target": self.target}
        given = [name for name, path in files.items() if path is not None]
        if given not in (["--data"], ["--source", "--target"]):
            raise ValueError(
                "a corpus is --data alone, or --source with --target; "
                f"got {' and '.join(given) or 'none of them'}"
            )
        if self.out is None or self.out.suffix not in (".tsv", ".jsonl"):
            raise ValueError(f"--out names a .tsv or .jsonl file, got {self.out}")
        refuse_unwritable("--out", self.out, reads=files.values())
        DecodingConfig(beam=self.beam)


@dataclass(frozen=True)
class InspectTranslationOptions(InspectTextOptions):
    """Show what every head attends to while the model writes, as a page in one file; live without
    --out, to type, click and change.

    Example: manyheads inspect --model de-en "Ein Hund rennt über die Wiese." --out page.html

    Example: manyheads inspect --model de-en
    """

    written: str | None = setting(
        None, "Inspect this output instead of the model's own.", instead="what the model writes"
    )

    def look_at_output(self, wrote: str) -> Self:
        return replace(self, written=wrote)


COMMANDS = "manyheads.tasks.seq2seq.commands"
VERBS = {
    "translate": Verb(TranslateOptions, f"{COMMANDS}:translate"),
    "inspect": Verb(InspectTranslationOptions, "manyheads.cli.inspect:inspect_text"),
    "evaluate": Verb(EvaluateOptions, f"{COMMANDS}:evaluate_pairs"),
    "distill": Verb(DistillOptions, f"{COMMANDS}:distill"),
}
