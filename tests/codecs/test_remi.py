"""Music by bars and beats, as miditok numbers it."""

import random
import sys
from pathlib import Path

import pytest

from manyheads.codecs.notes import Note, Piece
from manyheads.codecs.remi import Remi
from manyheads.codecs.text import STOP


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
    assert codec.pieces([0, 1, STOP]) == ["PAD_None", "BOS_None", "EOS_None"]


def test_any_numbers_are_music(codec: Remi) -> None:
    dice = random.Random(0)
    for _ in range(50):
        codec.render([dice.randrange(-3, codec.size + 3) for _ in range(dice.randrange(60))])
    assert codec.render([]) == Piece(())


def test_a_codec_is_kept_in_a_file(codec: Remi, tmp_path: Path) -> None:
    codec.save(tmp_path / "remi.json")
    assert Remi.load(tmp_path / "remi.json").encode(SCALE) == codec.encode(SCALE)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"other.json does not hold a tokenizer of miditok"):
        Remi.load(tmp_path / "other.json")


def test_without_miditok_one_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "miditok", None)
    with pytest.raises(ValueError, match=r"REMI needs miditok: pip install 'manyheads\[music\]'"):
        Remi()
