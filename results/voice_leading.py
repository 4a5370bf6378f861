"""Count voice-leading faults in Bach's chorales, and in what the built-in model writes.

python results/voice_leading.py jsb16th_flat.npz melodies.zip

The table of docs/music.md: parallel fifths and octaves, and crossings, in the test chorales, in
compositions of the model, and in its harmonizations: of sopranos of the test chorales, and of
melodies of songs (tracks named MELODY in MIDI files), each with and without a penalty.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from manyheads import models
from manyheads.tasks.music.chorales import piece_of, read_grids
from manyheads.tasks.music.decoding import MusicDecoding
from manyheads.tasks.music.midi import read_pieces
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Piece, drop_first_silence
from manyheads.tasks.music.statistics import Statistics, cut_opening

COMPOSED, COMPOSED_SECONDS = 24, 20.0
HARMONIZED, HARMONIZED_SECONDS = 12, 12.0
HEAD = f"| {'':<40} | parallels in 1000 moves | time with voices crossed | nats a note |"


def row(name: str, found: Sequence[Piece], model: Musician) -> str:
    one = Statistics.of(found)
    nats = sum(model.score(piece).notes for piece in found) / len(found)
    return f"| {name:<40} | {one.parallels:23.2f} | {one.crossed:24.2%} | {nats:11.3f} |"


def main(chorales: Path, songs: Path) -> None:
    model = models.load("chorales", "cpu")
    assert isinstance(model, Musician)
    print(HEAD, "|---|---|---|---|", sep="\n")
    bach = [piece_of(grid) for grid in read_grids(chorales)["test"]]
    print(row("Bach, 77 test chorales", bach, model), flush=True)
    melodies = [melody(found.piece) for found in islice(read_pieces([songs]), HARMONIZED)]
    for penalty in (0.0, MusicDecoding.voice_leading):
        told = f", penalty {penalty:g}"
        composed = model.compose(seconds=COMPOSED_SECONDS, count=COMPOSED, voice_leading=penalty)
        print(row("composed" + told, [one.piece for one in composed], model), flush=True)
        for name, given in (("Bach's sopranos", bach[:HARMONIZED]), ("songs", melodies)):
            written = [
                model.harmonize(cut_opening(piece, HARMONIZED_SECONDS), voice_leading=penalty)
                for piece in given
            ]
            print(row(f"harmonized, {name}{told}", written, model), flush=True)


def melody(piece: Piece) -> Piece:
    """Return the melody from its first note on, an octave higher if it is too low for a soprano."""
    voice = next(i for i, one in enumerate(piece.voices) if one.name == "MELODY")
    notes = tuple(note._replace(voice=0) for note in piece.notes if note.voice == voice)
    alone = drop_first_silence(Piece(notes, (piece.voices[voice],), piece.tempos, piece.meters))
    low = sum(note.pitch for note in notes) / len(notes) < 64
    higher = (note._replace(pitch=note.pitch + 12 * low) for note in alone.notes)
    return Piece(tuple(higher), alone.voices, alone.tempos, alone.meters)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
