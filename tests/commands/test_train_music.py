"""train music, as a person types it: little folders of music, and what is wrong with some."""

import struct
from pathlib import Path
from typing import Any

import books
import midis
import numpy as np
import pytest
import tunes
from typed import Command, Refuses

from manyheads.cli.compare import settings_for
from manyheads.models import load
from manyheads.tasks.music.chorales import grid_of
from manyheads.tasks.table import load_recipe
from manyheads.training.run import CORPUS, METRICS, RECIPE, Run

CPU = ("--device", "cpu")
FEW = [*books.SMALL, "data.context=32", "training.steps=3", "training.validate_every=3"]
FEW += ["training.warmup_steps=1", "training.checkpoint_every=2"]


def songs(path: Path) -> Path:
    grids = [grid_of(tunes.chorale(12 + 4 * i, seed=i)) for i in range(5)]
    held: dict[str, Any] = {}
    for name, some in (("train", grids[:3]), ("valid", grids[3:4]), ("test", grids[4:])):
        held[f"{name}_notes"] = np.concatenate(some)
        held[f"{name}_lengths"] = np.array([len(grid) for grid in some])
    np.savez(path, **held)
    return path


def bytes_of(*tracks: bytes, ticks: int = 100) -> bytes:
    head = b"MThd" + struct.pack(">IHHH", 6, 1, len(tracks), ticks)
    return head + b"".join(b"MTrk" + struct.pack(">I", len(t)) + t for t in tracks)


END = bytes([0, 0xFF, 0x2F, 0])
DRUMS = bytes_of(bytes([0, 0x99, 40, 80, 100, 0x89, 40, 0]) + END)
EMPTY = bytes_of(END)
FILM = bytes_of(bytes([0, 0x90, 60, 80, 100, 0x80, 60, 0]) + END, ticks=0xE728)


# ---- trained ---------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--network", "recurrent"), ("--augment", "none")])
def test_a_folder_of_midi_is_learned_from(
    more: tuple[str, ...], manyheads: Command, tmp_path: Path
) -> None:
    music, out = midis.folder(tmp_path / "music"), tmp_path / "run"
    settings = settings_for("recurrent" if "recurrent" in more else "transformer", FEW)
    done = manyheads("train", "music", "--music", music, *more, "--out", out, *CPU, *settings)
    assert done.code == 0, done.err
    assert "5 MIDI files read, 5 kept" in done.err
    assert "held out: 1 piece, drawn by seed 0" in done.err
    assert ("transposed" in done.err) == ("stretched" in done.err) == ("--augment" not in more)
    assert done.err.splitlines()[-1] == f"done: `manyheads generate --model {out}` uses it"
    assert load(out).kind == "music"


def test_an_npz_of_chorales_is_learned_from(manyheads: Command, tmp_path: Path) -> None:
    out, path = tmp_path / "run", songs(tmp_path / "songs.npz")
    done = manyheads("train", "music", "--music", path, "--out", out, *CPU, *FEW)
    assert done.code == 0, done.err
    recipe = load_recipe(out / RECIPE)
    assert (recipe.codec.kind, recipe.network.token_types) == ("chorales", 4)
    validated = [line["valid"] for line in Run(out).lines(METRICS) if "valid" in line]
    assert [[*scores] for scores in validated] == [["notes", "perplexity", "loss"]]
    assert load(out).network.voices == 4


def test_steps_and_pitches_are_measured_where_that_is_asked_for(
    manyheads: Command, tmp_path: Path
) -> None:
    out, path = tmp_path / "run", songs(tmp_path / "songs.npz")
    settings = [*FEW, "network.relative=ScoreContent(16)", "network.position=Sinusoidal()"]
    done = manyheads("train", "music", "--music", path, "--out", out, *CPU, *settings)
    assert done.code == 0, done.err
    assert load(out).network.measured


def test_music_to_validate_on_may_be_given(manyheads: Command, tmp_path: Path) -> None:
    music, others = midis.folder(tmp_path / "music"), midis.folder(tmp_path / "others", 2)
    given = ("--music", music, "--valid-music", others, "--out", tmp_path / "run")
    done = manyheads("train", "music", *given, *CPU, *FEW)
    assert done.code == 0, done.err
    told = (tmp_path / "run" / CORPUS).read_text(encoding="utf-8")
    assert told.startswith("5 pieces of ")
    assert "held out" not in told


# ---- mistakes --------------------------------------------------------------------------------


