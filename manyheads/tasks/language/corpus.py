"""Running text before the first step: read, some of it held out, turned to numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from manyheads.codecs.text import Text
from manyheads.config.declare import check, setting
from manyheads.data.documents import check_split, documents, hold_out
from manyheads.data.shards import write as write_shard
from manyheads.data.windows import framed as between_signs
from manyheads.training.files import write_text
from manyheads.training.run import CORPUS, Run

BYTES = "valid.bytes"
CHARACTERS_A_TOKEN = 4  # about, where a token is more than a character


@dataclass(frozen=True)
class Running:
    """Where running text comes from, and how much of it is read at a time."""

    text: tuple[Path, ...] = setting((), "Files, folders, .jsonl.")
    valid_text: tuple[Path, ...] = setting((), "The same, for validation.")
    split: str = setting(
        "file",
        "What a document is: a file, a line, what is between blank lines (blank), or between "
        "separators, which are any other text, such as <|endoftext|>.",
    )
    held_out: float = setting(
        0.1,
        "Share to validate on, the last of it, where no text for it is given.",
        above=0,
        below=1,
    )
    context: int = setting(256, "Tokens that are read at a time.", least=4, most=10**7)
    imported: Path | None = setting(None, "Where a model came from that was not trained here.")

    def __post_init__(self) -> None:
        nothing = "nothing to learn from: give text, a file or a folder"
        check(self, () if self.text or self.imported else (nothing,))
        check_split(self.split)


@dataclass(frozen=True)
class Texts:
    """Documents to train on and documents to validate on."""

    train: list[str]
    valid: list[str]

    def characters(self) -> int:
        return sum(map(len, self.train))

    def __str__(self) -> str:
        documents = "document" if len(self.train) == 1 else "documents"
        return (
            f"{len(self.train):,} {documents} of {self.characters():,} characters to train on, "
            f"{sum(map(len, self.valid)):,} characters to validate on"
        )


def gather(data: Running) -> Texts:
    if not data.text:
        raise ValueError(f"nothing to learn from: {data.imported} is a model, not a text")
    train = [document.text for document in documents(data.text, data.split)]
    if data.valid_text:
        valid = [document.text for document in documents(data.valid_text, data.split)]
    else:
        train, valid = hold_out(train, data.held_out)
    return Texts(train, valid)


def about(characters: int, codec: str) -> int:
    """Tokens in so many characters, before the vocabulary is known."""
    return characters if codec in ("character", "byte") else characters // CHARACTERS_A_TOKEN


def prepare(texts: Texts, codec: Text, run: Run, framed: bool) -> None:
    """Lay the documents down as numbers: each between its signs, or as it stands."""
    folder = run / "data"
    folder.mkdir(exist_ok=True)
    codec.save(run / "tokenizer.json")
    for name, some in (("train", texts.train), ("valid", texts.valid)):
        rows = between_signs(some, codec) if framed else (codec.encode(one) for one in some)
        write_shard(folder / name, rows, codec.size)
    held = sum(len(document.encode()) for document in texts.valid)
    write_text(folder / BYTES, f"{held}\n")
    run.text(CORPUS, f"{texts}\n")


def held_bytes(run: Run) -> int:
    """Of the text to validate on."""
    return int((run / "data" / BYTES).read_text(encoding="utf-8"))


def learned(texts: Texts, kind: str, size: int, masked: bool = False) -> Text:
    """The vocabulary of these documents, from pieces of some lines: on all cores."""
    return Text.train(pieces(texts.train), kind, size, masked)


def pieces(texts: Sequence[str], lines: int = 1000) -> Iterator[str]:
    for text in texts:
        held = text.splitlines(keepends=True)
        for i in range(0, len(held), lines):
            yield "".join(held[i : i + lines])
