"""Read MIDI files, folders and .zip files of them, and scores; write MIDI files."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile, ZipInfo

from manyheads.data.sources import files_below
from manyheads.tasks.music.midi_bytes import read_midi, write_midi
from manyheads.tasks.music.notes import Piece
from manyheads.tasks.music.scores import KINDS, read_score
from manyheads.tasks.music.verbs import MIDI

ZIP = ".zip"
LARGEST = 16 << 20  # bytes of a file in a .zip: hours of dense music
SHOWN = 10  # most files left out that a report names


class Found(NamedTuple):
    """A piece and the path it was read from."""

    piece: Piece
    path: Path


@dataclass
class MidiReport:
    """How many files were read, which were left out and why; `str` gives a text for the user."""

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


def read_pieces(paths: Sequence[Path], report: MidiReport | None = None) -> Iterator[Found]:
    """Yield the piece of every file that can be read, and add each file to the report.

    A folder or a .zip stands for all MIDI files in it; a file that is named twice is read once.
    Broken files are left out; if all are broken, raise a ValueError.
    """
    if not paths:
        raise ValueError("music comes from MIDI files and folders of them, none were given")
    report = MidiReport() if report is None else report
    for file in {file.resolve(): file for path in paths for file in files_of(path)}.values():
        packed = file.suffix.lower() == ZIP
        for name, load_one in (
            read_zip_members(file) if packed else [(file, partial(load_midi, file))]
        ):
            report.read += 1
            try:
                piece = load_one()
            except ValueError as error:
                report.left_out[name] = str(error).removeprefix(f"{name}: ")
            else:
                yield Found(piece, name)
    if report.read == 1 and report.left_out:
        ((file, reason),) = report.left_out.items()
        raise ValueError(f"there is no music in {file}: {reason}")
    if not report.kept:
        raise ValueError(f"there is no music in {', '.join(map(str, paths))}: {report}")


def files_of(path: Path) -> list[Path]:
    """Return the file, or all MIDI files of a folder that are not hidden, sorted by name."""
    below = files_below(path, is_midi)
    if not below:
        raise ValueError(f"{path} is a folder without {' or '.join(MIDI)} files")
    return below


def is_midi(path: Path) -> bool:
    """Whether the path ends as a MIDI file, and is not hidden nor added to a .zip by macOS."""
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return path.suffix.lower() in MIDI and not hidden


def read_zip_members(path: Path) -> Iterator[tuple[Path, Callable[[], Piece]]]:
    """Yield the MIDI files of a .zip: path and a loader; nothing is unpacked onto the disk."""
    try:
        with ZipFile(path) as held:
            found = sorted(held.infolist(), key=lambda one: one.filename)
            inside = [(path / one.filename, one) for one in found if is_midi(Path(one.filename))]
            if not inside:
                raise ValueError(f"{path} is a .zip without {' or '.join(MIDI)} files")
            for name, one in inside:
                yield name, partial(unpack, held, one)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except BadZipFile:
        raise ValueError(f"{path} is not a .zip, or is cut short") from None


def unpack(held: ZipFile, one: ZipInfo) -> Piece:
    try:
        with held.open(one) as file:
            data = file.read(LARGEST + 1)  # do not trust the size in the .zip
    except (BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
        raise ValueError(f"it cannot be unpacked: {error}") from None
    if len(data) > LARGEST:
        raise ValueError(f"it has over {LARGEST >> 20} MiB unpacked, which no MIDI file has")
    return read_midi(data)


def load_midi(path: str | Path, pedal: bool = True) -> Piece:
    """Read one piece; with `pedal`, notes last as long as the pedal holds them, else as long as the
    keys are down. A file without music raises a ValueError with the reason.
    """
    path = Path(path)
    try:
        data, ending = path.read_bytes(), path.suffix.lower()
        return read_score(data, ending) if ending in KINDS else read_midi(data, pedal)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise ValueError(f"one MIDI file is read here, {path} is a folder") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def save_midi(piece: Piece, path: str | Path) -> None:
    Path(path).write_bytes(write_midi(piece))
