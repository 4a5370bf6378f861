"""The commands of a music model, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from manyheads.config.declare import setting
from manyheads.tasks.music.decoding import MusicDecoding
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import PageOptions, refuse_no_folder, refuse_unwritable

MIDI = (".mid", ".midi")


def is_grids(path: Path) -> bool:
    """Whether the file holds chorales on a grid (.npz); other files are MIDI."""
    return path.suffix.lower() == ".npz"


def refuse_no_grids(music: Sequence[Path]) -> None:
    if not any(map(is_grids, music)):
        raise ValueError(f"--split names a part of an .npz, got {', '.join(map(str, music))}")


@dataclass(frozen=True)
class ComposeOptions(MusicDecoding, Options):
    """Write music to MIDI files, or print it as events.

    Example: manyheads generate --model chorales --out bach.mid

    Example: manyheads generate --model chorales --harmonize melody.mid --out hymn.mid
    """

    count: int = setting(1, "Number of pieces to sample.", least=1)
    prime: Path | None = setting(None, "A MIDI file to continue.")
    seconds: float = setting(30.0, "Length of the new music in seconds, if it does not end before.")
    harmonize: Path | None = setting(
        None, "A MIDI file with a melody: write the other three voices of a chorale."
    )
    voice: str = setting("soprano", "Which voice the melody is: soprano, alto, tenor or bass.")
    track: str | None = setting(
        None,
        "Which track of --harmonize is the melody, by number from 1 or by name.",
        instead="the only one, the voice of four, or the highest",
    )
    out: Path | None = setting(
        None,
        "A .mid file, or a folder for 001.mid, 002.mid, ...; each gets a .wav and a .png. "
        "Without it, events are printed.",
    )
    only_midi: bool = setting(False, "Write no .wav and no .png.")
    soundfont: Path | None = setting(None, "An .sf2 file for the .wav, played by fluidsynth.")

    @classmethod
    def of(cls, **typed: Any) -> Self:
        for name in ("voice", "track"):
            if name in typed and "harmonize" not in typed:
                raise ValueError(
                    f"--{name} says which {name} of --harmonize is given, and that was not"
                )
        for name in ("prime", "seconds", "count", "truncate", "draft"):
            if name in typed and "harmonize" in typed:
                raise ValueError(
                    f"--harmonize writes around all of a melody, once; --{name} is for music "
                    "that goes on"
                )
        asked = cls(**typed)
        asked.check_files()
        return asked

    def check_files(self) -> None:
        if self.only_midi and self.out is None:
            raise ValueError("--only-midi is for files, and no --out was given")
        if self.soundfont is not None and (self.out is None or self.only_midi):
            raise ValueError("--soundfont plays the .wav beside --out, and none is asked for")
        if self.out is None:
            return
        self.check_out(self.out)
        read = self.prime or self.harmonize
        if read is not None and read.resolve() in [path.resolve() for path in self.paths()]:
            raise ValueError(f"--out would write over {read}, which is read; another would do")

    def check_out(self, out: Path) -> None:
        if out.suffix.lower() in MIDI and not out.is_dir():
            if self.count > 1:
                raise ValueError(f"{self.count} pieces need a folder, --out names the file {out}")
            if not out.parent.is_dir():
                raise ValueError(f"there is no folder {out.parent} for --out {out}")
            refuse_unwritable("--out", out)
        elif out.is_file() or (out.suffix and not out.is_dir()):
            raise ValueError(f"--out names a folder or a .mid file, got {out}")
        else:
            refuse_no_folder(out)

    def paths(self) -> list[Path]:
        """Return the one file, or 001.mid, 002.mid, ... in a folder."""
        out = self.out or Path()
        if out.suffix.lower() in MIDI and not out.is_dir():
            return [out]
        return [out / f"{number:03d}.mid" for number in range(1, self.count + 1)]


@dataclass(frozen=True)
class EvaluateMusicOptions(Options):
    """Measure how well a model predicts music, and compare its samples with real music.

    Example: manyheads evaluate --model runs/piano --music test_folder
    """

    music: tuple[Path, ...] = setting(
        (), "MIDI files, folders of MIDI files, or an .npz of chorales; can be given several times."
    )
    split: str = setting("valid", "Split of an .npz.")
    count: int = setting(8, "Number of pieces to sample for the comparison.", least=1)
    seconds: float = setting(
        30.0, "Length of each in seconds, and of the real music that is compared."
    )
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json")

    @classmethod
    def of(cls, **typed: Any) -> Self:
        asked = cls(**typed)
        if not asked.music:
            raise ValueError("a test set is music: --music folder")
        if "split" in typed:
            refuse_no_grids(asked.music)
        return asked


@dataclass(frozen=True)
class LookOptions(Options):
    """Draw which notes a music model attends to.

    Example: manyheads look --model chorales --music bach.mid --layer 1 --out arcs.png
    """

    music: Path | None = setting(None, "The piece, a MIDI file.")
    layer: int = setting(0, "The layer, counted from 0.")
    head: int | None = setting(None, "The head, counted from 0.", instead="all of them")
    at: float | None = setting(
        None, "The note whose attention is drawn, by its time in seconds.", instead="the last"
    )
    out: Path | None = setting(None, "Write a picture to this .png file.")

    def __post_init__(self) -> None:
        if self.music is None:
            raise ValueError("what is looked at is a piece: --music piece.mid")
        if self.out is not None:
            refuse_unwritable("--out", self.out, ".png")


@dataclass(frozen=True)
class InspectMusicOptions(PageOptions):
    """Show which notes every note attends to, as a page in one file that also plays the music; live
    without --out, where the model can continue the piece.

    Example: manyheads inspect --model chorales --music bach.mid --out bach.html

    Example: manyheads inspect --model chorales
    """

    music: Path | None = setting(None, "The piece, a MIDI file.", instead="the model writes one")
    tokens: str | None = setting(None, "In a long piece, show the tokens FIRST:LAST one by one.")

    def __post_init__(self) -> None:
        self.check_page(
            self.music is not None, "a page is of a piece: --music piece.mid --out page.html"
        )


@dataclass(frozen=True)
class CompressMusicOptions(Options):
    """Compress music without loss, with the probabilities of a model.

    Example: manyheads compress hymns/ --model chorales --out hymns.mh
    """

    files: tuple[Path, ...] = setting(
        (), "MIDI files, folders of MIDI files, or an .npz of chorales.", argument="FILES"
    )
    split: str = setting("valid", "Split of an .npz.")
    as_heard: bool = setting(
        False,
        "Compress music even if the notation of the model changes it; keep what the model hears.",
    )
    out: Path | None = setting(None, "The .mh file to write.")

    @classmethod
    def of(cls, **typed: Any) -> Self:
        asked = cls(**typed)
        if not asked.files:
            raise ValueError("what is to be compressed? a MIDI file or a folder of them would do")
        if "split" in typed:
            refuse_no_grids(asked.files)
        if asked.out is None or asked.out.suffix != ".mh":
            raise ValueError("compressed music is written to a .mh file: --out hymns.mh")
        refuse_unwritable("--out", asked.out)
        return asked


@dataclass(frozen=True)
class DecompressMusicOptions(Options):
    """Restore compressed music, as MIDI; the file names its model.

    Example: manyheads decompress hymns.mh --out folder/
    """

    file: tuple[Path, ...] = setting((), "The .mh file that `compress` wrote.", argument="FILE")
    out: Path | None = setting(None, "A folder for the MIDI files.")

    def __post_init__(self) -> None:
        if len(self.file) != 1 or self.out is None:
            raise ValueError("one file is decompressed at a time: hymns.mh --out folder/")
        if self.out.suffix.lower() in MIDI and not self.out.is_dir():
            raise ValueError(f"music is written into a folder: --out folder/, got {self.out}")
        refuse_no_folder(self.out)


COMMANDS = "manyheads.tasks.music.commands"
VERBS = {
    "generate": Verb(ComposeOptions, f"{COMMANDS}:generate"),
    "evaluate": Verb(EvaluateMusicOptions, f"{COMMANDS}:evaluate_pieces"),
    "inspect": Verb(InspectMusicOptions, f"{COMMANDS}:inspect"),
    "look": Verb(LookOptions, f"{COMMANDS}:look"),
    "compress": Verb(CompressMusicOptions, f"{COMMANDS}:compress_music"),
    "decompress": Verb(DecompressMusicOptions, f"{COMMANDS}:decompress_music"),
}
