"""Music by bars and beats, as miditok numbers it."""

import random
import sys

import pytest

from manyheads.codecs.text import EOS
from manyheads.tasks.music.notes import Note, Piece
from manyheads.tasks.music.remi import Remi


@pytest.fixture(scope="module")
def codec() -> Remi:
    pytest.importorskip("miditok")
    return Remi()


SCALE = Piece(tuple(Note(i * 0.5, i * 0.5 + 0.5, 60 + i, 79) for i in range(8)))


def test_music_on_the_beat_comes_back(codec: Remi) -> None:
    again = codec.render(codec.encode(SCALE))
    assert [note.pitch for note in again.notes] == [note.pitch for note in SCALE.notes]
    for one, other in zip(again.notes, SCALE.notes, strict=True):
        assert (one.start, one.end) == pytest.approx((other.start, other.end), rel=0.02)
        assert abs(one.velocity - other.velocity) <= 4


def test_bars_are_numbers_of_their_own(codec: Remi) -> None:
    labels = codec.pieces(codec.encode(SCALE))
    assert labels.count("Bar_None") == 2
    assert codec.pieces([0, 1, EOS]) == ["PAD_None", "BOS_None", "EOS_None"]


def test_any_numbers_are_music(codec: Remi) -> None:
    dice = random.Random(0)
    for _ in range(50):
        codec.render([dice.randrange(-3, codec.size + 3) for _ in range(dice.randrange(60))])
    assert codec.render([]) == Piece(())


def test_pitches_move_and_all_else_stays(codec: Remi) -> None:
    higher, lower = codec.tables([2, -2])
    ids = codec.encode(SCALE)
    moved = codec.render(higher[ids].tolist())
    assert [note.pitch for note in moved.notes] == [note.pitch + 2 for note in SCALE.notes]
    assert lower[higher[ids]].tolist() == ids
    assert codec.room(ids) == range(21 - 60, 108 - 67 + 1)
    told = codec.pitches()
    assert [told[number] for number in ids if told[number]] == [n.pitch for n in SCALE.notes]


def test_without_miditok_one_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "miditok", None)
    with pytest.raises(ValueError, match=r"REMI needs miditok: pip install 'manyheads\[music\]'"):
        Remi()
