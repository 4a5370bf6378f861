"""A folder of music, some of it broken."""

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from manyheads.tasks.music.midi import LARGEST, MidiReport, load_midi, read_pieces, save_midi
from manyheads.tasks.music.midi_bytes import write_midi
from manyheads.tasks.music.notes import Note, Piece

PIECE = Piece((Note(0.0, 1.0, 60),))


def test_a_folder_stands_for_the_midi_files_below_it(tmp_path: Path) -> None:
    for name in ("b.mid", "a/c.MIDI", ".hidden/d.mid", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_midi(PIECE, tmp_path / name)
    found = list(read_pieces([tmp_path]))
    assert [one.path.relative_to(tmp_path).as_posix() for one in found] == ["a/c.MIDI", "b.mid"]
    assert found[0].piece == PIECE


def test_a_zip_stands_for_the_midi_files_in_it(tmp_path: Path) -> None:
    midi, path = write_midi(PIECE), tmp_path / "songs.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as held:
        for name in ("b.mid", "a/c.MIDI", "__MACOSX/._b.mid", ".d.mid", "e.txt"):
            held.writestr(name, midi)
        held.writestr("broken.mid", midi[:-3])
        held.writestr("bomb.mid", bytes(LARGEST + 1))
    assert path.stat().st_size < LARGEST / 100
    report = MidiReport()
    found = list(read_pieces([path], report))
    assert [one.path for one in found] == [path / "a/c.MIDI", path / "b.mid"]
    assert found[0].piece == PIECE
    assert str(report).splitlines() == [
        "4 MIDI files read, 2 kept",
        f"  left out: {path}/bomb.mid: it has over 16 MiB unpacked, which no MIDI file has",
        f"  left out: {path}/broken.mid: it is cut short inside a track",
    ]


def test_a_zip_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "songs.zip"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        list(read_pieces([path]))
    path.write_bytes(b"PK and nothing more")
    with pytest.raises(ValueError, match=r"songs\.zip is not a \.zip, or is cut short"):
        list(read_pieces([path]))
    with ZipFile(path, "w") as held:
        held.writestr("a.txt", "a")
    with pytest.raises(ValueError, match=r"songs\.zip is a \.zip without \.mid or \.midi files"):
        list(read_pieces([path]))
    with ZipFile(path, "w") as held:
        held.writestr("a.mid", write_midi(PIECE))
    data = bytearray(path.read_bytes())
    data[50] ^= 1  # what is in it is no longer what its sum says
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"there is no music in .*it cannot be unpacked: Bad CRC"):
        list(read_pieces([path]))


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    save_midi(PIECE, tmp_path / "a" / "b.mid")
    report = MidiReport()
    again = [tmp_path, tmp_path / "a", tmp_path / "a" / ".." / "a" / "b.mid"]
    assert len(list(read_pieces(again, report))) == 1
    assert str(report) == "1 MIDI file read, 1 kept"


def test_a_broken_file_among_many_is_named_left_out_and_counted(tmp_path: Path) -> None:
    for i in range(13):
        save_midi(PIECE, tmp_path / f"{i:02d}.mid")
    (tmp_path / "03.mid").write_bytes((tmp_path / "03.mid").read_bytes()[:-3])
    (tmp_path / "05.mid").write_bytes(b"")
    report = MidiReport()
    assert len(list(read_pieces([tmp_path], report))) == 11
    assert str(report).splitlines() == [
        "13 MIDI files read, 11 kept",
        f"  left out: {tmp_path}/03.mid: it is cut short inside a track",
        f"  left out: {tmp_path}/05.mid: it is empty",
    ]
    for i in range(12):
        (tmp_path / f"{i:02d}.mid").write_bytes(b"")
    report = MidiReport()
    assert len(list(read_pieces([tmp_path], report))) == 1
    assert str(report).endswith("\n  and 2 more")


def test_nothing_to_hear_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="MIDI files and folders of them, none were given"):
        list(read_pieces([]))
    with pytest.raises(ValueError, match=r"is a folder without .mid or .midi files"):
        list(read_pieces([tmp_path]))
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone.mid"):
        list(read_pieces([tmp_path / "gone.mid"]))
    (tmp_path / "bad.mid").write_bytes(b"MThd")
    with pytest.raises(ValueError, match=r"(?s)no music in .*bad.mid: it is cut short"):
        list(read_pieces([tmp_path]))
    with pytest.raises(ValueError, match=r"bad.mid: it is cut short in its head"):
        load_midi(tmp_path / "bad.mid")
