"""Little pieces, networks that have learned nothing, and runs that learn within a second."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from designs import network_of
from typed import trained

from manyheads.modules.config import NetworkConfig
from manyheads.tasks.music.chorales import Chorales, grid_of, piece_of
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.midi import save_midi
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Note, Piece, Tempo
from manyheads.tasks.music.performance import Performance
from manyheads.tasks.music.settings import MusicData, MusicEncoding, MusicRecipe
from manyheads.tasks.music.task import MusicTask
from manyheads.training.config import Training

SETTINGS = [
    "network.width=16",
    "network.heads=2",
    "network.depth=2",
    "network.ffn_width=32",
    "data.context=128",
    "training.steps=6",
    "training.warmup_steps=2",
    "training.tokens_per_batch=256",
    "training.validate_every=3",
    "training.checkpoint_every=4",
    "training.log_every=2",
]
SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "ffn_width": 32, "dropout": 0.0}


def transpose(piece: Piece, semitones: int) -> Piece:
    """The same, higher or lower."""
    return replace(piece, notes=tuple(n._replace(pitch=n.pitch + semitones) for n in piece.notes))


def stretch(piece: Piece, factor: float) -> Piece:
    """The same, `factor` times as long."""
    notes = (n._replace(start=n.start * factor, end=n.end * factor) for n in piece.notes)
    tempos = (Tempo(t.start * factor, t.quarters_per_minute / factor) for t in piece.tempos)
    meters = (m._replace(start=m.start * factor) for m in piece.meters)
    return replace(piece, notes=tuple(notes), tempos=tuple(tempos), meters=tuple(meters))


def chorale(steps: int = 24, seed: int = 0) -> Piece:
    """Four voices, each at home in its own octave."""
    chance = np.random.default_rng(seed)
    homes = np.array([72, 65, 57, 48])
    chords = homes + chance.integers(-4, 5, (-(-steps // 4), 4))
    return piece_of(np.repeat(chords, 4, 0)[:steps].astype(np.int16))


def performance(notes: int = 12, seed: int = 0) -> Piece:
    """One hand, now and then two keys at once."""
    chance = np.random.default_rng(seed)
    starts = np.cumsum([0.0, *chance.choice([0.0, 0.25, 0.5], notes - 1)])
    pitches = chance.integers(48, 84, notes)
    each = zip(starts.tolist(), pitches.tolist(), strict=True)
    return Piece(tuple(Note(at, at + 0.4, pitch, 64) for at, pitch in each))


def task_of(
    codec: MusicCodec, network: NetworkConfig, context: int = 64, folder: Path | None = None
) -> MusicTask:
    data = MusicData((Path("songs"),), context=context)
    training = Training(best_by="loss", tokens_per_batch=128)
    recipe = MusicRecipe(
        "music",
        data,
        MusicEncoding(codec.kind),
        network,
        training,
        "packed" if network.packs else "padded",
    )
    return MusicTask(recipe, codec, folder)


def musician(codec: MusicCodec, context: int = 64, **network: Any) -> Musician:
    torch.manual_seed(0)
    task = task_of(codec, network_of(**{**SMALL, **network}), context)
    made = task.network()
    with torch.no_grad():  # sharper than it begins, so that what is likely is not all alike
        for weight in made.parameters():
            weight.mul_(1.5)
    return task.model(made, "toy")


def singer(context: int = 64, **network: Any) -> Musician:
    return musician(Chorales(), context, **network)


def pianist(context: int = 64, **network: Any) -> Musician:
    return musician(Performance(), context, **network)


# ---- files, and runs that all tests ask and none may change ----------------------------------


def midi(piece: Piece, path: Path) -> Path:
    save_midi(piece, path)
    return path


def npz(folder: Path) -> Path:
    """Chorales in three splits."""
    arrays = {}
    for number, split in enumerate(("train", "valid", "test")):
        sung = [grid_of(chorale(16 + 4 * i, seed=10 * number + i)) for i in range(4)]
        arrays[f"{split}_notes"] = np.concatenate(sung)
        arrays[f"{split}_lengths"] = np.array([len(grid) for grid in sung])
    path = folder / "chorales.npz"
    np.savez(path, **arrays)
    return path


@cache
def chorales(base: Path) -> Path:
    folder = base / "chorales"
    folder.mkdir()
    return trained(folder / "run", "music", "--music", npz(folder), settings=SETTINGS)


@cache
def performances(base: Path) -> Path:
    folder = base / "performances"
    (folder / "midi").mkdir(parents=True)
    for seed in range(4):
        midi(performance(30, seed), folder / "midi" / f"{seed}.mid")
    return trained(folder / "run", "music", "--music", folder / "midi", settings=SETTINGS)
