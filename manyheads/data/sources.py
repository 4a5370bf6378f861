"""Read lines, pairs of lines, and records, from plain or compressed files."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
Records = Iterator[tuple[int, dict[str, Any]]]  # records, each with its line or number


class Example(NamedTuple):
    """A source, its target, and their line."""

    source: str
    target: str
    line: int  # counted from 1
    others: tuple[str, ...] = ()  # other targets that are as good

    @property
    def references(self) -> list[str]:
        return [self.target, *self.others]


def files_below(path: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    """Return the file itself; for a folder, those whose path in it is `wanted`, sorted by name."""
    if not path.is_dir():
        return [path]
    below = sorted(path.rglob("*"))
    return [file for file in below if wanted(file.relative_to(path)) and file.is_file()]


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; only a newline ends a line, so that U+2028 stays inside."""
    for number, raw in enumerate(raw_lines(path), start=1):
        yield decode_line(raw.removesuffix(b"\n").removesuffix(b"\r"), path, number)


def raw_lines(path: Path) -> Iterator[bytes]:
    """Yield lines with their ends, without a byte order mark before the first."""
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield from (first.removeprefix(BOM_UTF8) for first in islice(file, 1))
            yield from file
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile):
        raise ValueError(
            f"{path} is cut short or is not what its name says; pack it again"
        ) from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder, a file of lines was asked for") from None
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None


def decode_line(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}:{number}: byte {error.start + 1} is 0x{raw[error.start]:02x}, which is not "
            "UTF-8; `iconv -t UTF-8` makes it so"
        ) from None


def require_utf8(text: str, where: str) -> str:
    """Return the text; refuse what is none, and one that cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise ValueError(f"{where} is a {type(text).__name__}, a str would do")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise ValueError(f"{where}: {half!a} is half of a character, which is no text") from None
    return text


def read_aligned(source: Path, target: Path) -> Iterator[Example]:
    """Pair line i of one file with line i of the other; refuse files of different length."""
    nothing = object()
    both = zip_longest(read_lines(source), read_lines(target), fillvalue=nothing)
    for number, (one, other) in enumerate(both, start=1):
        if one is nothing or other is nothing:
            raise ValueError(describe_misaligned(source, target, number))
        yield Example(str(one), str(other), number)


def describe_misaligned(source: Path, target: Path, number: int) -> str:
    """Return both counts, and the first place that looks wrong, often long before the end."""
    counts = [sum(1 for _ in read_lines(path)) for path in (source, target)]
    sentence = (
        f"{source} has {counts[0]} lines and {target} {counts[1]}, but line i of one is the "
        f"translation of line i of the other; line {number} has no partner"
    )
    for place, (one, other) in enumerate(
        zip(read_lines(source), read_lines(target), strict=False), start=1
    ):
        if bool(one.strip()) != bool(other.strip()):
            return f"{sentence}, and line {place} is empty in only one of them"
    return sentence


def read_columns(path: Path) -> Iterator[Example]:
    """Yield the source and the target of each line, separated by a tab; ignore further columns."""
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if len(cells) < 2:
            raise ValueError(
                f"{path}:{number}: a source, a tab and a target were asked for, no tab is here"
            )
        yield Example(cells[0], cells[1], number)


def kind_of(path: Path) -> str:
    """train.TSV.gz -> .tsv"""
    return (path.with_suffix("") if path.suffix in OPENERS else path).suffix.lower()


def json_lines(path: Path) -> Records:
    """Yield the JSON object on each line, with the line's number."""
    yield from parse_records(read_lines(path), path)


GROUP = "manyheads.formats"  # entry points of installed formats: ending = "module:function"
FORMATS: dict[str, Callable[[Path], Records]] = {".jsonl": json_lines}


def find_formats() -> dict[str, Callable[[Path], Records]]:
    """Return how to read files of records, by their ending: built-in and installed formats."""
    return {f".{point.name}": point.load() for point in entry_points(group=GROUP)} | FORMATS


def read_records(path: Path) -> Records:
    """Read records by the file's ending; a JSON object per line where the ending is unknown."""
    yield from find_formats().get(kind_of(path), json_lines)(path)


def parse_records(texts: Iterable[str], path: Path) -> Records:
    for number, line in enumerate(texts, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number}:{error.colno}: not JSON: {error.msg}") from None
        if "\\ud" in line.lower():  # an escape may be half of a surrogate pair
            require_utf8(json.dumps(record, ensure_ascii=False), f"{path}:{number}")
        if not isinstance(record, dict):
            raise ValueError(
                f"{path}:{number}: a JSON object was asked for, got a {type(record).__name__}"
            )
        yield number, record
