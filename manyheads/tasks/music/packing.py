"""Compress music without loss with the probabilities of a model, and restore it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyheads.data.packed import PackedPart
from manyheads.tasks.music.corpus import encode_piece
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Note, Piece
from manyheads.tasks.packing import Told
from manyheads.tasks.row_packing import Row, compress_rows, decompress_rows

SECONDS = 0.002  # rounding of a MIDI file, too short to hear


def encode_pieces(
    model: Musician, pieces: Sequence[tuple[str, Piece]], as_heard: bool = False
) -> list[list[int]]:
    """Encode (place, piece) pairs; raise if decoding would give other notes, unless `as_heard` is
    set, which keeps what the codec of the model makes of them.
    """
    codec, found = model.task.codec, []
    for where, piece in pieces:
        try:
            ids = encode_piece(piece, codec).tolist()
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if not as_heard and not same_notes(piece, codec.render(ids)):
            raise ValueError(
                f"{where} does not come out note by note, for {model.name} writes music more "
                "coarsely; --as-heard compresses what it hears"
            )
        found.append(ids)
    return found


def compress_pieces(
    model: Musician, encoded: Sequence[Row], told: Told
) -> tuple[dict[str, Any], list[PackedPart]]:
    """Return a header and parts for `write_packed`, from encoded pieces."""
    beat = model.task.codec.beat
    window = model.task.context // beat * beat
    cut = [[ids[i : i + window] for i in range(0, len(ids), window)] for ids in encoded]
    head, parts = compress_rows(model, [row for rows in cut for row in rows], told)
    return {**head, "rows": [*map(len, cut)]}, parts


def decompress_pieces(
    model: Musician, head: dict[str, Any], parts: list[PackedPart], told: Told
) -> list[Piece]:
    rows = iter(decompress_rows(model, head, parts, told))
    ids = [[number for _ in range(count) for number in next(rows)] for count in head["rows"]]
    return [model.task.codec.render(one) for one in ids]


def same_notes(one: Piece, other: Piece) -> bool:
    """Whether both have the same notes: pitch, velocity, voice and, within a few ms, time."""
    pairs = zip(sorted(one.notes), sorted(other.notes), strict=False)
    return len(one.notes) == len(other.notes) and all(same_note(*pair) for pair in pairs)


def same_note(one: Note, other: Note) -> bool:
    late = max(abs(one.start - other.start), abs(one.end - other.end))
    return late <= SECONDS and one[2:] == other[2:]