def test_broken_files_among_many_are_named_skipped_and_counted(
    manyheads: Command, tmp_path: Path
) -> None:
    music = midis.folder(tmp_path / "music")
    whole = (music / "00.mid").read_bytes()
    reasons = {
        "cut.mid": (whole[:-9], "it is cut short inside a track"),
        "drums.mid": (DRUMS, "only drums are in it"),
        "empty.mid": (EMPTY, "no notes are in it"),
        "film.mid": (FILM, "its time is counted in frames of film (SMPTE), not in quarter notes"),
        "text.mid": (b"hello", "it does not begin with MThd as MIDI files do"),
    }
    for name, (data, _) in reasons.items():
        (music / name).write_bytes(data)
    done = manyheads("train", "music", "--music", music, "--out", tmp_path / "run", *CPU, *FEW)
    assert done.code == 0, done.err
    told = (tmp_path / "run" / CORPUS).read_text(encoding="utf-8").splitlines()
    assert told[1:7] == [
        "10 MIDI files read, 5 kept",
        *(f"  left out: {music}/{name}: {reason}" for name, (_, reason) in reasons.items()),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (DRUMS, "only drums are in it"),
        (EMPTY, "no notes are in it"),
        (FILM, "its time is counted in frames of film (SMPTE), not in quarter notes"),
    ],
)
def test_a_file_without_music_is_refused_with_the_reason(
    data: bytes, reason: str, manyheads: Command, tmp_path: Path
) -> None:
    path = tmp_path / "one.mid"
    path.write_bytes(data)
    done = manyheads("train", "music", "--music", path, "--out", tmp_path / "run", *CPU, *FEW)
    assert done.code == 2
    assert done.err == f"manyheads: there is no music in {path}: {reason}\n"
    assert not (tmp_path / "run").exists()


def test_a_folder_without_midi_is_refused(refuses: Refuses, tmp_path: Path) -> None:
    (tmp_path / "music").mkdir()
    (tmp_path / "music" / "notes.txt").write_text("do re mi")
    given = ("--music", tmp_path / "music", "--out", tmp_path / "run", *CPU)
    sentence = f"{tmp_path}/music is a folder without .mid or .midi files"
    refuses(sentence, "train", "music", *given)


def test_an_npz_of_pickles_is_refused(refuses: Refuses, tmp_path: Path) -> None:
    path = tmp_path / "songs.npz"
    np.savez(path, train=np.array([[1], None], dtype=object))
    sentence = (
        f"{path} is not an .npz of plain numbers; pickled arrays are not read: save each "
        "split as <split>_notes and <split>_lengths"
    )
    refuses(sentence, "train", "music", "--music", path, "--out", tmp_path / "run", *CPU)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("", "nothing to learn from: give music, a folder of MIDI files or an .npz"),
        ("--music {0}/gone.mid", "there is no file {0}/gone.mid"),
        (
            "--music {0}/music {0}/songs.npz",
            "{0}/songs.npz stands where settings do (training.steps=200): a file needs its option "
            "before it, each time anew, and a folder would do for many",
        ),
        (
            "--text {0}/book.txt",
            "music has no option --text; it learns from --music, --valid-music, --augment",
        ),
        (
            "--music {0}/music --augment louder",
            "--augment is transpose, stretch, both with a comma between them, or none; "
            "got 'louder'",
        ),
        (
            "--music {0}/songs.npz --augment transpose,stretch",
            "codec.kind: chorales counts in beats, which no stretching of time changes; "
            "data.augment: [transpose] would do",
        ),
        (
            "--music {0}/music training.tokens_per_batch=3 data.context=16",
            "training.tokens_per_batch=3 has no room for the longest example, which has 16 tokens; "
            "training.tokens_per_batch=16 or a lower data.context would do",
        ),
    ],
)
def test_what_was_not_meant_is_told(
    given: str, sentence: str, manyheads: Command, tmp_path: Path
) -> None:
    midis.folder(tmp_path / "music")
    songs(tmp_path / "songs.npz")
    asked = given.format(tmp_path).split()
    done = manyheads("train", "music", *asked, "--out", tmp_path / "run", *CPU)
    assert done.code == 2
    assert done.err == f"manyheads: {sentence.format(tmp_path)}\n"


def test_a_dry_run_names_what_is_left_out(manyheads: Command, tmp_path: Path) -> None:
    folder = midis.folder(tmp_path / "midi")
    (folder / "broken.mid").write_bytes(b"MThd")
    small = ("network.width=16", "network.heads=2", "network.depth=1")
    done = manyheads("train", "music", "--music", folder, "--dry-run", "--device", "cpu", *small)
    assert (done.code, done.err) == (0, "")
    assert f"#   left out: {folder}/broken.mid: it is cut short in its head\n" in done.out
    assert "# held out: 1 piece, drawn by seed 0\n" in done.out
