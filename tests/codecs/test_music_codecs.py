"""Codecs of music: what all of them offer, and the file they are kept in."""

from pathlib import Path

import pytest

from manyheads.codecs.text import BOS, EOS, PAD
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.codec_file import KINDS, load_codec, new_codec, save_codec
from manyheads.tasks.music.notes import Note, Piece, Voice
from manyheads.tasks.music.performance import Performance

NOTES = tuple(Note(i * 0.5, i * 0.5 + 0.5, 48 + 5 * i, 79, voice=i) for i in range(4))
PIECE = Piece(NOTES, (Voice(),) * 4)


@pytest.fixture(scope="module", params=KINDS)
def codec(request: pytest.FixtureRequest) -> MusicCodec:
    if request.param == "remi":
        pytest.importorskip("miditok")
    return new_codec(request.param)


def test_a_codec_is_kept_in_a_file_with_its_kind(codec: MusicCodec, tmp_path: Path) -> None:
    save_codec(codec, tmp_path / "codec.json")
    again = load_codec(tmp_path / "codec.json")
    assert (again.kind, again.size, again.describe()) == (codec.kind, codec.size, codec.describe())
    assert again.encode(PIECE) == codec.encode(PIECE)


def test_the_measures_of_a_performance_are_kept(tmp_path: Path) -> None:
    codec = Performance(steps_per_second=50, velocities=16)
    save_codec(codec, tmp_path / "codec.json")
    assert load_codec(tmp_path / "codec.json") == codec


def test_by_its_tables_a_piece_moves_as_its_notes_do(codec: MusicCodec) -> None:
    ids = codec.encode(PIECE)
    shifts = [-3, 0, 2]
    tables = codec.tables(shifts)
    assert tables.shape == (3, codec.size)
    assert tables[1].tolist() == list(range(codec.size))
    for shift, table in zip(shifts, tables, strict=True):
        assert table[[PAD, BOS, EOS]].tolist() == [PAD, BOS, EOS]
        moved = codec.render(table[ids].tolist()).notes
        meant = codec.render(ids).notes
        assert [note.pitch for note in moved] == [note.pitch + shift for note in meant]
        assert [note[:2] for note in moved] == [note[:2] for note in meant]


def test_a_pitch_that_would_leave_all_pitches_stays_put(codec: MusicCodec) -> None:
    told = codec.pitches()
    assert len(told) == codec.size
    (table,) = codec.tables([100])
    for number, pitch in enumerate(told):
        assert told[table[number]] in (pitch, pitch + 100)
        if pitch + 100 > 127:
            assert table[number] == number


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ("[1]", "codec.json does not say how music is numbered"),
        ("{}", "codec.json does not say how music is numbered"),
        ('{"kind": "performance", "shifts": "x"}', "codec.json does not say how music is numbered"),
        ('{"kind": "performance", "tempo": 3}', "codec.json does not say how music is numbered"),
        (
            '{"kind": "organ"}',
            "codec.json: there is no codec 'organ'; there are performance, chorales, remi",
        ),
    ],
)
def test_a_file_that_says_nothing_of_it_is_refused(
    held: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "codec.json").write_text(held)
    with pytest.raises(ValueError) as error:
        load_codec(tmp_path / "codec.json")
    assert str(error.value) == f"{tmp_path}/{sentence}"
