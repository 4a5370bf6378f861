"""Notes that can be played, and the same music otherwise."""

import pytest

from manyheads.tasks.music.notes import (
    Meter,
    Note,
    Piece,
    Tempo,
    Voice,
    drop_first_silence,
    pitch_name,
    separate_notes,
    to_quarters,
    transposition_range,
)

SCALE = Piece(tuple(Note(i * 0.5, i * 0.5 + 0.5, 60 + i) for i in range(8)))


def test_a_piece_keeps_its_notes_in_order() -> None:
    piece = Piece((Note(1.0, 2.0, 60), Note(0.0, 1.5, 64)))
    assert [note.pitch for note in piece.notes] == [64, 60]
    assert piece.seconds == 2.0
    assert Piece(()).seconds == 0.0


@pytest.mark.parametrize(
    ("note", "sentence"),
    [
        (Note(1.0, 1.0, 60), "begins at 0 seconds or later and ends after that.*got 1.0 to 1.0"),
        (Note(-1.0, 1.0, 60), "got -1.0 to 1.0"),
        (Note(0.0, float("nan"), 60), "within a day; got 0.0 to nan"),
        (Note(0.0, 1e6, 60), "within a day; got 0.0 to 1000000.0"),
        (Note(0.0, 1.0, 128), "a pitch is 0 to 127, 60 is the middle C; got 128"),
        (Note(0.0, 1.0, 60, 0), "a velocity is 1 to 127, got 0"),
        (Note(0.0, 1.0, 60, voice=1), "a piece of 1 voices has no voice 1"),
    ],
)
def test_what_is_no_note_is_refused(note: Note, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Piece((note,))


def test_tempos_meters_and_programs_are_checked() -> None:
    with pytest.raises(ValueError, match=r"first tempo starts at 0 .* got \[1.0\]"):
        Piece((), tempos=(Tempo(1.0),))
    with pytest.raises(ValueError, match="a tempo is over 0 quarter notes a minute"):
        Piece((), tempos=(Tempo(0.0, 0.0),))
    with pytest.raises(ValueError, match="a meter is 1 to 255 beats"):
        Piece((), meters=(Meter(0.0, 4, 3),))
    with pytest.raises(ValueError, match="a voice's program is 0 to 127"):
        Piece((), voices=(Voice("theremin", 128),))


def test_quarter_notes_follow_the_tempos() -> None:
    piece = Piece((), tempos=(Tempo(0.0, 120), Tempo(2.0, 60)))
    assert to_quarters(piece, [0.0, 1.5, 2.0, 4.0]).tolist() == [0.0, 3.0, 4.0, 6.0]


def test_a_pitch_struck_again_ends_there() -> None:
    assert separate_notes([Note(0, 3, 60), Note(1, 2, 60)]) == [Note(0, 1, 60), Note(1, 2, 60)]
    assert separate_notes([Note(0, 3, 60, 10), Note(0, 1, 60, 99)]) == [Note(0, 3, 60, 99)]
    other = [Note(0, 3, 60), Note(1, 2, 60, voice=1), Note(1, 2, 61)]
    assert separate_notes(other) == other


def test_pitches_have_names() -> None:
    assert [pitch_name(pitch) for pitch in (60, 69, 21, 108, 61)] == ["C4", "A4", "A0", "C8", "C♯4"]


def test_silence_before_the_first_note_goes() -> None:
    late = Piece((Note(3.0, 4.0, 60),), tempos=(Tempo(), Tempo(1.0, 60), Tempo(3.5, 90)))
    assert drop_first_silence(late).notes == (Note(0.0, 1.0, 60),)
    assert drop_first_silence(late).tempos == (Tempo(0.0, 60), Tempo(0.5, 90))
    assert drop_first_silence(SCALE) == SCALE
    assert drop_first_silence(Piece(())) == Piece(())


def test_notes_stay_on_the_piano() -> None:
    assert transposition_range([60, 108]) == range(-39, 1)
    assert transposition_range([5]) == range(0, 104)  # no pitch of a piano, but it may stay
