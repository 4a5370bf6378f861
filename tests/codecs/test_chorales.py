"""Four voices that come back to the last rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.codecs.text import BOS, EOS
from manyheads.tasks.music import midi_bytes as midi
from manyheads.tasks.music.chorales import (
    LONGEST_STEPS,
    Chorales,
    Grid,
    grid_of,
    piece_of,
)
from manyheads.tasks.music.notes import Note, Piece, Tempo, Voice

CODEC = Chorales()
VOICES = tuple(Voice(name) for name in "SATB")
CHORD = np.array([[72, 67, 64, 48]] * 4 + [[74, 67, 64, -1]] * 2, dtype=np.int16)

grids = st.lists(st.lists(st.integers(-1, 127), min_size=4, max_size=4), min_size=1, max_size=12)


@given(grids)
def test_a_grid_comes_back(rows: list[list[int]]) -> None:
    grid = np.array(rows, dtype=np.int16)
    assert (CODEC.grid(CODEC.flatten(grid)) == grid).all()


@given(grids)
def test_a_grid_can_be_heard_and_written_down_again(rows: list[list[int]]) -> None:
    rows = [*rows, [60, 55, 52, 48]]  # a rest at the end is heard by nobody
    grid = np.array(rows, dtype=np.int16)
    assert (grid_of(piece_of(grid)) == grid).all()
    assert CODEC.encode(CODEC.render(CODEC.flatten(grid))) == CODEC.flatten(grid)
    assert (grid_of(midi.read_midi(midi.write_midi(piece_of(grid)))) == grid).all()


@given(st.lists(st.integers(-5, CODEC.size + 5)))
def test_any_numbers_are_music(ids: list[int]) -> None:
    assert len(CODEC.render(ids).voices) == 4
    assert len(CODEC.pieces(ids)) == len(ids)


def test_voices_take_turns() -> None:
    ids = CODEC.flatten(CHORD)
    assert CODEC.pieces(ids[:4]) == ["C5", "G4", "E4", "C3"]
    assert CODEC.pieces(ids[-4:]) == ["D5", "G4", "E4", "–"]
    assert CODEC.render([BOS, *ids, EOS]) == CODEC.render(ids)


def test_a_run_of_a_pitch_is_one_note() -> None:
    piece = piece_of(CHORD, Piece((), tempos=(Tempo(0.0, 60.0),)))
    alto = [note for note in piece.notes if note.voice == 1]
    assert [(note.start, note.end) for note in alto] == [(0.0, 1.5)]


def test_notes_go_to_the_nearest_sixteenth() -> None:
    notes = (
        Note(0.02, 0.51, 72, voice=0),  # a quarter at 120 a minute, a little late
        Note(0.5, 0.52, 74, voice=0),  # short, but there
        Note(0.0, 9.0, 48, voice=3),  # held until the voice sings something else
        Note(0.25, 0.625, 50, voice=3),
    )
    grid = grid_of(Piece(notes, VOICES))
    assert grid[:, 0].tolist() == [72, 72, 72, 72, 74]
    assert grid[:, 3].tolist() == [48, 48, 50, 50, 50]
    slow = grid_of(Piece(notes[:1], VOICES, (Tempo(0.0, 60.0),)))
    assert slow[:, 0].tolist() == [72, 72]


def test_transposing_leaves_rests() -> None:
    ids = CODEC.flatten(CHORD)
    (lower,) = CODEC.tables([-2])
    assert CODEC.pieces(lower[[*ids, EOS]].tolist()[-5:]) == ["C5", "F4", "D4", "–", "</s>"]
    assert CODEC.room(ids) == range(-27, 35)


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (np.zeros((3, 3), dtype=np.int16), r"steps by 4 voices .* got int16 of shape \(3, 3\)"),
        (np.zeros((3, 4)), "got float64 of shape"),
        (np.full((3, 4), 128, dtype=np.int16), "pitches 0 to 127, and -1 for a rest; got 128"),
    ],
)
def test_what_is_no_grid_is_refused(grid: Grid, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        CODEC.flatten(grid)


def test_what_is_no_chorale_is_refused() -> None:
    with pytest.raises(ValueError, match="4 voices, each in a track of its own; this piece has 1"):
        CODEC.encode(Piece((Note(0, 1, 60),)))
    long = Piece((Note(0, 80_000, 60),), VOICES)
    with pytest.raises(ValueError, match=f"has {LONGEST_STEPS} sixteenths at most, .* has 640000"):
        CODEC.encode(long)
    assert CODEC.encode(Piece((), VOICES)) == []
