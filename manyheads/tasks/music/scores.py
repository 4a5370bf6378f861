"""Read MusicXML and ABC with music21 (extra `scores`)."""

from __future__ import annotations

from importlib import import_module

from manyheads.tasks.music.midi_bytes import read_midi
from manyheads.tasks.music.notes import Piece

KINDS = {".musicxml": "musicxml", ".xml": "musicxml", ".abc": "abc"}


def read_score(data: bytes, ending: str) -> Piece:
    """Read the notes of a score; each part is a voice, chord symbols are not played."""
    try:
        music21 = import_module("music21")
        translate = import_module("music21.midi.translate")
    except ImportError:
        raise ValueError(
            "MusicXML and ABC are read by music21: pip install 'manyheads[scores]'; or convert it "
            "to MIDI, with MuseScore or abc2midi"
        ) from None
    try:
        # parseData, because parse caches what it reads as pickles.
        score = music21.converter.parseData(data.decode("utf-8"), format=KINDS[ending])
        several = isinstance(score, music21.stream.Opus)
        symbols = [] if several else list(score[music21.harmony.ChordSymbol])
        score.remove(symbols, recurse=True)
        played = b"" if several else translate.music21ObjectToMidiFile(score).writestr()
    except Exception as error:  # a broken score may raise anything in music21
        raise ValueError(f"music21 cannot read it: {error}") from None
    if several:
        raise ValueError("it holds several tunes, a file with one is read")
    return read_midi(played)
