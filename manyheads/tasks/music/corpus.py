"""Music corpora: read pieces, hold some out for validation, encode them as token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.data.batches import split_off
from manyheads.data.shards import write_shard
from manyheads.tasks.music.chorales import Chorales, piece_of, read_grids
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.codec_file import CODEC, save_codec
from manyheads.tasks.music.midi import MidiReport, read_pieces
from manyheads.tasks.music.notes import Piece, drop_first_silence, require_piece
from manyheads.tasks.music.performance import Performance
from manyheads.tasks.music.settings import MusicData
from manyheads.tasks.music.verbs import is_grids
from manyheads.tasks.music.windows import Augmentation
from manyheads.training.files import CORPUS, write_text

Ids = NDArray[np.uint16]
VALID = ("valid", "validation")  # possible names of the validation split
VARIED = "train.varied.json"


@dataclass(frozen=True, eq=False)
class MusicCorpus:
    """Encoded pieces for training and validation, and notes on what was left out."""

    train: list[Ids]
    valid: list[Ids]
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Number of tokens in an epoch, including the end token of each piece."""
        return sum(map(len, self.train)) + len(self.train)

    def __str__(self) -> str:
        train, valid = (sum(map(len, side)) for side in (self.train, self.valid))
        return (
            f"{count_pieces(self.train)} of {train:,} tokens to train on, "
            f"{count_pieces(self.valid)} of {valid:,} tokens to validate on"
        )


def count_pieces(pieces: Sequence[Any]) -> str:
    return "1 piece" if len(pieces) == 1 else f"{len(pieces):,} pieces"


# ---- reading ---------------------------------------------------------------------------------


def gather(data: MusicData, codec: MusicCodec, seed: int) -> MusicCorpus:
    """Read all pieces; without validation files, hold out pieces at random, by the seed."""
    notes: list[str] = []
    train = read_all(data.music, codec, notes, ("train",))
    if data.valid_music:
        valid = read_all(data.valid_music, codec, notes, VALID)
    else:
        valid = read_held_out(data.music, codec, notes)
    if not valid:
        train, valid = hold_out(drop_copies(train, notes), data.held_out, seed)
        notes.append(f"held out: {count_pieces(valid)}, drawn by seed {seed}")
    learned = {ids.tobytes() for ids in train}
    if both := [ids for ids in valid if ids.tobytes() in learned]:
        notes.append(f"both learned from and validated on: {count_pieces(both)}")
    return MusicCorpus(train, valid, tuple(notes))


def read_all(
    paths: Sequence[Path], codec: MusicCodec, notes: list[str], splits: Sequence[str]
) -> list[Ids]:
    """Read and encode all pieces; of an .npz, one of these splits or its only split."""
    found: list[Ids] = []
    for path in filter(is_grids, paths):
        held = read_grids(path)
        name = next((name for name in held if name in splits), None)
        if name is None and len(held) > 1:
            raise ValueError(
                f"{path} has the splits {', '.join(held)}, and none of them is {splits[0]}"
            )
        found += encode_grids(held[name or next(iter(held))], codec, notes, path)
        others = [other for other in held if other not in ("train", *VALID)]
        if others and splits == ("train",):
            notes.append(f"{path}: not read: {', '.join(others)}")
    if files := [path for path in paths if not is_grids(path)]:
        found += encode_files(files, codec, notes)
    return found


def read_held_out(paths: Sequence[Path], codec: MusicCodec, notes: list[str]) -> list[Ids]:
    """Read the validation splits of .npz files."""
    found: list[Ids] = []
    for path in filter(is_grids, paths):
        held = read_grids(path)
        for name in (name for name in held if name in VALID and len(held) > 1):
            found += encode_grids(held[name], codec, notes, path)
    return found


