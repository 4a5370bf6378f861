"""What generate and evaluate do for models of music, and look."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.cli.options import (
    DeviceOption,
    ModelOption,
    loaded_as,
    refuse_no_folder,
    refuse_unwritable,
)
from manyheads.tasks.music.decoding import VOICE_LEADING as VOICE_LEADING

if TYPE_CHECKING:
    from manyheads.tasks.music.model import Musician
    from manyheads.tasks.music.notes import Piece

SOPRANO = "soprano"
SECONDS = 30.0
MIDI = (".mid", ".midi")


@dataclass(frozen=True)
class Wanted:
    """What generate was asked for that only music has."""

    prime: Path | None = None
    seconds: float = SECONDS
    harmonize: Path | None = None
    voice: str = SOPRANO
    track: str | None = None
    out: Path | None = None
    only_midi: bool = False
    soundfont: Path | None = None

    def check(self, count: int, given: set[str]) -> None:
        """Refuse what does not go together, before anything is loaded."""
        if self.harmonize is None and "voice" in given:
            raise ValueError("--voice says which voice of --harmonize is given, and that was not")
        if self.harmonize is None and "track" in given:
            raise ValueError("--track says which track of --harmonize is given, and that was not")
        if self.harmonize is not None:
            for other in ("prime", "seconds", "count", "truncate"):
                if other in given:
                    raise ValueError(
                        f"--harmonize writes around all of a melody, once; --{other} is for music "
                        "that goes on"
                    )
        if self.only_midi and self.out is None:
            raise ValueError("--only-midi is for files, and no --out was given")
        if self.soundfont is not None and (self.out is None or self.only_midi):
            raise ValueError("--soundfont plays the .wav beside --out, and none is asked for")
        if self.soundfont is not None:
            from manyheads.tasks.music.sound import player_of

            player_of(self.soundfont)
        if self.out is None:
            return
        if self.out.suffix.lower() in MIDI and not self.out.is_dir():
            if count > 1:
                raise ValueError(f"{count} pieces need a folder, --out names the file {self.out}")
            if not self.out.parent.is_dir():
                raise ValueError(f"there is no folder {self.out.parent} for --out {self.out}")
            refuse_unwritable("--out", self.out)
        elif self.out.is_file() or (self.out.suffix and not self.out.is_dir()):
            raise ValueError(f"--out names a folder or a .mid file, got {self.out}")
        else:
            refuse_no_folder("--out", self.out)
        read = self.prime or self.harmonize
        if read is not None and read.resolve() in [p.resolve() for p in paths(self.out, count)]:
            raise ValueError(f"--out would write over {read}, which is read; another would do")


# ---- generate --------------------------------------------------------------------------------


def generate(model: Musician, wanted: Wanted, count: int, how: dict[str, Any]) -> None:
    """Into files with --out, else event by event onto the screen."""
    if wanted.out is None and wanted.harmonize is None:
        show(model, wanted, count, how)
        return
    began = time.perf_counter()
    pieces, seconds = written(model, wanted, count, how)
    took = time.perf_counter() - began
    if wanted.out is None:
        codec = model.task.codec
        for text in events(codec.pieces(codec.encode(pieces[0])), codec.beat):
            print(text, end="")
        return
    for piece, path in zip(pieces, paths(wanted.out, count), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        print(keep(piece, path, wanted), flush=True)
    print(f"{seconds:.1f} s of music in {took:.1f} s: {seconds / took:.2g} times real time")


def written(
    model: Musician, wanted: Wanted, count: int, how: dict[str, Any]
) -> tuple[list[Piece], float]:
    """The pieces, and how many seconds of them are new."""
    if wanted.harmonize is not None:
        from manyheads.tasks.music.melody import melody_of

        drawn = {name: value for name, value in how.items() if name != "truncate"}
        melody, choice = melody_of(opened(wanted.harmonize), wanted.voice, wanted.track)
        for line in choice:
            print(line, file=sys.stderr)
        piece = model.harmonize(melody, wanted.voice, shown=counted, **drawn)
        return [piece], piece.seconds
    from manyheads.cli.screen import filling

    prime = None if wanted.prime is None else opened(wanted.prime)
    with filling(wanted.seconds * count, "seconds") as told:
        found = model.compose(prime, wanted.seconds, count, told, **how)
    return [one.piece for one in found], sum(one.seconds for one in found)


def counted(tokens: Sequence[int]) -> Iterator[int]:
    """A melody of minutes takes as long to harmonize: a terminal shows how far it is."""
    from manyheads.cli.screen import passing

    return passing(tokens, len(tokens), "tokens")


def opened(path: Path) -> Piece:
    from manyheads.tasks.music.midi import load_midi

    return load_midi(path)


def show(model: Musician, wanted: Wanted, count: int, how: dict[str, Any]) -> None:
    prime = None if wanted.prime is None else opened(wanted.prime)
    for number in range(count):
        coming = model.stream(prime, wanted.seconds, number, **how)
        for text in events((said for said, _ in coming), model.task.codec.beat):
            print(text, end="", flush=True)
        if count > 1:
            print("-" * 20, flush=True)


def events(said: Iterator[str] | list[str], beat: int) -> Iterator[str]:
    """With spaces between; a line for each step of all voices, or until time passes."""
    fresh = True  # whether a line begins here
    for number, label in enumerate(said, start=1):
        before = "" if fresh else " "
        fresh = number % beat == 0 if beat > 1 else label.startswith(("+", "Bar"))
        yield f"{before}{label}" + "\n" * fresh
    if not fresh:
        yield "\n"


def paths(out: Path, count: int) -> list[Path]:
    """One file, or 001.mid, 002.mid, ... of a folder."""
    if out.suffix.lower() in MIDI and not out.is_dir():
        return [out]
    return [out / f"{number:03d}.mid" for number in range(1, count + 1)]


def keep(piece: Piece, path: Path, wanted: Wanted) -> str:
    """The file, and beside it how it sounds and looks; a line to tell of it."""
    from manyheads.tasks.music import sound
    from manyheads.tasks.music.midi import save_midi
    from manyheads.tasks.music.roll import Roll

    save_midi(piece, path)
    if not piece.notes:
        return f"{path}: no notes"
    told = f"{path}: {len(piece.notes):,} notes, {piece.seconds:.1f} s"
    if wanted.only_midi:
        return told
    sound.save_sound(piece, path.with_suffix(".wav"), wanted.soundfont)
    Roll(piece).save(path.with_suffix(".png"))
    return f"{told}; to hear {path.with_suffix('.wav')}, to see {path.with_suffix('.png')}"


# ---- evaluate --------------------------------------------------------------------------------


def measured(
    model: str, music: list[Path], split: str, drawn: tuple[int, float], device: str | None
) -> dict[str, Any]:
    """How likely the model finds this music, and what it is like beside what the model writes."""
    from manyheads.cli.screen import passing
    from manyheads.tasks.music.evaluation import of_music
    from manyheads.tasks.music.model import Musician

    loaded = loaded_as(Musician, model, device)
    pieces = pieces_of(music, split)
    shown = partial(passing, total=len(pieces), what="pieces", done="read")
    return of_music(loaded, pieces, *drawn, shown)


def pieces_of(music: list[Path], split: str) -> list[tuple[str, Piece]]:
    """All pieces of these files, each with where it stands; what cannot be read is told of."""
    from manyheads.tasks.music.chorales import piece_of
    from manyheads.tasks.music.corpus import VALID
    from manyheads.tasks.music.grids import read_grids
    from manyheads.tasks.music.midi import MidiReport, read_pieces
    from manyheads.tasks.music.settings import is_grids

    found: list[tuple[str, Piece]] = []
    for path in filter(is_grids, music):
        held = read_grids(path)
        names = VALID if split in VALID else (split,)
        name = next((name for name in names if name in held), None)
        if name is None:
            raise ValueError(f"{path} has the splits {', '.join(held)}, --split asks for {split}")
        found += [(f"{path}, {name} {i}", piece_of(grid)) for i, grid in enumerate(held[name])]
    if files := [path for path in music if not is_grids(path)]:
        report = MidiReport()
        found += [(str(path), piece) for piece, path in read_pieces(files, report)]
        if report.left_out:
            print(report, file=sys.stderr)
    return [(where, piece) for where, piece in found if piece.notes]


# ---- look ------------------------------------------------------------------------------------


def look(
    model: ModelOption,
    music: Annotated[Path, typer.Option(help="The piece to look at, a MIDI file.")],
    layer: Annotated[int, typer.Option(help="Counted from 0.")] = 0,
    head: Annotated[
        int | None, typer.Option(help="Counted from 0.", show_default="all of them")
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(help="Whose attention: a note at so many seconds.", show_default="the last"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write a picture to this .png file.")] = None,
    device: DeviceOption = None,
) -> None:
    """Show which notes a model of music looks back at."""
    from manyheads.tasks.music.model import Musician

    if out is not None:
        refuse_unwritable("--out", out)
    if out is not None and out.suffix.lower() != ".png":
        raise ValueError(f"--out names a .png file, got {out}")
    loaded = loaded_as(Musician, model, device)
    arcs = loaded.look(opened(music), layer, head, at)
    print(arcs)
    if out is not None:
        replace(arcs, title=f"{model}: {arcs.title}").save(out)
        print(f"\npicture: {out}")
