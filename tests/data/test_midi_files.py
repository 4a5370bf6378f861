"""A folder of music, some of it broken."""

from pathlib import Path

import pytest

from manyheads.codecs.notes import Note, Piece
from manyheads.data.midi import Report, load, pieces, save

PIECE = Piece((Note(0.0, 1.0, 60),))


def test_a_folder_stands_for_the_midi_files_below_it(tmp_path: Path) -> None:
    for name in ("b.mid", "a/c.MIDI", ".hidden/d.mid", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save(PIECE, tmp_path / name)
    found = list(pieces([tmp_path]))
    assert [one.path.relative_to(tmp_path).as_posix() for one in found] == ["a/c.MIDI", "b.mid"]
    assert found[0].piece == PIECE


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    save(PIECE, tmp_path / "a" / "b.mid")
    report = Report()
    again = [tmp_path, tmp_path / "a", tmp_path / "a" / ".." / "a" / "b.mid"]
    assert len(list(pieces(again, report))) == 1
    assert str(report) == "1 MIDI file read, 1 kept"


def test_a_broken_file_among_many_is_named_left_out_and_counted(tmp_path: Path) -> None:
    for i in range(13):
        save(PIECE, tmp_path / f"{i:02d}.mid")
    (tmp_path / "03.mid").write_bytes((tmp_path / "03.mid").read_bytes()[:-3])
    (tmp_path / "05.mid").write_bytes(b"")
    report = Report()
    assert len(list(pieces([tmp_path], report))) == 11
    assert str(report).splitlines() == [
        "13 MIDI files read, 11 kept",
        f"  left out: {tmp_path}/03.mid: it is cut short inside a track",
        f"  left out: {tmp_path}/05.mid: it is empty",
    ]
    for i in range(12):
        (tmp_path / f"{i:02d}.mid").write_bytes(b"")
    report = Report()
    assert len(list(pieces([tmp_path], report))) == 1
    assert str(report).endswith("\n  and 2 more")


def test_nothing_to_hear_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="MIDI files and folders of them, none were given"):
        list(pieces([]))
    with pytest.raises(ValueError, match=r"is a folder without .mid or .midi files"):
        list(pieces([tmp_path]))
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone.mid"):
        list(pieces([tmp_path / "gone.mid"]))
    (tmp_path / "bad.mid").write_bytes(b"MThd")
    with pytest.raises(ValueError, match=r"(?s)no music in .*bad.mid: it is cut short"):
        list(pieces([tmp_path]))
    with pytest.raises(ValueError, match=r"bad.mid: it is cut short in its head"):
        load(tmp_path / "bad.mid")
