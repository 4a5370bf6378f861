"""Options that commands of several tasks share, and the commands of a task that adds none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from manyheads.config.declare import setting
from manyheads.tasks.recipe import Options, Verb


@dataclass(frozen=True)
class PredictOptions(Options):
    """Print one line for each line read, with a model of an installed task.

    Example: manyheads predict --model runs/sorting "3 1 2 4"
    """

    texts: tuple[str, ...] = setting((), "Texts; without any, the lines of stdin.", argument="LINE")


@dataclass(frozen=True)
class ExamplesOptions(Options):
    """Measure a model on examples in a file.

    Example: manyheads evaluate --model runs/labels --data test.tsv
    """

    data: Path | None = setting(None, "Examples, in a file like the training file.")
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json")

    def __post_init__(self) -> None:
        if self.data is None:
            raise ValueError("a test set is a file of examples: --data test.tsv")

    @property
    def file(self) -> Path:
        return Path(self.data or "")


@dataclass(frozen=True)
class PageOptions(Options):
    """Where a page goes: into a file, or live."""

    out: Path | None = setting(
        None, "Write the page to this .html file.", instead="live, on this machine alone"
    )
    port: int | None = setting(None, "Port of the live page.", instead="one that is free")
    also: tuple[str, ...] = setting(
        (), "Another model to choose on the live page; can be given several times."
    )

    def check_page(self, given: bool, sentence: str) -> None:
        """Refuse a page that cannot be written or served; a file needs an input that is `given`."""
        if self.port is not None and not 0 < self.port < 65536:
            raise ValueError(f"a port is 1 to 65535, got {self.port}")
        if self.out is None:
            return
        if not given:
            raise ValueError(sentence)
        if self.also:
            raise ValueError("--also is for the live page, and --out writes one of one model")
        refuse_no_page(self.out)


@dataclass(frozen=True)
class InspectOptions(PageOptions):
    """Show what every head attends to, as a page in one file; live without --out.

    Example: manyheads inspect --model de-en "Ein Hund rennt über die Wiese." --out page.html
    """

    text: str | None = setting(None, "The text to inspect.", argument="TEXT")
    versus: str | None = setting(
        None, "Another text with the same number of words, to show the difference."
    )
    versus_model: str | None = setting(
        None, "Another model with the same number of heads, to show the difference on this text."
    )

    page_of: ClassVar[str] = 'a text: manyheads inspect "Guten Tag."'

    def look_at_output(self, wrote: str) -> Self:
        """Return the options for another model, which looks at what this one wrote."""
        return self

    def __post_init__(self) -> None:
        if self.text is not None and not self.text.strip():
            raise ValueError("a text to look at has at least one word, a blank one came")
        if self.versus is not None and self.versus_model is not None:
            raise ValueError("a page is compared with one other: --versus or --versus-model")
        if self.out is None and (self.versus is not None or self.versus_model is not None):
            raise ValueError("a difference is shown by a page in a file: --out page.html")
        self.check_page(self.text is not None, f"a page is of {self.page_of} --out page.html")


@dataclass(frozen=True)
class InspectTextOptions(InspectOptions):
    """Show what every head attends to in a text, as a page in one file; live without --out.

    Example: manyheads inspect --model runs/mlm "A lovely film." --out page.html
    """

    tokens: str | None = setting(None, "In a long text, show the tokens FIRST:LAST one by one.")


VERBS = {
    "predict": Verb(PredictOptions, "manyheads.cli.predict:predict"),
    "evaluate": Verb(ExamplesOptions, "manyheads.cli.predict:evaluate_examples"),
}


def refuse_unwritable(
    name: str, path: Path, ending: str = "", *, reads: Iterable[Path | None] = ()
) -> None:
    """Refuse, before the work, a file that cannot be written: its folder must exist, its ending
    must be this one, and it must not be one of the files that are read.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{name} names a file in a folder that is there, got {path}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{name} {path} cannot be written: you lack the permission")
    if ending and path.suffix.lower() != ending:
        raise ValueError(f"{name} names a {ending} file, got {path}")
    if path.resolve() in {one.resolve() for one in reads if one is not None}:
        raise ValueError(f"{name} names a file to write, and {path} is read; another would do")


def refuse_no_page(path: Path) -> None:
    """Refuse, before the work, a path that cannot be a page."""
    refuse_unwritable("--out", path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out names a .html file, got {path}")


def refuse_no_folder(folder: Path) -> None:
    """Refuse, before the work, a folder for --out that is not there and cannot be made."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"--out names a folder in a folder, {there} is a file")
    if not os.access(there, os.W_OK):
        raise ValueError(f"--out {folder} cannot be written: you lack the permission")
