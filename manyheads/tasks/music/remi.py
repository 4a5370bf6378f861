"""REMI: pieces as token ids by bars and beats, with miditok."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manyheads.codecs.text import BOS, EOS
from manyheads.tasks.music import midi_bytes as midi
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.notes import Piece, Voice, separate_notes

TOKENIZER = "tokenizer.json"
SPECIAL_TOKEN_NAMES = ["PAD", "BOS", "EOS"]  # in the order of their ids


class Remi(MusicCodec):
    """Encodes bars, places in them, pitches, velocities and lengths; all voices share a keyboard.

    Notes are rounded to the beats of the piece's tempos, so it is for music that keeps its beat.
    """

    kind = "remi"

    def __init__(self, tokenizer: Any = None):
        self.tokenizer = build_tokenizer() if tokenizer is None else tokenizer
        numbers = [self.tokenizer.vocab.get(f"{sign}_None") for sign in SPECIAL_TOKEN_NAMES]
        if numbers != [0, BOS, EOS]:
            raise ValueError(
                f"a tokenizer of ours numbers {' '.join(SPECIAL_TOKEN_NAMES)} 0 to {EOS}"
            )

    @property
    def size(self) -> int:
        return len(self.tokenizer)

    def encode(self, piece: Piece) -> list[int]:
        notes = separate_notes(note._replace(voice=0) for note in piece.notes)
        alone = replace(piece, notes=tuple(notes), voices=(Voice(),))
        score = require_module("symusic").Score.from_midi(midi.write_midi(alone))
        return [int(number) for tokens in self.tokenizer(score) for number in tokens.ids]

    def render(self, ids: Sequence[int]) -> Piece:
        """Decode any token ids of this codec."""
        known = [int(number) for number in ids if EOS < number < self.size]
        score = self.tokenizer.decode([known])
        if not any(track.notes for track in score.tracks):
            return Piece(())
        return midi.read_midi(score.dumps_midi())

    def name(self, number: int) -> str:
        return str(self.tokenizer[int(number)])

    def keys(self) -> list[dict[int, int]]:
        vocab, prefix = self.tokenizer.vocab, "Pitch_"
        return [{int(n.removeprefix(prefix)): vocab[n] for n in vocab if n.startswith(prefix)}]

    # ---- saving ------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        with TemporaryDirectory() as folder:
            self.tokenizer.save(Path(folder) / TOKENIZER)
            text = (Path(folder) / TOKENIZER).read_text(encoding="utf-8")
        return {"tokenizer": json.loads(text)}

    @staticmethod
    def of(held: dict[str, Any]) -> Remi:
        """Restore a codec from what `describe` returned; make a new one from an empty dict."""
        if not held:
            return Remi()
        if "tokenization" not in held.get("tokenizer", {}):
            raise ValueError("what is kept of REMI is not a tokenizer of miditok")
        with TemporaryDirectory() as folder:  # miditok only reads files
            path = Path(folder) / TOKENIZER
            path.write_text(json.dumps(held["tokenizer"]), encoding="utf-8")
            return Remi(require_module("miditok").REMI(params=path))


def build_tokenizer() -> Any:
    miditok = require_module("miditok")
    return miditok.REMI(
        miditok.TokenizerConfig(
            pitch_range=(0, 127),
            special_tokens=SPECIAL_TOKEN_NAMES,
            use_tempos=True,
            use_time_signatures=True,
        )
    )


def require_module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ValueError(f"REMI needs {name}: pip install 'manyheads[music]'") from None
