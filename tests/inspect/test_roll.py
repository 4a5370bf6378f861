"""Pictures of pieces show their notes."""

from pathlib import Path

import numpy as np
import pytest

from manyheads.tasks.music.chorales import piece_of
from manyheads.tasks.music.notes import Note, Piece
from manyheads.tasks.music.roll import Roll, box, format_clock, share_rows

SCALE = Piece(tuple(Note(i * 0.5, i * 0.5 + 0.5, 60 + i, 10 + 10 * i) for i in range(8)))


def boxes(roll: Roll) -> int:
    return sum(len(c.get_paths()) for axis in roll.figure().axes for c in axis.collections)


def test_every_note_is_a_box(tmp_path: Path) -> None:
    roll = Roll(SCALE)
    assert boxes(roll) == 8
    assert roll.summary == "8 notes from C4 to G4, 0:04"
    roll.save(tmp_path / "roll.png")
    assert (tmp_path / "roll.png").read_bytes().startswith(b"\x89PNG")
    assert roll._repr_png_().startswith(b"\x89PNG")


def test_a_long_piece_is_drawn_in_rows() -> None:
    for seconds, rows in ((5, 1), (20, 1), (45, 3), (120, 6), (1000, 6)):
        figure = Roll(Piece((Note(0, 1, 60), Note(seconds - 1, seconds, 62)))).figure()
        assert len(figure.axes) == rows
        assert figure.axes[-1].get_xlim()[1] >= seconds
    assert boxes(Roll(Piece((Note(10, 30, 60), Note(0, 40, 62))))) == 4  # each goes on below


def test_no_row_is_left_with_the_last_moment_alone() -> None:
    for seconds in (20.3, 40.2, 61.0, 100.2, 120.2, 121.0, 1000.0):
        notes = tuple(Note(at, at + 0.2, 60) for at in np.arange(0.0, seconds, 0.25).tolist())
        axes = Roll(Piece(notes)).figure().axes
        counts = [sum(len(c.get_paths()) for c in axis.collections) for axis in axes]
        assert min(counts) > max(counts) / 2


def test_louder_is_darker_and_voices_have_colours_and_names() -> None:
    alone = Roll(SCALE)
    soft, loud = (sum(alone.colour(SCALE.notes[i])[:3]) for i in (0, 7))
    assert loud < soft
    together = Roll(piece_of(np.array([[72, 67, 64, 48]], dtype=np.int16)))
    assert len({together.colour(note) for note in together.piece.notes}) == 4
    legend = together.figure().axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["soprano", "alto", "tenor", "bass"]


def test_voices_in_unison_share_a_row_and_neither_is_hidden() -> None:
    unison = (Note(0, 2, 60, voice=0), Note(1, 3, 60, voice=1), Note(2, 3, 60, voice=0))
    assert share_rows(unison) == [(1, 2), (0, 2), (1, 2)]
    above, below = (box(unison[i], share_rows(unison)[i]) for i in (0, 1))
    assert min(y for _, y in above) == pytest.approx(max(y for _, y in below)) == 60
    assert share_rows((unison[0], unison[2])) == [(0, 1), (0, 1)]  # one ends where the next begins
    assert share_rows((Note(0, 2, 60, voice=0), Note(0, 2, 61, voice=1))) == [(0, 1), (0, 1)]


def test_moments_are_told_as_on_a_clock() -> None:
    assert [format_clock(at) for at in (0, 75.4, 119.96, 600)] == [
        "0:00",
        "1:15.4",
        "2:00",
        "10:00",
    ]


def test_a_piece_without_notes_is_refused() -> None:
    with pytest.raises(ValueError, match="a piano roll shows notes, this piece has none"):
        Roll(Piece(()))
