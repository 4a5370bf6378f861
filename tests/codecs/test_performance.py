"""Performances that come back as they went in, up to the grid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tunes import stretch, transpose

from manyheads.codecs.text import BOS, EOS, PAD
from manyheads.tasks.music.notes import Note, Piece, separate_notes, transposition_range
from manyheads.tasks.music.performance import DOWN, SHIFT, UP, Performance

CODEC = Performance()


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    """Notes of all kinds, also of one pitch on top of each other."""
    spans = draw(
        st.lists(
            st.tuples(
                st.floats(0, 20), st.floats(0.001, 5), st.integers(21, 108), st.integers(1, 127)
            ),
            max_size=20,
        )
    )
    return Piece(tuple(Note(s, s + length, pitch, v) for s, length, pitch, v in spans))


def test_a_note_is_four_events() -> None:
    ids = CODEC.encode(Piece((Note(0.0, 1.0, 60, 64),)))
    assert ids == [374, 63, 358, 191]
    assert CODEC.pieces([*ids, EOS, 9999]) == ["v62", "C4↓", "+1000ms", "C4↑", "</s>", "?"]
    assert CODEC.size == 391


@given(pieces())
def test_music_comes_back_up_to_the_grid(piece: Piece) -> None:
    heard = CODEC.render(CODEC.encode(piece)).notes
    step = 1 / CODEC.steps_per_second
    meant = separate_notes(
        Note(s := round(n.start * 100) / 100, max(round(n.end * 100) / 100, s + step), *n[2:4])
        for n in piece.notes
    )
    assert len(heard) == len(meant)
    for one, other in zip(heard, sorted(meant), strict=True):
        assert one.pitch == other.pitch
        assert one.start == pytest.approx(other.start, abs=1e-6)
        assert one.end == pytest.approx(other.end, abs=1e-6)
        assert abs(one.velocity - other.velocity) <= 2


@given(pieces())
def test_what_was_rendered_is_numbered_as_before(piece: Piece) -> None:
    ids = CODEC.encode(piece)
    assert CODEC.encode(CODEC.render(ids)) == ids


@given(st.lists(st.integers(-5, CODEC.size + 5)))
def test_any_numbers_are_music(ids: list[int]) -> None:
    piece = CODEC.render(ids)
    assert separate_notes(piece.notes) == list(piece.notes)  # no key goes down while it is down
    assert CODEC.render(CODEC.encode(piece)) == piece
    assert len(CODEC.pieces(ids)) == len(ids)


@pytest.mark.parametrize("velocities", [1, 32, 100, 127])
def test_a_velocity_stays_with_those_that_share_its_number(velocities: int) -> None:
    codec = Performance(velocities=velocities)
    for number in range(velocities):
        ids = [codec.velocity + number, DOWN + 60, SHIFT, UP + 60]
        assert codec.encode(codec.render(ids)) == ids


def test_broken_events_are_mended() -> None:
    second = SHIFT + 99
    assert CODEC.render([UP + 60, second]).notes == ()  # went up, never down
    (hanging,) = CODEC.render([DOWN + 60, second, second]).notes
    assert (hanging.start, hanging.end) == (0.0, 2.0)
    again = CODEC.render([DOWN + 60, second, DOWN + 60, second, UP + 60, UP + 60]).notes
    assert [(note.start, note.end) for note in again] == [(0.0, 1.0), (1.0, 2.0)]
    assert CODEC.render([BOS, DOWN + 60, second, PAD, UP + 60, EOS]).seconds == 1.0


def test_long_waits_are_whole_shifts_and_a_rest() -> None:
    assert CODEC.encode_shift(250) == [SHIFT + 99, SHIFT + 99, SHIFT + 49]
    assert CODEC.encode_shift(200) == [SHIFT + 99, SHIFT + 99]
    assert CODEC.encode_shift(0) == []


@given(pieces(), st.integers(-12, 12))
def test_numbers_move_as_their_music_does(piece: Piece, semitones: int) -> None:
    ids = CODEC.encode(piece)
    assert CODEC.room(ids) == transposition_range(note.pitch for note in piece.notes)
    if semitones in CODEC.room(ids):
        (moved,) = CODEC.tables([semitones])
        assert moved[ids].tolist() == CODEC.encode(transpose(piece, semitones))


@given(pieces(), st.floats(1.0, 2.0))
def test_numbers_stretch_as_their_music_does(piece: Piece, factor: float) -> None:
    ids = CODEC.encode(piece)
    longer = CODEC.render(CODEC.stretch(ids, factor)).notes
    meant = stretch(CODEC.render(ids), factor).notes
    for one, other in zip(longer, meant, strict=True):
        assert one[2:] == other[2:]
        assert (one.start, one.end) == pytest.approx((other.start, other.end), abs=0.0051)
    assert CODEC.stretch(ids, 1.0) == ids


@given(pieces(), st.floats(0.01, 1.0))
def test_however_short_no_note_is_lost(piece: Piece, factor: float) -> None:
    ids = CODEC.encode(piece)
    shorter = CODEC.render(CODEC.stretch(ids, factor))
    assert len(shorter.notes) == len(CODEC.render(ids).notes)
    assert shorter.seconds <= CODEC.render(ids).seconds


def test_what_cannot_be_a_performance_is_refused() -> None:
    with pytest.raises(ValueError, match="time is stretched by a factor over 0, got 0"):
        CODEC.stretch([DOWN + 60], 0)
    with pytest.raises(ValueError, match=r"1 to 127 velocities, got .*velocities=128"):
        Performance(velocities=128)
