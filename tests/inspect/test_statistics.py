"""Music in numbers, counted by hand."""

import pytest

from manyheads.codecs.notes import Note, Piece, Voice
from manyheads.inspect.statistics import Statistics, beside, distance, opening


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
    assert [(n.start, n.end) for n in opening(late, 2).notes] == [(9, 10), (10, 11)]
    assert opening(Piece(()), 2).notes == ()


def test_they_stand_side_by_side() -> None:
    one, other = Statistics.of([tune(60, 62, 64, 72)]), Statistics.of([tune(61)])
    lines = beside({"data": one, "drawn": other}).splitlines()
    assert lines[0].split() == ["data", "drawn"]
    rows = {line[:26].strip(): line[26:].split() for line in lines[1:]}
    assert rows["notes a second"] == ["2.00", "2.00"]
    assert rows["lowest pitch"] == ["C4", "C♯4"]
    assert rows["4-note patterns repeated"] == ["0.0%", "0.0%"]
    assert rows["C"] == ["50.0%", "0.0%"]
    assert len({len(line) for line in lines}) == 1


def test_they_are_kept_as_plain_values() -> None:
    plain = Statistics.of([tune(60, 62, 64)]).plain()
    assert plain["classes"][0] == 0.3333
    assert plain["notes"] == 3


def test_pieces_without_notes_say_nothing() -> None:
    with pytest.raises(ValueError, match="statistics are of notes, these pieces have none"):
        Statistics.of([Piece(())])
    assert Statistics.of([Piece(()), tune(60)]).pieces == 1


def test_the_silence_before_the_first_note_is_no_music() -> None:
    late = Piece((Note(7, 8, 60), Note(8, 9, 62)))
    found = Statistics.of([late, opening(late, 1.0)])
    assert (found.seconds, found.notes_per_second) == (3.0, 1.0)
