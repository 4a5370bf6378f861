"""Scores that music21 reads, and what is said without it."""

import sys
from pathlib import Path

import pytest

from manyheads.tasks.music.midi import load_midi
from manyheads.tasks.music.notes import Meter, Tempo

TUNE = 'X:1\nM:3/4\nL:1/4\nQ:1/4=100\nK:G\nG B d | "C"c A F |\n'


def test_without_music21_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tune.abc"
    path.write_text(TUNE, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "music21", None)
    with pytest.raises(
        ValueError,
        match=r"tune\.abc: MusicXML and ABC are read by music21: pip install 'manyheads\[scores\]';"
        " or convert it to MIDI, with MuseScore or abc2midi",
    ):
        load_midi(path)


def test_a_score_is_read_as_it_is_written(tmp_path: Path) -> None:
    music21 = pytest.importorskip("music21")
    path = tmp_path / "tune.abc"
    path.write_text(TUNE, encoding="utf-8")
    piece = load_midi(path)
    assert [note.pitch for note in piece.notes] == [67, 71, 74, 72, 69, 66]  # F sharp; no chord
    assert [round(note.start, 6) for note in piece.notes] == [0.0, 0.6, 1.2, 1.8, 2.4, 3.0]
    assert (piece.tempos, piece.meters) == ((Tempo(0.0, 100.0),), (Meter(0.0, 3, 4),))
    score = music21.converter.parseData(TUNE, format="abc")
    for name in ("tune.xml", "tune.musicxml"):
        exporter = music21.musicxml.m21ToXml.GeneralObjectExporter(score)
        (tmp_path / name).write_bytes(exporter.parse())
        assert load_midi(tmp_path / name).notes == piece.notes


def test_a_score_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("music21")
    path = tmp_path / "score.xml"
    path.write_text("<score", encoding="utf-8")
    with pytest.raises(ValueError, match=r"score\.xml: music21 cannot read it: "):
        load_midi(path)
    path = tmp_path / "tunes.abc"
    path.write_text(TUNE + "\n" + TUNE.replace("X:1", "X:2"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"tunes\.abc: it holds several tunes, a file with one is"):
        load_midi(path)
