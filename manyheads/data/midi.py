"""Where music comes from: MIDI files, and folders of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from manyheads.codecs.midi import read, write
from manyheads.codecs.notes import Piece

ENDINGS = (".mid", ".midi")
SHOWN = 10  # files that were left out, by name


class Found(NamedTuple):
    """A piece, and where it stands."""

    piece: Piece
    path: Path


@dataclass
class Report:
    """Which files were left out and why: prints as a person would want to read it."""

    read: int = 0
    left_out: dict[Path, str] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        return self.read - len(self.left_out)

    def __str__(self) -> str:
        files = "file" if self.read == 1 else "files"
        lines = [f"{self.read:,} MIDI {files} read, {self.kept:,} kept"]
        shown = list(self.left_out.items())[:SHOWN]
        lines += [f"  left out: {path}: {reason}" for path, reason in shown]
        more = len(self.left_out) - len(shown)
        return "\n".join(lines + [f"  and {more:,} more"] * (more > 0))


def pieces(paths: Sequence[Path], report: Report | None = None) -> Iterator[Found]:
    """The music of every file that can be read, one at a time, the report filled as they pass.

    A folder stands for all MIDI files below it; a file that is named twice is read once. A broken
    one is left out; that all are is refused.
    """
    if not paths:
        raise ValueError("music comes from MIDI files and folders of them, none were given")
    report = Report() if report is None else report
    for file in {file.resolve(): file for path in paths for file in files_of(path)}.values():
        report.read += 1
        try:
            piece = load(file)
        except ValueError as error:
            report.left_out[file] = str(error).removeprefix(f"{file}: ")
        else:
            yield Found(piece, file)
    if report.read == 1 and report.left_out:
        ((file, reason),) = report.left_out.items()
        raise ValueError(f"there is no music in {file}: {reason}")
    if not report.kept:
        raise ValueError(f"there is no music in {', '.join(map(str, paths))}: {report}")


def files_of(path: Path) -> list[Path]:
    """A file itself; of a folder all MIDI files that are not hidden, in the order of the names."""
    if not path.is_dir():
        return [path]
    below = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not below:
        raise ValueError(f"{path} is a folder without {' or '.join(ENDINGS)} files")
    return below


def load(path: Path) -> Piece:
    """One piece; a file that holds none is refused with the reason."""
    try:
        return read(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise ValueError(f"one MIDI file is read here, {path} is a folder") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def save(piece: Piece, path: str | Path) -> None:
    Path(path).write_bytes(write(piece))
