"""Pieces as numbers by bars and beats: REMI, as miditok has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from manyheads.codecs import midi
from manyheads.codecs.notes import Piece, Voice, apart
from manyheads.codecs.text import START, STOP, Signs

SIGNS = ["PAD", "BOS", "EOS"]  # in the order of their numbers


class Remi:
    """Bars, places in them, pitches, velocities and lengths; all voices share one keyboard.

    Notes go to the nearest place of the piece's tempos: for music that keeps to its beat.
    """

    signs = Signs(unknown=None)

    def __init__(self, tokenizer: Any = None):
        self.tokenizer = built() if tokenizer is None else tokenizer
        if [self.tokenizer.vocab.get(f"{sign}_None") for sign in SIGNS] != [0, START, STOP]:
            raise ValueError(f"a tokenizer of ours numbers {' '.join(SIGNS)} 0 to {STOP}")

    @property
    def size(self) -> int:
        return len(self.tokenizer)

    def encode(self, piece: Piece) -> list[int]:
        notes = apart(note._replace(voice=0) for note in piece.notes)
        alone = replace(piece, notes=tuple(notes), voices=(Voice(),))
        score = needed("symusic").Score.from_midi(midi.write(alone))
        return [int(number) for tokens in self.tokenizer(score) for number in tokens.ids]

    def render(self, ids: Sequence[int]) -> Piece:
        """The music in any numbers of this codec."""
        known = [int(number) for number in ids if STOP < number < self.size]
        score = self.tokenizer.decode([known])
        if not any(track.notes for track in score.tracks):
            return Piece(())
        return midi.read(score.dumps_midi())

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each number says, to label a picture with."""
        return [str(self.tokenizer[int(number)]) for number in ids]

    def save(self, path: Path) -> None:
        self.tokenizer.save(path)

    @staticmethod
    def load(path: Path) -> Remi:
        try:
            json.loads(path.read_text(encoding="utf-8"))["tokenization"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} does not hold a tokenizer of miditok") from None
        return Remi(needed("miditok").REMI(params=path))


def built() -> Any:
    miditok = needed("miditok")
    return miditok.REMI(
        miditok.TokenizerConfig(
            pitch_range=(0, 127), special_tokens=SIGNS, use_tempos=True, use_time_signatures=True
        )
    )


def needed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ValueError(f"REMI needs {name}: pip install 'manyheads[music]'") from None
