"""Decode MIDI bytes to pieces and encode them, in plain Python.

A C++ library would be faster, but a broken file could take the whole process down with it; a
performance of ten minutes is read in well under a second here too.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from manyheads.tasks.music.notes import (
    Meter,
    Note,
    Piece,
    Tempo,
    Voice,
    separate_notes,
    to_quarters,
)

DRUMS = 9  # the channel for drums
PEDAL = 64  # the controller that holds notes, down from 64 on
ALL_OFF = (120, 123)  # controllers that end all notes: all sound off, all notes off
TICKS = 480  # per quarter note, in files that are written
MICROSECONDS = 500_000  # per quarter note, the default in MIDI files
META, SYSEX, ESCAPE = 0xFF, 0xF0, 0xF7
CLOCKS = range(0xF8, 0xFF)  # system real-time: clocks, active sensing
# Messages for live MIDI that some files contain, and how many bytes follow each.
ALONE = {0xF1: 1, 0xF2: 2, 0xF3: 1, 0xF6: 0} | dict.fromkeys(CLOCKS, 0)
NAME, TEMPO, METER, END = 0x03, 0x51, 0x58, 0x2F  # kinds of meta events


# ---- reading ---------------------------------------------------------------------------------


class Struck(NamedTuple):
    """A note in ticks."""

    start: int
    end: int
    pitch: int
    velocity: int


@dataclass
class Channel:
    """What one channel of one track plays."""

    program: int = 0
    notes: list[Struck] = field(default_factory=list)
    held: dict[int, deque[tuple[int, int]]] = field(default_factory=lambda: defaultdict(deque))
    pedal: list[tuple[int, bool]] = field(default_factory=list)  # tick, whether it goes down

    def release(self, tick: int, pitch: int) -> None:
        """Release the key of this pitch that was pressed first."""
        if self.held[pitch]:
            start, velocity = self.held[pitch].popleft()
            self.notes.append(Struck(start, tick, pitch, velocity))

    def release_all(self, tick: int) -> None:
        for pitch, keys in self.held.items():
            while keys:
                self.release(tick, pitch)


@dataclass
class Track:
    name: str = ""
    parts: dict[int, Channel] = field(default_factory=lambda: defaultdict(Channel))
    tempos: dict[int, int] = field(default_factory=dict)  # tick -> microseconds a quarter note
    meters: dict[int, tuple[int, int]] = field(default_factory=dict)


def read_midi(data: bytes, pedal: bool = True) -> Piece:
    """Read the notes of a MIDI file; with `pedal`, the pedal makes notes longer.

    Each channel of each track is a voice. Drums are left out.
    """
    ticks, chunks = find_tracks(data)
    tracks = [read_track(data, *chunk) for chunk in chunks]
    parts = [(t.name, c, part) for t in tracks for c, part in sorted(t.parts.items()) if part.notes]
    sung = [one for one in parts if one[1] != DRUMS]
    if not sung:
        raise ValueError("only drums are in it" if parts else "no notes are in it")
    clock = Clock(ticks, [tempo for track in tracks for tempo in track.tempos.items()])
    pedals: dict[int, list[tuple[int, bool]]] = defaultdict(list)  # of a channel, over all tracks
    for track in tracks:
        for channel, part in track.parts.items():
            pedals[channel] += part.pedal
    notes: list[Note] = []
    for voice, (_, channel, part) in enumerate(sung):
        moves = sorted(pedals[channel], key=lambda move: move[0])
        struck = hold_by_pedal(part.notes, moves) if pedal else part.notes
        spans = clock.seconds([tick for note in struck for tick in note[:2]]).reshape(-1, 2)
        notes += [
            Note(start, end, note.pitch, note.velocity, voice)
            for note, (start, end) in zip(struck, spans.tolist(), strict=True)
            if start < end
        ]
    if not notes:
        raise ValueError("no notes that last are in it")
    voices = tuple(Voice(name or "piano", part.program) for name, _, part in sung)
    meters = {tick: meter for track in tracks for tick, meter in track.meters.items()}
    starts = clock.seconds(sorted(meters)).tolist()
    bars = tuple(
        Meter(at, *meter) for at, (_, meter) in zip(starts, sorted(meters.items()), strict=True)
    )
    return Piece(tuple(notes), voices, clock.tempos, bars or (Meter(),))


def find_tracks(data: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return the ticks per quarter note, and the (begin, end) of each track."""
    if not data:
        raise ValueError("it is empty")
    if data[:4] != b"MThd":
        raise ValueError("it does not begin with MThd as MIDI files do")
    if len(data) < 14:
        raise ValueError("it is cut short in its head")
    size, kind, _, ticks = struct.unpack(">IHHH", data[4:14])
    if kind > 1:
        raise ValueError(f"it is of format {kind}, formats 0 and 1 are read")
    if ticks & 0x8000:
        raise ValueError("its time is counted in frames of film (SMPTE), not in quarter notes")
    if not ticks:
        raise ValueError("it has 0 ticks to a quarter note")
    chunks = []
    at = 8 + size
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8])
        if at + 8 + size > len(data):
            raise ValueError("it is cut short inside a track")
        if name == b"MTrk":
            chunks.append((at + 8, at + 8 + size))
        at += 8 + size
    return ticks, chunks


