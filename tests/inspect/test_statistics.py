"""Music in numbers, counted by hand."""

import pytest

from manyheads.tasks.music.notes import Note, Piece, Voice
from manyheads.tasks.music.statistics import Statistics, cut_opening, distance, format_columns


def tune(*pitches: int, each: float = 0.5) -> Piece:
    return Piece(tuple(Note(i * each, (i + 1) * each, p) for i, p in enumerate(pitches)))


def test_a_tune_is_counted() -> None:
    one = Statistics.of([tune(60, 62, 64, 72)])
    assert (one.pieces, one.notes, one.seconds, one.notes_per_second) == (1, 4, 2.0, 2.0)
    assert (one.lowest, one.mean_pitch, one.highest) == (60, 64.5, 72)
    assert one.classes == (0.5, 0, 0.25, 0, 0.25, 0, 0, 0, 0, 0, 0, 0)
    assert (one.length_median, one.length_share) == (0.5, 1.0)
    assert (one.onset_median, one.onset_share, one.polyphony) == (0.5, 1.0, 1.0)


def test_several_pieces_are_counted_together() -> None:
    one = Statistics.of([tune(60, 60), tune(61, 61, each=1.0)])
    assert (one.pieces, one.notes, one.seconds) == (2, 4, 3.0)
    assert one.onset_median == 0.75  # half a second in one, a second in the other
    assert one.onset_share == one.length_share == 0.5


def test_a_chord_begins_once_and_sounds_together() -> None:
    chord = Piece((Note(0, 1, 60), Note(0, 1, 64), Note(0, 1, 67), Note(3, 4, 60)))
    one = Statistics.of([chord])
    assert one.polyphony == 2.0  # four seconds of notes in two that are not silent
    assert one.onset_median == 3.0


def test_a_pattern_comes_again_at_any_height() -> None:
    assert Statistics.of([tune(60, 62, 65, 64)]).repeated == 0
    higher = tune(60, 62, 65, 64, 70, 72, 75, 74)  # five patterns, the first and the last alike
    assert Statistics.of([higher]).repeated == pytest.approx(2 / 5)
    apart = Statistics.of([tune(60, 62, 65, 64), tune(60, 62, 65, 64)])
    assert apart.repeated == 0  # in its own piece it is alone


def test_a_pattern_is_looked_for_in_each_voice_and_along_its_top() -> None:
    line = tune(60, 62, 65, 64).notes
    low = [n._replace(pitch=n.pitch - 20, voice=1) for n in line]
    assert Statistics.of([Piece((*line, *low), (Voice(), Voice()))]).repeated == 1
    under = [n._replace(pitch=40 + i) for i, n in enumerate(line)]
    twice = [n._replace(start=n.start + 2, end=n.end + 2) for n in line]
    assert Statistics.of([Piece((*line, *under, *twice))]).repeated == pytest.approx(2 / 5)


def test_the_distance_between_pitch_classes_is_from_none_to_all() -> None:
    white, black = Statistics.of([tune(60, 62)]), Statistics.of([tune(61, 63)])
    both = Statistics.of([tune(60, 62, 61, 63)])
    assert distance(white, white) == 0
    assert distance(white, black) == 1
    assert distance(white, both) == distance(both, white) == 0.5


def test_an_opening_is_counted_from_the_first_note() -> None:
    late = Piece((Note(9, 10, 60), Note(10, 13, 62), Note(11, 12, 64)))
    assert [(n.start, n.end) for n in cut_opening(late, 2).notes] == [(9, 10), (10, 11)]
    assert cut_opening(Piece(()), 2).notes == ()


def test_they_stand_side_by_side() -> None:
    one, other = Statistics.of([tune(60, 62, 64, 72)]), Statistics.of([tune(61)])
    lines = format_columns({"data": one, "drawn": other}).splitlines()
    assert lines[0].split() == ["data", "drawn"]
    rows = {line[:26].strip(): line[26:].split() for line in lines[1:]}
    assert rows["notes a second"] == ["2.00", "2.00"]
    assert rows["lowest pitch"] == ["C4", "C♯4"]
    assert rows["4-note patterns repeated"] == ["0.0%", "0.0%"]
    assert rows["C"] == ["50.0%", "0.0%"]
    assert len({len(line) for line in lines}) == 1


def test_they_are_kept_as_plain_values() -> None:
    plain = Statistics.of([tune(60, 62, 64)]).to_json()
    assert plain["classes"][0] == 0.3333
    assert plain["notes"] == 3


def test_pieces_without_notes_say_nothing() -> None:
    with pytest.raises(ValueError, match="statistics are of notes, these pieces have none"):
        Statistics.of([Piece(())])
    assert Statistics.of([Piece(()), tune(60)]).pieces == 1


def test_the_silence_before_the_first_note_is_no_music() -> None:
    late = Piece((Note(7, 8, 60), Note(8, 9, 62)))
    found = Statistics.of([late, cut_opening(late, 1.0)])
    assert (found.seconds, found.notes_per_second) == (3.0, 1.0)


def sung(*chords: tuple[int, ...]) -> Piece:
    """A second each; -1 rests."""
    notes = [
        Note(at, at + 1, pitch, voice=voice)
        for at, chord in enumerate(chords)
        for voice, pitch in enumerate(chord)
        if pitch >= 0
    ]
    return Piece(tuple(notes), (Voice(),) * len(chords[0]))


def test_parallels_are_fifths_and_octaves_after_the_like() -> None:
    def parallels(*chords: tuple[int, ...]) -> float | None:
        return Statistics.of([sung(*chords)]).parallels

    assert parallels((67, 60), (69, 62)) == 1000.0  # fifths
    assert parallels((79, 60), (81, 62), (81, 50)) == 1000.0  # twelfths; then one voice holds
    assert parallels((72, 60), (74, 62), (76, 60)) == 500.0  # octaves, then something else
    assert parallels((67, 60), (65, 57), (64, 57)) == 0.0  # a fifth, a sixth, a fifth
    assert parallels((72, 60), (74, 50)) == 0.0  # in contrary motion
    assert parallels((67, 60), (67, 60)) is None  # nobody moves
    assert parallels((67, -1), (69, 62)) is None
    assert parallels((72, 67, 60), (74, 69, 62)) == pytest.approx(2000 / 3)


def test_crossings_are_the_time_a_voice_is_over_one_that_is_before_it() -> None:
    assert Statistics.of([sung((67, 60), (60, 62), (60, 60), (60, -1))]).crossed == 0.25
    together = Statistics.of([sung((67, 60), (60, 62)), tune(60, 62)])
    assert together.crossed == 0.5  # of what has voices
    chords = Piece((Note(0, 1, 60), Note(0, 1, 64), Note(0, 1, 70, voice=1)), (Voice(), Voice()))
    for piece in (tune(60, 62), chords):
        one = Statistics.of([piece])
        assert (one.parallels, one.crossed) == (None, None)
    lines = format_columns({"data": together, "drawn": Statistics.of([chords])}).splitlines()
    assert lines[-1].split() == ["voices", "crossed", "50.00%", "–"]
