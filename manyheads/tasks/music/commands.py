"""generate, evaluate, look, compress and decompress, for models of music."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from manyheads.cli.live import serve_live
from manyheads.cli.screen import count_amount, count_items, print_picture, print_report
from manyheads.data.packed import write_packed
from manyheads.metrics.report import format_report, make_report, sign_values
from manyheads.tasks.continuation import score_tokens
from manyheads.tasks.music import sound
from manyheads.tasks.music.chorales import piece_of, read_grids
from manyheads.tasks.music.corpus import VALID, count_pieces
from manyheads.tasks.music.decoding import MusicDecoding
from manyheads.tasks.music.melody import melody_of
from manyheads.tasks.music.midi import MidiReport, load_midi, read_pieces, save_midi
from manyheads.tasks.music.midi_bytes import write_midi
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Piece
from manyheads.tasks.music.packing import compress_pieces, decompress_pieces, encode_pieces
from manyheads.tasks.music.roll import Roll
from manyheads.tasks.music.statistics import Statistics, cut_opening, distance, format_columns
from manyheads.tasks.music.verbs import (
    ComposeOptions,
    CompressMusicOptions,
    DecompressMusicOptions,
    EvaluateMusicOptions,
    InspectMusicOptions,
    LookOptions,
    is_grids,
)
from manyheads.tasks.packing import note_payoff, open_packed, write_files

# ---- generate --------------------------------------------------------------------------------


def generate(model: Musician, options: ComposeOptions) -> None:
    """Write music into files with --out; without it, print events while they are written."""
    if options.voice_leading != MusicDecoding.voice_leading and model.task.codec.kind != "chorales":
        raise ValueError(f"--voice-leading is for models of chorales, {model.name} is none")
    if options.soundfont is not None:
        sound.player_of(options.soundfont)
    if options.out is None and options.harmonize is None:
        stream_events(model, options)
        return
    began = time.perf_counter()
    pieces, seconds = compose_pieces(model, options)
    took = time.perf_counter() - began
    if options.out is None:
        codec = model.task.codec
        for text in format_events(codec.pieces(codec.encode(pieces[0])), codec.beat):
            print(text, end="")
        return
    for piece, path in zip(pieces, options.paths(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        print(save_piece(piece, path, options), flush=True)
    print(f"{seconds:.1f} s of music in {took:.1f} s: {seconds / took:.2g} times real time")


def decoding_of(options: ComposeOptions) -> dict[str, Any]:
    return {one.name: getattr(options, one.name) for one in fields(MusicDecoding)}


def compose_pieces(model: Musician, options: ComposeOptions) -> tuple[list[Piece], float]:
    """Return the pieces, and how many seconds of them are new."""
    how = decoding_of(options)
    if options.harmonize is not None:
        # With the pedal, a high note would ring on above the melody and hide it.
        song = load_midi(options.harmonize, pedal=False)
        melody, choice = melody_of(song, options.voice, options.track)
        for line in choice:
            print(line, file=sys.stderr)
        piece = model.harmonize(melody, options.voice, shown=count_tokens, **how)
        return [piece], piece.seconds - melody.notes[0].start  # silence before it is not written
    prime = None if options.prime is None else load_midi(options.prime)
    with count_amount(options.seconds * options.count, "seconds") as told:
        found = model.compose(prime, options.seconds, options.count, told, **how)
    return [one.piece for one in found], sum(one.seconds for one in found)


def count_tokens(tokens: Sequence[int]) -> Iterator[int]:
    """Show in a terminal how many tokens are done: a long melody takes minutes."""
    return count_items(tokens, len(tokens), "tokens")


def stream_events(model: Musician, options: ComposeOptions) -> None:
    prime = None if options.prime is None else load_midi(options.prime)
    for number in range(options.count):
        coming = model.stream(prime, options.seconds, number, **decoding_of(options))
        for text in format_events((said for said, _ in coming), model.task.codec.beat):
            print(text, end="", flush=True)
        if options.count > 1:
            print("-" * 20, flush=True)


def format_events(said: Iterator[str] | list[str], beat: int) -> Iterator[str]:
    """Yield events with spaces between; a line ends after each step, or where time passes."""
    fresh = True  # whether this is the begin of a line
    for number, label in enumerate(said, start=1):
        before = "" if fresh else " "
        fresh = number % beat == 0 if beat > 1 else label.startswith(("+", "Bar"))
        yield f"{before}{label}" + "\n" * fresh
    if not fresh:
        yield "\n"


def save_piece(piece: Piece, path: Path, options: ComposeOptions) -> str:
    """Save the MIDI file, and beside it sound and picture; return a line to print."""
    save_midi(piece, path)
    if not piece.notes:
        return f"{path}: no notes"
    told = f"{path}: {len(piece.notes):,} notes, {piece.seconds:.1f} s"
    if options.only_midi:
        return told
    sound.save_sound(piece, path.with_suffix(".wav"), options.soundfont)
    Roll(piece).save(path.with_suffix(".png"))
    return f"{told}; to hear {path.with_suffix('.wav')}, to see {path.with_suffix('.png')}"


# ---- evaluate --------------------------------------------------------------------------------


def evaluate_pieces(model: Musician, options: EvaluateMusicOptions) -> None:
    """Print how likely the model finds this music, and compare it with what the model writes."""
    pieces = read_music(options.music, options.split)
    report = evaluate_music(model, pieces, options.count, options.seconds)
    print_report(report, options.as_json, music_table)


def evaluate_music(
    model: Musician, pieces: Sequence[tuple[str, Piece]], count: int, seconds: float
) -> dict[str, Any]:
    """Return a report on (place, piece) pairs: how likely the model finds them, and statistics of
    their first `seconds`, compared with `count` pieces of that length that the model writes.
    """
    if not pieces:
        raise ValueError("there is nothing to evaluate: no piece has a note")
    codec, nats, nats_of_notes, tokens = model.task.codec, 0.0, 0.0, 0
    began, heard = time.perf_counter(), []
    for where, piece in count_items(pieces, len(pieces), "pieces", "read"):
        try:
            found = model.score(piece, model.task.context)  # windows that do not overlap
            heard.append(cut_opening(codec.render(codec.encode(piece)), seconds))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        nats, nats_of_notes = nats - sum(found.logs), nats_of_notes - sum(found.logs[:-1])
        tokens += len(found.logs)
    notes = nats_of_notes / (tokens - len(pieces))
    window = f"context:{model.task.context}|overlap:0"
    values = {"notes": notes, **score_tokens(nats, tokens)}
    drawn = [cut_opening(one.piece, seconds) for one in model.compose(seconds=seconds, count=count)]
    data, ours = Statistics.of(heard), Statistics.of(drawn)
    return make_report(
        model.name,
        len(pieces),
        began,
        sign_values(values, window),
        tokens=tokens,
        statistics={"seconds": seconds, "data": data.to_json(), "drawn": ours.to_json()},
        pitch_classes_apart=round(distance(data, ours), 4),
    )


def music_table(told: Mapping[str, Any]) -> str:
    """Return the report as text, with the statistics of the music."""
    held = told["statistics"]
    columns = {name: Statistics(**held[name]) for name in ("data", "drawn")}
    lines = [
        format_report(told),
        f"\n  the first {held['seconds']:g} s of each piece, and as much drawn",
        format_columns(columns),
        f"  pitch classes apart: {told['pitch_classes_apart']:.3f} of 1",
    ]
    return "\n".join(lines)


def read_music(music: Sequence[Path], split: str) -> list[tuple[str, Piece]]:
    """Read (place, piece) pairs from these files; print which files cannot be read."""

    found: list[tuple[str, Piece]] = []
    for path in filter(is_grids, music):
        held = read_grids(path)
        names = VALID if split in VALID else (split,)
        name = next((name for name in names if name in held), None)
        if name is None:
            raise ValueError(f"{path} has the splits {', '.join(held)}, --split asks for {split}")
        found += [(f"{path}, {name} {i}", piece_of(grid)) for i, grid in enumerate(held[name])]
    if files := [path for path in music if not is_grids(path)]:
        report = MidiReport()
        found += [(str(path), piece) for piece, path in read_pieces(files, report)]
        if report.left_out:
            print(report, file=sys.stderr)
    return [(where, piece) for where, piece in found if piece.notes]


# ---- look ------------------------------------------------------------------------------------


def look(model: Musician, options: LookOptions) -> None:
    arcs = model.look(load_midi(options.music or Path()), options.layer, options.head, options.at)
    print_picture(arcs, options.out, replace(arcs, title=f"{model.name}: {arcs.title}").save)


def inspect(model: Musician, options: InspectMusicOptions) -> None:
    piece = None if options.music is None else load_midi(options.music)
    if piece is not None and options.out is not None:
        model.inspect(piece, tokens=options.tokens).save(options.out)
        print(f"page: {options.out}")
        return
    serve_live(model, partial(model.inspect_live, piece=piece), options)


# ---- compress --------------------------------------------------------------------------------


def compress_music(model: Musician, options: CompressMusicOptions) -> None:
    assert options.out is not None
    pieces = read_music(options.files, options.split)
    if not pieces:
        raise ValueError(f"there is no music in {', '.join(map(str, options.files))}")
    encoded = encode_pieces(model, pieces, options.as_heard)
    with count_amount(sum(map(len, encoded)), "tokens", "compressed") as told:
        head, parts = compress_pieces(model, encoded, told)
    size = write_packed(options.out, {**head, "names": name_pieces(pieces)}, parts)
    notes = sum(len(piece.notes) for _, piece in pieces)
    # For comparison: MIDI files compressed as in a .zip.
    zipped = sum(len(zlib.compress(write_midi(piece), 9)) for _, piece in pieces)
    print(
        f"{options.out}: {count_pieces(pieces)}, {notes:,} notes in {size:,} bytes, "
        f"{8 * size / notes:.2f} bits a note; as packed MIDI files {zipped:,} bytes"
    )
    for line in note_payoff(model, zipped - size, len(pieces), "pieces"):
        print(line)


def name_pieces(pieces: Sequence[tuple[str, Piece]]) -> list[str]:
    """Return the names of the files to write: those that were read if all differ, else numbers."""
    stems = [Path(where).stem for where, _ in pieces]
    if len({*stems}) < len(stems) or not all(Path(where).is_file() for where, _ in pieces):
        stems = [f"{number:03d}" for number in range(1, len(pieces) + 1)]
    return [f"{stem}.mid" for stem in stems]


def decompress_music(model: Musician, options: DecompressMusicOptions) -> None:
    assert options.out is not None
    head, parts = open_packed(model, options.file[0])
    with count_amount(sum(head["lengths"]), "tokens", "decompressed") as told:
        pieces = decompress_pieces(model, head, parts, told)
    # Always inside the folder, whatever names the file holds.
    paths = [options.out / Path(name).name for name in head["names"]]
    write_files(dict(zip(paths, map(write_midi, pieces), strict=True)))
    print(f"{options.out}: {count_pieces(pieces)}, note by note")