def read_track(data: bytes, at: int, end: int) -> Track:
    track = Track()
    tick = status = 0
    while at < end:
        passed, at = read_variable(data, at, end)
        tick += passed
        first = read_byte(data, at, end)
        if first in (META, SYSEX, ESCAPE):
            kind = read_byte(data, at + 1, end) if first == META else -1
            size, at = read_variable(data, at + (2 if first == META else 1), end)
            if at + size > end:
                raise ValueError(f"an event runs over the end of its track at byte {end}")
            if kind == END:
                break
            note_meta(track, tick, kind, data[at : at + size])
            at += size
            continue
        if first in ALONE:
            at += 1 + ALONE[first]
            continue
        if first >= 0x80:
            status, at = first, at + 1
        if not 0x80 <= status < 0xF0:
            raise ValueError(f"byte {at} is 0x{first:02x}, where an event should begin")
        one, at = read_small(data, at, end)
        two, at = read_small(data, at, end) if status & 0xE0 != 0xC0 else (0, at)
        play(track.parts[status & 0x0F], tick, status & 0xF0, one, two)
    for part in track.parts.values():
        part.release_all(tick)
    return track


def read_variable(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a number of one to four bytes; return it and the place after it."""
    number = 0
    for i in range(at, at + 4):
        this = read_byte(data, i, end)
        number = number << 7 | this & 0x7F
        if this < 0x80:
            return number, i + 1
    raise ValueError(f"a number at byte {at} is longer than four bytes")


def read_byte(data: bytes, at: int, end: int) -> int:
    if at >= end:
        raise ValueError(f"a track ends in the middle of an event at byte {end}")
    return data[at]


def read_small(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a number from 0 to 127, such as a pitch; return it and the place after it."""
    this = read_byte(data, at, end)
    while this in CLOCKS:  # these may come in the middle of an event, as in live MIDI
        at += 1
        this = read_byte(data, at, end)
    if this > 127:
        raise ValueError(f"byte {at} is {this}, a pitch, velocity or control is 0 to 127")
    return this, at + 1


def note_meta(track: Track, tick: int, kind: int, held: bytes) -> None:
    if kind == NAME and not track.name:
        track.name = held.decode("utf-8", "replace").strip("\0 ")
    elif kind == TEMPO and len(held) == 3 and any(held):
        track.tempos[tick] = int.from_bytes(held)
    elif kind == METER and len(held) >= 2 and held[0] and held[1] <= 6:
        track.meters[tick] = (held[0], 1 << held[1])


def play(part: Channel, tick: int, kind: int, one: int, two: int) -> None:
    if kind == 0x90 and two:
        part.held[one].append((tick, two))
    elif kind in (0x80, 0x90):
        part.release(tick, one)
    elif kind == 0xB0 and one == PEDAL:
        part.pedal.append((tick, two >= 64))
    elif kind == 0xB0 and one in ALL_OFF:
        part.release_all(tick)
    elif kind == 0xC0 and not part.notes:
        part.program = one  # keep the program of the first note


def hold_by_pedal(notes: list[Struck], pedal: list[tuple[int, bool]]) -> list[Struck]:
    """Lengthen notes released while the pedal is down: to pedal up, or the same pitch again."""
    if not any(down for _, down in pedal):
        return notes
    last = max(note.end for note in notes)
    spans = pedal_spans(pedal, last)
    downs = [down for down, _ in spans]
    again: dict[int, int] = {}  # pitch -> when it is struck next
    found = []
    for note in sorted(notes, reverse=True):
        i = bisect_right(downs, note.end) - 1
        up = spans[i][1] if i >= 0 else 0
        if note.end < up:
            up = max(note.end, min(up, again.get(note.pitch, up)))
        found.append(note._replace(end=max(note.end, up)))
        again[note.pitch] = note.start
    return found


def pedal_spans(pedal: list[tuple[int, bool]], last: int) -> list[tuple[int, int]]:
    """[(5, down), (6, down), (9, up)] -> [(5, 9)]; a pedal that stays down ends at `last`."""
    spans: list[tuple[int, int]] = []
    since = None
    for tick, down in pedal:
        if down and since is None:
            since = tick
        elif not down and since is not None:
            spans.append((since, tick))
            since = None
    return spans if since is None else [*spans, (since, max(since, last))]


class Clock:
    """Converts the ticks of a file to seconds."""

    def __init__(self, ticks: int, tempos: list[tuple[int, int]]):
        found = {0: MICROSECONDS} | dict(sorted(tempos))
        self.at = np.array(list(found), dtype=np.int64)
        self.pace = np.array(list(found.values())) / 1e6 / ticks  # seconds per tick
        passed = np.diff(self.at) * self.pace[:-1]
        self.before = np.concatenate([[0.0], np.cumsum(passed)])
        self.tempos = tuple(
            Tempo(start, 60e6 / pace)
            for start, pace in zip(self.before.tolist(), found.values(), strict=True)
        )

    def seconds(self, ticks: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        each = np.asarray(ticks, dtype=np.int64)
        i = np.searchsorted(self.at, each, side="right") - 1
        return self.before[i] + (each - self.at[i]) * self.pace[i]


# ---- writing ---------------------------------------------------------------------------------


def write_midi(piece: Piece) -> bytes:
    """Write a file of format 1: a track of tempos and meters, then a track for each voice."""
    marks = [(tempo.start, tempo_event(tempo)) for tempo in piece.tempos]
    for start, beats, unit in piece.meters:
        marks.append((start, write_meta(METER, bytes([beats, unit.bit_length() - 1, 24, 8]))))
    ticks = ticks_of(piece, [start for start, _ in marks])
    events = [(tick, event) for tick, (_, event) in zip(ticks, marks, strict=True)]
    tracks = [write_track(events)] + [
        voice_chunk(piece, voice) for voice in range(len(piece.voices))
    ]
    return b"MThd" + struct.pack(">IHHH", 6, 1, len(tracks), TICKS) + b"".join(tracks)


def tempo_event(tempo: Tempo) -> bytes:
    pace = round(60e6 / tempo.quarters_per_minute)
    if not 0 < pace <= 0xFFFFFF:
        raise ValueError(
            f"MIDI has tempos of 3.6 to 60 million quarter notes a minute, "
            f"got {tempo.quarters_per_minute:g}"
        )
    return write_meta(TEMPO, pace.to_bytes(3))


def voice_chunk(piece: Piece, voice: int) -> bytes:
    name, program = piece.voices[voice]
    channel = [c for c in range(16) if c != DRUMS][voice % 15]
    events = [(0, write_meta(NAME, name.encode())), (0, bytes([0xC0 | channel, program]))]
    notes = separate_notes(note for note in piece.notes if note.voice == voice)
    spans = ticks_of(piece, [at for note in notes for at in (note.start, note.end)])
    played = []
    for note, start, end in zip(notes, spans[::2], spans[1::2], strict=True):
        played.append((start, 1, bytes([0x90 | channel, note.pitch, note.velocity])))
        played.append((max(end, start + 1), 0, bytes([0x80 | channel, note.pitch, 64])))
    # Within one tick, keys go up first: else a repeated pitch would end as it begins.
    return write_track(events + [(tick, event) for tick, _, event in sorted(played)])


def ticks_of(piece: Piece, seconds: list[float]) -> list[int]:
    return np.rint(to_quarters(piece, seconds) * TICKS).astype(np.int64).tolist()


def write_meta(kind: int, held: bytes) -> bytes:
    return bytes([META, kind]) + write_variable(len(held)) + held


def write_variable(number: int) -> bytes:
    """Encode a number as `read_variable` reads it: 200 -> 0x81 0x48"""
    parts = [number & 0x7F]
    while number := number >> 7:
        parts.insert(0, number & 0x7F | 0x80)
    return bytes(parts)


def write_track(events: list[tuple[int, bytes]]) -> bytes:
    """Encode (tick, event) pairs as a track, with the time between events."""
    events = [(0, b""), *sorted(events, key=lambda event: event[0])]
    parts = [write_variable(tick - now) + event for (now, _), (tick, event) in pairwise(events)]
    held = b"".join([*parts, write_variable(0) + write_meta(END, b"")])
    return b"MTrk" + len(held).to_bytes(4) + held
