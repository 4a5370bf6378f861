"""Read running text from files, folders and records, split into documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

from manyheads.data.sources import (
    decode_line,
    files_below,
    find_formats,
    kind_of,
    raw_lines,
    read_lines,
    read_records,
)

MUCH = 2  # times the share to hold out: a last text that is longer is cut
FIELDS = ("text", "content", "document")  # names of the text in a record; the first counts


class Document(NamedTuple):
    """A text, and where it begins."""

    text: str
    path: Path
    line: int  # counted from 1


def read_documents(paths: Sequence[Path], split: str = "file") -> Iterator[Document]:
    """Yield every document that is not blank: a whole file, its lines, its paragraphs, or the texts
    between separators, such as <|endoftext|>.

    A folder stands for all files below it. A .jsonl file has a document per line, whatever `split`
    is.
    """
    check_split(split)
    cut, known = SPLITS.get(split, partial(by_separator, separator=split)), find_formats()
    if not paths:
        raise ValueError("running text comes from files and folders, none were given")
    empty = True
    for file in chain.from_iterable(map(files_of, paths)):
        for document in (read_document_records if kind_of(file) in known else cut)(file):
            if document.text.strip():
                empty = False
                yield document
    if empty:
        raise ValueError(f"there is no text in {', '.join(map(str, paths))}: all of it is blank")


def files_of(path: Path) -> list[Path]:
    """Return the file itself; for a folder, all files that are not hidden, sorted by name."""
    below = files_below(path, lambda file: not any(part.startswith(".") for part in file.parts))
    if not below:
        raise ValueError(f"{path} is a folder without files; text files in it would do")
    return below


def read_document_records(path: Path) -> Iterator[Document]:
    for number, record in read_records(path):
        text = next((record[name] for name in FIELDS if name in record), None)
        if not isinstance(text, str):
            have = ", ".join(record) or "none"
            raise ValueError(
                f"{path}:{number}: no text under {' or '.join(FIELDS)}; its keys are {have}"
            )
        yield Document(text, path, number)


def as_one(path: Path) -> Iterator[Document]:
    """Yield the whole file with its last newline, which a language model should write too."""
    each = enumerate(raw_lines(path), start=1)
    parts = (decode_line(raw, path, number).replace("\r\n", "\n") for number, raw in each)
    yield Document("".join(parts), path, 1)


def by_line(path: Path) -> Iterator[Document]:
    for number, line in enumerate(read_lines(path), start=1):
        yield Document(line, path, number)


def by_blank(path: Path) -> Iterator[Document]:
    """["a", "b", "", "c"] -> "a\\nb" and "c" """
    some: list[str] = []
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            some.append(line)
        elif some:
            yield Document("\n".join(some), path, number - len(some))
            some = []
    if some:
        yield Document("\n".join(some), path, number + 1 - len(some))


def by_separator(path: Path, separator: str) -> Iterator[Document]:
    """Split at a separator; drop one line break on either side of it."""
    (whole,) = as_one(path)
    parts, line = whole.text.split(separator), 1
    if len(parts) == 1:
        raise ValueError(f"{path}: {separator!r} was to separate its documents, and is not in it")
    for part in parts:
        cut = part.removeprefix("\n")
        yield Document(cut.removesuffix("\n"), path, line + len(part) - len(cut))
        line += part.count("\n") + separator.count("\n")


def check_split(split: str) -> None:
    if split not in SPLITS and (not split or split.isalnum()):
        raise ValueError(
            f"a file is split by {', '.join(SPLITS)}, or by a separator with other signs than "
            f"letters and digits, such as <|endoftext|>, got {split!r}"
        )


SPLITS: dict[str, Callable[[Path], Iterator[Document]]] = {
    "file": as_one,
    "line": by_line,
    "blank": by_blank,
}


def hold_out(texts: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Return the training texts, and the last `share` of all characters for validation.

    Of many texts, the last ones that come closest to the share are held out, never all. A single
    text, or a last one that is far longer than the share, is cut where the share begins.
    """
    if not 0 < share < 1:
        raise ValueError(f"the share that is held out is over 0 and under 1, got {share}")
    if not texts:
        raise ValueError("some of a corpus is to be held out, but it has no documents")
    if len(texts) == 1:
        (text,) = texts
        cut = int(len(text) * (1 - share))
        if not text[:cut].strip() or not text[cut:].strip():
            raise ValueError(
                f"a text of {len(text)} characters is too short to hold out a share of {share}; "
                "give a longer one, or files to validate on"
            )
        return [text[:cut]], [text[cut:]]
    held = [*accumulate(len(text) for text in reversed(texts))]
    wanted = share * held[-1]
    cut = int(held[0] - wanted)
    if held[0] > MUCH * wanted and texts[-1][:cut].strip() and texts[-1][cut:].strip():
        return [*texts[:-1], texts[-1][:cut]], [texts[-1][cut:]]
    last = min(range(1, len(texts)), key=lambda n: abs(held[n - 1] - wanted))
    return list(texts[:-last]), list(texts[-last:])