def encode_grids(
    held: Sequence[NDArray[np.int16]], codec: MusicCodec, notes: list[str], path: Path
) -> list[Ids]:
    sung = [grid for grid in held if (grid >= 0).any()]
    if silent := held[len(sung) :]:  # only their number is used
        notes.append(f"{path}: left out: {count_pieces(silent)} without a note")
    if not sung:
        raise ValueError(f"there is no music in {path}: no piece of it has a note")
    if isinstance(codec, Chorales):
        return [to_numbers(codec.flatten(grid)) for grid in sung]
    return [encode_piece(piece_of(grid), codec) for grid in sung]


def encode_files(paths: Sequence[Path], codec: MusicCodec, notes: list[str]) -> list[Ids]:
    found, report = list[Ids](), MidiReport()
    for piece, path in read_pieces(paths, report):
        try:
            found.append(encode_piece(piece, codec))
        except ValueError as error:
            report.left_out[path] = str(error)
    notes.append(str(report))
    return found


def encode_piece(piece: Piece, codec: MusicCodec) -> Ids:
    """Encode a piece; for performances without its first silence, which bars and beats need."""
    require_piece(piece)
    heard = drop_first_silence(piece) if isinstance(codec, Performance) else piece
    return to_numbers(codec.encode(heard))


def to_numbers(ids: Sequence[int]) -> Ids:
    return np.array(ids, dtype=np.uint16)


def drop_copies(found: list[Ids], notes: list[str]) -> list[Ids]:
    """Remove copies: a held-out copy of a training piece would tell nothing."""
    once = list({ids.tobytes(): ids for ids in found}.values())
    if len(once) < len(found):
        notes.append(f"left out: {count_pieces(found[len(once) :])}, being copies of others")
    return once


def hold_out(all_of_it: list[Ids], share: float, seed: int) -> tuple[list[Ids], list[Ids]]:
    if len(all_of_it) < 2:
        raise ValueError(
            "there is one piece, and none is left to validate on; --valid-music gives others"
        )
    count = min(len(all_of_it) - 1, max(1, round(share * len(all_of_it))))
    chosen = np.random.default_rng(seed).permutation(len(all_of_it))[:count]
    return split_off(all_of_it, set(chosen.tolist()))


# ---- writing ---------------------------------------------------------------------------------


def prepare(gathered: MusicCorpus, data: MusicData, codec: MusicCodec, folder: Path) -> None:
    """Write the codec, all versions of the pieces as token ids, and a report."""
    shards = folder / "data"
    shards.mkdir(exist_ok=True)
    save_codec(codec, folder / CODEC)
    augment = data.augmentations_of(codec.kind)
    factors = data.stretches if "stretch" in augment else (1.0,)
    reach = data.semitones if "transpose" in augment else 0
    write_shard(shards / "train", make_versions(gathered.train, codec, factors), codec.size)
    write_shard(shards / "valid", make_versions(gathered.valid, codec, (1.0,)), codec.size)
    rooms = [codec.room(np.unique(ids).tolist()) for ids in gathered.train]
    lowest = np.array([max(room.start, -reach) for room in rooms], np.int64)
    highest = np.array([min(room.stop - 1, reach) for room in rooms], np.int64)
    Augmentation(len(factors), lowest, highest).save(shards / VARIED)
    lines = [str(gathered), *gathered.notes]
    if reach:
        lines.append(f"transposed by up to {reach} semitones each way, as far as a piano goes")
    if len(factors) > 1:
        lines.append(f"stretched to {', '.join(f'{factor:g}' for factor in factors)} of the time")
    write_text(folder / CORPUS, "\n".join(lines) + "\n")


def make_versions(
    gathered: Sequence[Ids], codec: Any, factors: Sequence[float]
) -> Iterator[Sequence[int]]:
    """Yield each piece with start and end tokens, once for each factor that stretches its time."""
    special = codec.special_tokens
    for ids in gathered:
        for factor in factors:
            played = ids.tolist() if factor == 1 else codec.stretch(ids.tolist(), factor)
            yield [*special.bos, *played, special.eos]
