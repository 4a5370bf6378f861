"""MIDI that comes back as it went in, and bytes that are no MIDI."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.tasks.music.midi_bytes import read_midi, read_variable, write_midi, write_variable
from manyheads.tasks.music.notes import Meter, Note, Piece, Tempo, Voice

OVER = bytes([0, 0xFF, 0x2F, 0])


def file(*tracks: bytes, kind: int = 1, ticks: int = 100) -> bytes:
    """With 100 ticks to a quarter note of half a second, a tick is 5 ms."""
    head = b"MThd" + struct.pack(">IHHH", 6, kind, len(tracks), ticks)
    return head + b"".join(b"MTrk" + struct.pack(">I", len(t)) + t for t in tracks)


def heard(data: bytes) -> list[tuple[float, float, int]]:
    return [(round(n.start, 6), round(n.end, 6), n.pitch) for n in read_midi(data).notes]


NOTE = bytes([0, 0x90, 60, 80, 100, 0x80, 60, 0])
PIECE = Piece(
    (Note(0.0, 1.0, 60, 90), Note(0.5, 2.25, 64, 40, voice=1), Note(1.0, 1.5, 60, 91)),
    (Voice("right", 0), Voice("links ♪", 19)),
    (Tempo(0.0, 120.0), Tempo(1.0, 60.0)),
    (Meter(0.0, 3, 4), Meter(2.0, 6, 8)),
)


def test_a_piece_comes_back() -> None:
    assert read_midi(write_midi(PIECE)) == PIECE


@given(
    st.lists(
        st.tuples(st.integers(0, 9000), st.integers(1, 900), st.integers(0, 127), st.integers(0, 2))
    ).filter(bool),
    st.floats(30, 300),
)
def test_any_piece_comes_back_up_to_a_tick(
    spans: list[tuple[int, int, int, int]], rate: float
) -> None:
    # One note for each key: a second one would end the first.
    of_key = {(pitch, voice): (start, size) for start, size, pitch, voice in spans}
    notes = [
        Note(start / 100, (start + size) / 100, pitch, 80, voice)
        for (pitch, voice), (start, size) in of_key.items()
    ]
    used = sorted({note.voice for note in notes})  # a voice without notes is not read
    notes = [note._replace(voice=used.index(note.voice)) for note in notes]
    piece = Piece(tuple(notes), (Voice(),) * len(used), (Tempo(0.0, rate),))
    again = read_midi(write_midi(piece))
    tick = 60 / rate / 480
    key = lambda note: (note.voice, note.pitch)  # noqa: E731
    for one, other in zip(sorted(again.notes, key=key), sorted(notes, key=key), strict=True):
        assert one[2:] == other[2:]
        assert one.start == pytest.approx(other.start, abs=tick)
        assert one.end == pytest.approx(other.end, abs=2 * tick)


def test_running_status_is_understood() -> None:
    # A velocity of 0 ends a note; the status byte is said once.
    track = bytes([0, 0x90, 60, 80, 10, 64, 80, 90, 60, 0, 10, 64, 0]) + OVER
    assert heard(file(track)) == [(0.0, 0.5, 60), (0.05, 0.55, 64)]


def test_what_is_not_music_is_passed_over() -> None:
    sysex = bytes([0, 0xF0, 3, 1, 2, 0xF7])
    lyric = bytes([0, 0xFF, 0x05, 2]) + b"la"
    bend = bytes([0, 0xE0, 0, 64, 0, 0xD0, 5])
    unknown = b"XFIH" + struct.pack(">I", 3) + b"abc"
    assert heard(file(sysex + lyric + bend + NOTE) + unknown + b"tail") == [(0.0, 0.5, 60)]


def test_tempos_of_any_track_hold_for_all() -> None:
    slower = bytes([50, 0xFF, 0x51, 3]) + (1_000_000).to_bytes(3) + OVER
    assert heard(file(slower, NOTE)) == [(0.0, 0.75, 60)]
    assert read_midi(file(slower, NOTE)).tempos == (Tempo(0.0, 120.0), Tempo(0.25, 60.0))


def test_the_pedal_holds_notes_until_it_goes_up_or_they_are_struck_again() -> None:
    down, up = bytes([0xB0, 64, 127]), bytes([0xB0, 64, 0])
    held = bytes([0, 0x90, 60, 80, 10, *down, 10, 0x80, 60, 0, 80, *up])
    assert heard(file(held)) == [(0.0, 0.5, 60)]
    again = bytes([0, *down, 0, 0x90, 60, 80, 10, 0x80, 60, 0, 30, *NOTE[1:], 0, *up])
    assert heard(file(again)) == [(0.0, 0.2, 60), (0.2, 0.7, 60)]
    # A pedal that nobody lifts is down until the last key goes up.
    stuck = bytes([0, *down, *NOTE, 0, 0x90, 64, 80, 100, 0x80, 64, 0])
    assert heard(file(stuck)) == [(0.0, 1.0, 60), (0.5, 1.0, 64)]
    assert [note.end for note in read_midi(file(stuck), pedal=False).notes] == [0.5, 1.0]
    # It is another channel's pedal.
    other = bytes([0, 0xB1, 64, 127, *NOTE, 100, 0xB1, 64, 0])
    assert heard(file(other)) == [(0.0, 0.5, 60)]


def test_the_pedal_of_a_channel_holds_its_notes_in_all_tracks() -> None:
    pedal = bytes([5, 0xB0, 64, 127, 95, 0xB0, 64, 0]) + OVER
    short = bytes([0, 0x90, 60, 80, 10, 0x80, 60, 0]) + OVER
    other = bytes([0, 0x91, 67, 80, 10, 0x81, 67, 0]) + OVER
    for tracks in ((pedal, short, other), (short, other, pedal)):
        assert heard(file(*tracks)) == [(0.0, 0.05, 67), (0.0, 0.5, 60)]


def test_bytes_of_a_wire_are_passed_over_wherever_they_stand() -> None:
    clock, sensing, position = [0, 0xF8], [0, 0xFE], [0, 0xF2, 1, 2]
    # Between events, also of a running status, and between the bytes of one.
    track = [*clock, 0, 0x90, 60, 0xF8, 80, *sensing, *position, 0, 64, 80, *clock]
    track += [100, 60, 0xFE, 0, 0, 64, 0]
    assert heard(file(bytes(track) + OVER)) == [(0.0, 0.5, 60), (0.0, 0.5, 64)]


def test_a_note_that_nobody_ends_ends_with_its_track() -> None:
    assert heard(file(bytes([0, 0x90, 60, 80, 100, *OVER[1:]]))) == [(0.0, 0.5, 60)]


@pytest.mark.parametrize("control", [120, 123])
def test_all_notes_of_a_channel_may_end_at_once(control: int) -> None:
    down = bytes([0, 0x90, 60, 80, 0, 64, 80, 0, 0x91, 67, 80])
    track = down + bytes([50, 0xB0, control, 0, 50, *OVER[1:]])
    assert heard(file(track)) == [(0.0, 0.25, 60), (0.0, 0.25, 64), (0.0, 0.5, 67)]


def test_of_one_pitch_the_first_key_down_is_the_first_up() -> None:
    track = bytes([0, 0x90, 60, 80, 10, 60, 80, 10, 60, 0, 10, 60, 0])
    assert heard(file(track)) == [(0.0, 0.1, 60), (0.05, 0.15, 60)]


def test_each_channel_is_a_voice_with_its_name() -> None:
    name = bytes([0, 0xFF, 0x03, 5]) + b"flute" + bytes([0, 0xC1, 73])
    drums = bytes([0, 0x99, 36, 80, 10, 0x89, 36, 0])
    both = read_midi(file(NOTE, name + drums + bytes([0, 0x91, 72, 80, 10, 0x81, 72, 0])))
    assert both.voices == (Voice("piano", 0), Voice("flute", 73))
    assert [note.pitch for note in both.notes] == [60, 72]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "it is empty"),
        (b"RIFFabcd", "does not begin with MThd"),
        (file(NOTE)[:10], "cut short in its head"),
        (file(NOTE)[:-3], "cut short inside a track"),
        (file(NOTE, kind=2), "of format 2, formats 0 and 1 are read"),
        (file(NOTE, ticks=0xE728), r"counted in frames of film \(SMPTE\), not in quarter notes"),
        (file(NOTE, ticks=0), "0 ticks to a quarter note"),
        (file(), "no notes are in it"),
        (file(OVER), "no notes are in it"),
        (file(bytes([0, 0x90, 60, 80, 0, 0x80, 60, 0])), "no notes that last are in it"),
        (file(bytes([0, 0x99, 36, 80, 9, 0x89, 36, 0])), "only drums are in it"),
        (file(bytes([0, 0x90, 200, 80])), "byte 24 is 200, a pitch, velocity or control is 0 to"),
        (file(bytes([0, 60, 80])), "byte 23 is 0x3c, where an event should begin"),
        (file(bytes([0, 0xF5])), "where an event should begin"),
        (file(bytes([0, 0x90, 60])), "ends in the middle of an event at byte 25"),
        (file(bytes([0, 0xFF, 3, 9])), "an event runs over the end of its track at byte 26"),
        (file(bytes([255] * 5)), "a number at byte 22 is longer than four bytes"),
        (file(bytes([0, 0x90, 60, 80, 255, 255, 255, 127, *OVER[1:]])), "within a day"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_midi(data)


def test_a_damaged_file_is_read_or_refused_and_nothing_else() -> None:
    dice = random.Random(0)
    whole = write_midi(PIECE)
    refused = 0
    for _ in range(3000):
        data = bytearray(whole[: dice.choice([len(whole), dice.randrange(len(whole))])])
        for _ in range(dice.randrange(1, 6)):
            if data:
                data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            read_midi(bytes(data))
        except ValueError:
            refused += 1
    assert 0 < refused < 3000


@given(st.binary(max_size=60))
def test_a_track_of_any_bytes_is_read_or_refused(track: bytes) -> None:
    try:
        piece = read_midi(file(track))
    except ValueError:
        return
    assert piece.notes


@given(st.integers(0, 2**28 - 1))
def test_numbers_of_many_lengths_come_back(number: int) -> None:
    data = write_variable(number)
    assert read_variable(data, 0, len(data)) == (number, len(data))


def test_a_tempo_that_midi_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match=r"MIDI has tempos of 3.6 to 60 million .* got 1"):
        write_midi(Piece((), tempos=(Tempo(0.0, 1.0),)))
