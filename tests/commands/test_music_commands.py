"""generate, evaluate and look for models of music, as a person types them."""

import json
import struct
import wave
from itertools import chain
from pathlib import Path

import books
import numpy as np
import pytest
import tunes
from typed import Command, Refuses

from manyheads import catalog
from manyheads.models import load
from manyheads.tasks.music.chorales import grid_of, piece_of, read_grids
from manyheads.tasks.music.commands import format_events
from manyheads.tasks.music.midi import load_midi
from manyheads.tasks.music.midi_bytes import write_midi
from manyheads.tasks.music.notes import Note, Piece, Voice

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def choir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tunes.chorales(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def piano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tunes.performances(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.language(tmp_path_factory.getbasetemp())


# ---- generate --------------------------------------------------------------------------------


def test_a_file_has_its_sound_and_its_picture_beside_it(
    manyheads: Command, piano: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new.mid"
    done = manyheads("generate", "--model", piano, "--seconds", 1, "--out", out, *CPU)
    assert (done.code, done.err) == (0, "")
    piece = load_midi(out)
    told, speed = done.out.splitlines()
    assert told.startswith(f"{out}: {len(piece.notes)} notes, ")
    assert told.endswith(f"; to hear {tmp_path}/new.wav, to see {tmp_path}/new.png")
    assert speed.endswith("times real time")
    with wave.open(str(tmp_path / "new.wav")) as sound:
        assert sound.getnframes() / sound.getframerate() >= piece.seconds
    assert (tmp_path / "new.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_has_a_file_for_each_piece(
    manyheads: Command, choir: Path, tmp_path: Path
) -> None:
    given = ("generate", "--model", choir, "--seconds", 1, "--count", 3, "--only-midi", *CPU)
    done = manyheads(*given, "--out", tmp_path / "new" / "pieces")
    assert (done.code, done.err) == (0, "")
    files = sorted((tmp_path / "new" / "pieces").iterdir())
    assert [file.name for file in files] == ["001.mid", "002.mid", "003.mid"]
    assert len({file.read_bytes() for file in files}) == 3
    again = tmp_path / "again.mid"
    manyheads(*given[:5], "--only-midi", *CPU, "--out", again)
    assert again.read_bytes() == files[0].read_bytes()


def test_a_beginning_is_played_on_from(manyheads: Command, choir: Path, tmp_path: Path) -> None:
    prime = tunes.midi(tunes.chorale(8), tmp_path / "prime.mid")
    given = ("generate", "--model", choir, "--prime", prime, "--seconds", 1.5, *CPU)
    assert manyheads(*given, "--out", tmp_path / "new.mid").code == 0
    wanted = grid_of(load_midi(prime))
    assert grid_of(load_midi(tmp_path / "new.mid"))[:8].tolist() == wanted.tolist()


def test_without_a_file_events_are_written_as_they_come(
    manyheads: Command, choir: Path, piano: Path
) -> None:
    sung = manyheads("generate", "--model", choir, "--seconds", 1, *CPU).out.splitlines()
    assert 1 <= len(sung) <= 7
    assert {len(line.split()) for line in sung[:-1]} <= {4}
    played = manyheads("generate", "--model", piano, "--seconds", 1, "--count", 2, *CPU).out
    assert played.count("-" * 20) == 2
    assert all(line.count("+") <= 1 for line in played.splitlines())


def test_only_chorales_have_voices_to_lead(refuses: Refuses, piano: Path) -> None:
    given = ("generate", "--model", piano, "--voice-leading", 2, *CPU)
    refuses(f"--voice-leading is for models of chorales, {piano} is none", *given)


def test_a_line_is_a_step_or_what_happens_at_once() -> None:
    assert "".join(format_events(["C5", "G4", "E4", "C3", "</s>"], 4)) == "C5 G4 E4 C3\n</s>\n"
    assert "".join(format_events(["v62", "C4↓", "+10ms", "C4↑"], 1)) == "v62 C4↓ +10ms\nC4↑\n"
    assert "".join(format_events([], 1)) == ""


def test_a_melody_is_harmonized(manyheads: Command, choir: Path, tmp_path: Path) -> None:
    melody = tunes.midi(tunes.chorale(8), tmp_path / "melody.mid")
    given = ("generate", "--model", choir, "--harmonize", melody, "--voice", "bass", *CPU)
    done = manyheads(*given, "--out", tmp_path / "four.mid", "--only-midi")
    assert (done.code, done.err) == (0, "")
    found = grid_of(load_midi(tmp_path / "four.mid"))
    assert found[:, 3].tolist() == grid_of(load_midi(melody))[:, 3].tolist()
    lines = manyheads(*given).out.splitlines()
    assert len(lines) == 8


def test_a_song_of_several_tracks_is_harmonized_and_the_choice_is_told(
    manyheads: Command, choir: Path, tmp_path: Path
) -> None:
    sung = [Note(i * 0.5, i * 0.5 + 0.5, 72, 90 + i, 1) for i in range(4)]
    chords = [Note(i, i + 1, pitch, 50, 0) for i in range(2) for pitch in (60, 64)]
    song = Piece((*sung, *chords), (Voice("guitar"), Voice("tune")))
    melody, out = tunes.midi(song, tmp_path / "song.mid"), tmp_path / "four.mid"
    given = ("generate", "--model", choir, "--harmonize", melody, *CPU, "--only-midi", "--out", out)
    done = manyheads(*given)
    told = "the melody is track 2, tune, the highest of 2; --track names another\n"
    assert (done.code, done.err) == (0, told)
    first = [note for note in load_midi(out).notes if note.voice == 0]
    assert first == [note._replace(voice=0) for note in sung]  # four notes, not a long one
    named = manyheads(*given, "--track", "guitar", "--voice-leading", 0)
    assert (named.code, named.err) == (0, "left out: 2 notes under the melody\n")
    assert [note.pitch for note in load_midi(out).notes if note.voice == 0] == [64, 64]


def test_silence_before_a_melody_is_not_counted_as_written(
    manyheads: Command, choir: Path, tmp_path: Path
) -> None:
    late = Piece(tuple(Note(9 + i * 0.5, 9.5 + i * 0.5, 72) for i in range(4)))
    melody, out = tunes.midi(late, tmp_path / "late.mid"), tmp_path / "four.mid"
    given = ("generate", "--model", choir, "--harmonize", melody, *CPU, "--only-midi", "--out", out)
    assert manyheads(*given).out.splitlines()[-1].startswith("2.0 s of music in ")


def test_a_melody_under_a_pedal_is_not_hidden_by_what_rings_on(
    manyheads: Command, choir: Path, tmp_path: Path
) -> None:
    falling = [Note(i * 0.5, i * 0.5 + 0.4, pitch) for i, pitch in enumerate((79, 72, 71))]
    chord = Note(0.0, 0.4, 60)  # as it is no single line, what is under a long note is left out
    song, out = write_midi(Piece((*falling, chord))), tmp_path / "four.mid"
    head, tempo, sung = song.split(b"MTrk")
    held = struct.pack(">I", len(sung)) + bytes([0, 0xB0, 64, 127]) + sung[4:]
    (tmp_path / "song.mid").write_bytes(b"MTrk".join([head, tempo, held]))
    assert load_midi(tmp_path / "song.mid").notes[1].end > 1
    given = ("generate", "--model", choir, "--harmonize", tmp_path / "song.mid", *CPU)
    assert manyheads(*given, "--only-midi", "--out", out).code == 0
    found = [note for note in load_midi(out).notes if note.voice == 0]
    assert [(n.pitch, round(n.end - n.start, 2)) for n in found] == [
        (79, 0.4),
        (72, 0.4),
        (71, 0.4),
    ]


def test_a_terminal_shows_how_far_a_harmony_is(
    manyheads: Command, choir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    melody = tunes.midi(tunes.chorale(8), tmp_path / "melody.mid")
    given = ("generate", "--model", choir, "--harmonize", melody, *CPU)
    plain = manyheads(*given)
    monkeypatch.setenv("FORCE_COLOR", "1")  # stderr passes for a terminal
    done = manyheads(*given)
    assert "33 of 33 tokens written" in done.err  # eight steps of four voices, and the end
    assert (done.code, done.out) == (0, plain.out)
    assert plain.err == ""


def test_a_terminal_shows_how_much_music_there_is(
    manyheads: Command, choir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("generate", "--model", choir, "--seconds", 2, "--count", 2, "--only-midi", *CPU)
    assert manyheads(*given, "--out", tmp_path).err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = manyheads(*given, "--out", tmp_path)
    assert done.code == 0
    assert " of 4 seconds written" in done.err


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ("--prompt", "C"),
            "--prompt is for models of language, {model} is one of music",
        ),
        (("--json",), "--json is for models of language, {model} is one of music"),
        (("--track", "2"), "--track says which track of --harmonize is given, and that was not"),
        (("--voice", "alto"), "--voice says which voice of --harmonize is given, and that was not"),
        (
            ("--harmonize", "x.mid", "--seconds", "3"),
            "--harmonize writes around all of a melody, once; --seconds is for music that goes on",
        ),
        (
            ("--harmonize", "x.mid", "--truncate"),
            "--harmonize writes around all of a melody, once; --truncate is for music that goes on",
        ),
        (("--out", "{midi}/more"), "--out names a folder in a folder, {midi} is a file"),
        (
            ("--out", "x.mid", "--soundfont", "{midi}"),
            "{midi} is no soundfont: it does not begin as .sf2 files do",
        ),
        (("--out", "new.wav"), "--out names a folder or a .mid file, got new.wav"),
        (("--out", "nowhere/x.mid"), "there is no folder nowhere for --out nowhere/x.mid"),
        (
            ("--out", "x.mid", "--count", "2"),
            "2 pieces need a folder, --out names the file x.mid",
        ),
        (("--only-midi",), "--only-midi is for files, and no --out was given"),
        (
            ("--soundfont", "x.sf2"),
            "--soundfont plays the .wav beside --out, and none is asked for",
        ),
        (("--soundfont", "x.sf2", "--out", "x.mid"), "there is no soundfont x.sf2"),
        (("--prime", "."), "one MIDI file is read here, . is a folder"),
        (("--prime", "x.mid"), "there is no file x.mid"),
        (("--seconds", "0"), "over 0 and up to 3600 seconds of music are written, got 0"),
        (("--temperature", "-1"), "a temperature is a finite number from 0 (greedy) up, got -1.0"),
        (
            ("--harmonize", "{midi}", "--voice", "viola"),
            "the voices are soprano, alto, tenor, bass; 'viola' was asked for",
        ),
        (
            ("--prime", "{hand}"),
            "a chorale has 4 voices, each in a track of its own; this piece has 1",
        ),
        (
            ("--prime", "{midi}"),
            "the beginning has 161 tokens and the context 128; shorten it, or read its end "
            "alone: --truncate, truncate=True",
        ),
    ],
)
def test_what_cannot_be_asked_of_music_is_refused(
    given: tuple[str, ...], sentence: str, refuses: Refuses, choir: Path, tmp_path: Path
) -> None:
    names = {
        "model": choir,
        "midi": tunes.midi(tunes.chorale(40), tmp_path / "four.mid"),
        "hand": tunes.midi(tunes.performance(), tmp_path / "hand.mid"),
    }
    typed = [each.format(**names) for each in given]
    refuses(sentence.format(**names), "generate", "--model", choir, *CPU, *typed)


@pytest.mark.parametrize("given", [("--prime", "x.mid"), ("--seconds", "3"), ("--out", "x.mid")])
def test_what_is_of_music_is_refused_by_a_model_of_text(
    given: tuple[str, ...], refuses: Refuses, writer: Path
) -> None:
    sentence = f"{given[0]} is for models of music, {writer} is one of language"
    refuses(sentence, "generate", "--model", writer, "--prompt", "a", *CPU, *given)


def test_a_model_that_does_not_write_says_what_it_is_for(
    refuses: Refuses, choir: Path, run: Path
) -> None:
    refuses(
        f"{run} is a model for translation; `manyheads translate --model {run}` is what it is for",
        "generate",
        "--model",
        run,
        *CPU,
    )
    refuses(
        f"{choir} is a model for music; `manyheads generate --model {choir}` is what it is for",
        "score",
        "--model",
        choir,
        *CPU,
    )


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    refuses: Refuses, choir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr("os.access", lambda path, how: asked.append(path))
    monkeypatch.setattr("manyheads.tasks.music.model.compose", None)  # it would not be found
    given = ("--model", choir, *CPU)
    for out in (tmp_path / "new.mid", tmp_path / "new"):
        sentence = f"--out {out} cannot be written: you lack the permission"
        refuses(sentence, "generate", *given, "--out", out)
    sentence = f"--out {tmp_path}/x.png cannot be written: you lack the permission"
    refuses(sentence, "look", *given, "--music", "x.mid", "--out", tmp_path / "x.png")
    assert asked == [tmp_path] * 3


def test_what_is_read_is_not_written_over(refuses: Refuses, choir: Path, tmp_path: Path) -> None:
    given = ("generate", "--model", choir, *CPU)
    read = tunes.midi(tunes.chorale(8), tmp_path / "001.mid")
    before = read.read_bytes()
    sentence = f"--out would write over {read}, which is read; another would do"
    refuses(sentence, *given, "--prime", read, "--out", tmp_path / ".." / tmp_path.name / "001.mid")
    refuses(sentence, *given, "--harmonize", read, "--out", read)
    refuses(sentence, *given, "--prime", read, "--count", 2, "--out", tmp_path)
    assert read.read_bytes() == before


def test_the_model_that_is_built_in_sings_four_voices(
    manyheads: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(catalog, "BUILT_IN", Path(catalog.__file__).parent / "builtin")
    out = tmp_path / "bach.mid"
    given = ("generate", "--model", "chorales", "--seconds", 6, "--only-midi", *CPU)
    assert manyheads(*given, "--out", out).code == 0
    piece = load_midi(out)
    assert [voice.name for voice in piece.voices] == ["soprano", "alto", "tenor", "bass"]
    assert 16 <= len(piece.notes) <= 96
    grid = grid_of(piece)
    assert len(grid) == 32  # six seconds are whole steps, and it ends on one
    assert piece.seconds == pytest.approx(32 * 0.1875)
    assert ((grid >= 36) & (grid <= 84)).all()  # as people sing, and nobody rests
    crossed = (np.diff(grid.astype(int), axis=1) > 0).mean()
    assert crossed < 0.1  # in Bach's chorales too some voices cross
    again = tmp_path / "again.mid"
    manyheads(*given, "--out", again)
    assert again.read_bytes() == out.read_bytes()


# ---- evaluate --------------------------------------------------------------------------------


def test_music_is_measured_and_compared_with_what_the_model_writes(
    manyheads: Command, choir: Path
) -> None:
    music = choir.parent / "chorales.npz"
    given = ("evaluate", "--model", choir, "--music", music, "--count", 2, "--seconds", 3, *CPU)
    told = json.loads(manyheads(*given, "--json").out)
    assert told["examples"] == 4
    assert told["tokens"] == 4 * (16 + 20 + 24 + 28) + 4
    model, held = load(choir, "cpu"), read_grids(music)["valid"]
    logs = [model.score(piece_of(grid)).logs for grid in held]
    loss, notes = (-np.mean([*chain(*each)]) for each in (logs, [some[:-1] for some in logs]))
    assert told["scores"]["loss"]["value"] == pytest.approx(loss, abs=1e-4)
    assert told["scores"]["notes"]["value"] == pytest.approx(notes, abs=1e-4)
    assert told["statistics"]["data"]["pieces"] == 4
    assert 1 <= told["statistics"]["drawn"]["pieces"] <= 2
    assert 0 <= told["pitch_classes_apart"] <= 1
    test = json.loads(manyheads(*given, "--json", "--split", "test").out)
    assert test["statistics"]["data"] != told["statistics"]["data"]
    lines = manyheads(*given).out.splitlines()
    assert lines[0].startswith(f"{choir}: 4 examples in ")
    assert "  the first 3 s of each piece, and as much drawn" in lines
    assert any(line.startswith("  notes a second") for line in lines)
    assert lines[-1] == f"  pitch classes apart: {told['pitch_classes_apart']:.3f} of 1"


def test_a_folder_of_performances_is_measured(manyheads: Command, piano: Path) -> None:
    music = piano.parent / "midi"
    given = ("evaluate", "--model", piano, "--music", music, "--count", 2, "--seconds", 2, *CPU)
    told = json.loads(manyheads(*given, "--json").out)
    assert told["examples"] == 4
    assert told["statistics"]["data"]["notes"] > 4
    assert told["statistics"]["drawn"]["seconds"] <= 2 * 2, "as much drawn, and no more"


def test_a_broken_file_among_others_is_named_and_left_out(
    manyheads: Command, piano: Path, tmp_path: Path
) -> None:
    good = tunes.midi(tunes.performance(), tmp_path / "good.mid")
    (tmp_path / "bad.mid").write_bytes(good.read_bytes()[:-20])
    given = ("evaluate", "--model", piano, "--count", 1, "--seconds", 2, "--json", *CPU)
    done = manyheads(*given, "--music", tmp_path)
    assert json.loads(done.out)["examples"] == 1
    assert done.err.splitlines() == [
        "2 MIDI files read, 1 kept",
        f"  left out: {tmp_path}/bad.mid: it is cut short inside a track",
    ]


def test_what_cannot_be_measured_is_refused(
    refuses: Refuses, choir: Path, piano: Path, tmp_path: Path
) -> None:
    music = choir.parent / "chorales.npz"
    given = ("evaluate", "--model", choir, *CPU)
    refuses("a test set is music: --music folder", *given, "--seconds", 3)
    midi = tunes.midi(tunes.chorale(8), tmp_path / "four.mid")
    sentence = f"--split names a part of an .npz, got {midi}"
    refuses(sentence, *given, "--music", midi, "--split", "test")
    both = ("--music", music, "--text", music)
    refuses(f"--text is for models of language, {choir} is one of music", *given, *both)
    refuses(
        f"{music} has the splits train, valid, test, --split asks for other",
        *(*given, "--music", music, "--split", "other"),
    )
    hand = tunes.midi(tunes.performance(), tmp_path / "hand.mid")
    refuses(
        f"{hand}: a chorale has 4 voices, each in a track of its own; this piece has 1",
        *(*given, "--music", hand),
    )


# ---- look ------------------------------------------------------------------------------------


def test_a_note_shows_what_it_looks_back_at(
    manyheads: Command, choir: Path, tmp_path: Path
) -> None:
    music = tunes.midi(tunes.chorale(12), tmp_path / "four.mid")
    given = ("look", "--model", choir, "--music", music, "--layer", 1, "--head", 0, *CPU)
    done = manyheads(*given, "--out", tmp_path / "arcs.png")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("layer 1 at ")
    assert lines[1].startswith("head 0, ")
    assert lines[-1] == f"picture: {tmp_path}/arcs.png"
    assert (tmp_path / "arcs.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_looked_at_is_refused(refuses: Refuses, choir: Path, tmp_path: Path) -> None:
    music = tunes.midi(tunes.chorale(12), tmp_path / "four.mid")
    given = ("look", "--model", choir, "--music", music, *CPU)
    refuses("layers are numbered 0 to 1, 7 was asked for", *given, "--layer", 7)
    refuses("--out names a .png file, got x.pdf", *given, "--out", "x.pdf")
    refuses(
        "--out names a file in a folder that is there, got no/x.png", *given, "--out", "no/x.png"
    )
