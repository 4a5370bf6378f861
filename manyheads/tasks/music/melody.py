"""Find the melody of a piece."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from manyheads.tasks.music.notes import Note, Piece, require_piece
from manyheads.tasks.music.settings import VOICES

TOGETHER_SECONDS = 0.03  # notes that begin within this are a chord


class Melody(NamedTuple):
    """The melody of a piece, and sentences that tell the user how it was chosen."""

    piece: Piece
    told: tuple[str, ...] = ()


def melody_of(piece: Piece, voice: str = "soprano", track: str | None = None) -> Melody:
    """Return the track with this name or number (from 1). By default, return `voice` of a chorale
    (four voices, each one note at a time), else the highest track. Of chords, keep the top note.
    """
    require_piece(piece)
    if voice not in VOICES:
        raise ValueError(f"the voices are {', '.join(VOICES)}; {voice!r} was asked for")
    number, told = pick_track(piece, voice, track), list[str]()
    if track is None and len(piece.voices) > 1 and not is_chorale(piece):
        told.append(
            f"the melody is track {number + 1}, {piece.voices[number].name}, the highest of "
            f"{len(piece.voices)}; --track names another"
        )
    notes = [note._replace(voice=0) for note in piece.notes if note.voice == number]
    if not notes:
        raise ValueError(f"the {voice} of this piece is silent, there is nothing to harmonize")
    if not is_single(notes):
        alone = keep_highest(notes)
        told.append(f"left out: {len(notes) - len(alone):,} notes under the melody")
        notes = alone
    sung = end_at_next(notes)
    if rung := sum(one != other for one, other in zip(notes, sung, strict=True)):
        told.append(f"ended where the next begins: {rung:,} notes that ring on")
    only = (piece.voices[number],)
    return Melody(Piece(tuple(sung), only, piece.tempos, piece.meters), tuple(told))


def pick_track(piece: Piece, voice: str, track: str | None) -> int:
    names = [one.name for one in piece.voices]
    if track is not None:
        numbers = [str(i + 1) for i in range(len(names))]
        folded = [name.casefold() for name in names]
        for asked, known in ((track, names), (track.casefold(), folded), (track, numbers)):
            if asked in known:
                return known.index(asked)
        there = ", ".join(f"{i} {name}" for i, name in enumerate(names, start=1))
        raise ValueError(f"there is no track {track!r} in this piece, it has {there}")
    if is_chorale(piece):
        return VOICES.index(voice)
    pitches: list[list[int]] = [[] for _ in names]
    for note in piece.notes:
        pitches[note.voice].append(note.pitch)
    return max(range(len(names)), key=lambda i: sum(pitches[i]) / max(1, len(pitches[i])))


def is_chorale(piece: Piece) -> bool:
    each = ([n for n in piece.notes if n.voice == voice] for voice in range(len(piece.voices)))
    return len(piece.voices) == len(VOICES) and all(map(is_single, each))


def is_single(notes: Sequence[Note]) -> bool:
    """Whether no two notes begin together."""
    starts = sorted(note.start for note in notes)
    return all(then - at >= TOGETHER_SECONDS for at, then in pairwise(starts))


def keep_highest(notes: Sequence[Note]) -> list[Note]:
    """Keep the highest of notes that begin together; drop lower notes under a longer one."""
    chords: list[list[Note]] = []
    for note in sorted(notes):
        if chords and note.start - chords[-1][0].start < TOGETHER_SECONDS:
            chords[-1].append(note)
        else:
            chords.append([note])
    found, sounding = list[Note](), list[Note]()
    for note in (max(chord, key=lambda n: n.pitch) for chord in chords):
        sounding = [one for one in sounding if one.end > note.start]
        half = (note.start + note.end) / 2
        if not any(one.pitch > note.pitch and one.end >= half for one in sounding):
            found.append(note)
            sounding.append(note)
    return found


def end_at_next(notes: Sequence[Note]) -> list[Note]:
    """End a note where the next begins if it overlaps more than half of it: a voice sings one note
    at a time. A shorter overlap is normal playing and stays.
    """
    found = [*notes]
    for i, (note, following) in enumerate(pairwise(notes)):
        after = notes[i + 2].start if i + 2 < len(notes) else following.end
        if note.end > (following.start + after) / 2:
            found[i] = note._replace(end=following.start)
    return found
