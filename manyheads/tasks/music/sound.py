"""Save pieces as WAV files, with a small synthesizer of our own or with fluidsynth.

A tone is a sum of harmonics. Those of a piano fade, the higher the faster; those of an organ, a
bowed string or a choir do not fade.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import wave
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from manyheads.tasks.music.midi_bytes import write_midi
from manyheads.tasks.music.notes import PIANO, Piece

Samples = NDArray[np.float32]

RATE = 44_100  # samples a second
PEAK = 0.9  # of the 16-bit range
HARMONICS = 12
ATTACK_SECONDS, RELEASE_SECONDS = 0.005, 0.12
TAIL_SECONDS = 0.5  # time after the last note, in which it dies away
LONGEST_SECONDS = 3600.0
SUSTAINED = {*range(16, 24), *range(40, 80)}  # programs: organs, strings, choirs, winds


def save_sound(piece: Piece, path: Path, soundfont: Path | None = None) -> None:
    """Write a 16-bit stereo WAV file; with a soundfont, fluidsynth plays it."""
    if soundfont is not None:
        play_by_fluidsynth(piece, path, soundfont)
        return
    whole = np.rint(render_sound(piece) * 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(whole.tobytes())


def player_of(soundfont: Path) -> str:
    """Return the path of fluidsynth; refuse a broken soundfont before any music is written."""
    if not soundfont.is_file():
        raise ValueError(f"there is no soundfont {soundfont}")
    with soundfont.open("rb") as file:
        head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] not in (b"sfbk", b"DLS "):
        raise ValueError(f"{soundfont} is no soundfont: it does not begin as .sf2 files do")
    program = shutil.which("fluidsynth")
    if program is None:
        raise ValueError(
            "a soundfont is played by fluidsynth, which is not on the PATH; install it, or leave "
            "the soundfont out"
        )
    return program


def play_by_fluidsynth(piece: Piece, path: Path, soundfont: Path) -> None:
    program = player_of(soundfont)
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "piece.mid"
        notes.write_bytes(write_midi(piece))
        command = [program, "-n", "-i", "-q", "-r", str(RATE), "-F", str(path)]
        done = subprocess.run(
            [*command, str(soundfont), str(notes)], capture_output=True, text=True, check=False
        )
    # If a soundfont is broken after its head, fluidsynth uses the system's one and reports success.
    failed = done.returncode or "Failed to load" in done.stderr
    if failed or not path.is_file():
        path.unlink(missing_ok=True)
        *_, reason = done.stderr.strip().splitlines() or ["it does not say why"]
        raise ValueError(f"fluidsynth could not play it: {reason[-300:]}")


def render_sound(piece: Piece) -> Samples:
    """Return stereo sound (samples, 2) between -1 and 1; low notes are left, as on a piano."""
    if piece.seconds > LONGEST_SECONDS:
        raise ValueError(
            f"a sound is {LONGEST_SECONDS:g} seconds at most, this piece has {piece.seconds:.0f}"
        )
    mixed = np.zeros((int((piece.seconds + TAIL_SECONDS) * RATE), 2), dtype=np.float32)
    keys = [(note.pitch, piece.voices[note.voice].program in SUSTAINED) for note in piece.notes]
    longest: dict[tuple[int, bool], float] = defaultdict(float)
    for key, note in zip(keys, piece.notes, strict=True):
        longest[key] = max(longest[key], note.end - note.start)
    tones = {key: tone(*key, seconds + RELEASE_SECONDS) for key, seconds in longest.items()}
    for key, note in zip(keys, piece.notes, strict=True):
        start = round(note.start * RATE)
        heard = shape_ends(tones[key], note.end - note.start)[: len(mixed) - start]
        gain = (note.velocity / 127) ** 1.5  # about as on a piano
        right = (note.pitch - PIANO.start) / len(PIANO) * 0.6 + 0.2
        mixed[start : start + len(heard), 0] += heard * gain * np.sqrt(np.clip(1 - right, 0, 1))
        mixed[start : start + len(heard), 1] += heard * gain * np.sqrt(np.clip(right, 0, 1))
    loudest = float(np.abs(mixed).max(initial=0.0))
    return mixed * (PEAK / loudest) if loudest else mixed


def tone(pitch: int, sustained: bool, seconds: float) -> Samples:
    """Return the sound of a pitch whose key is never released."""
    frequency = 440 * 2 ** ((pitch - 69) / 12)
    fade = 0.0 if sustained else 0.4 + frequency / 400  # per second: high strings fade sooner
    if fade:
        seconds = min(seconds, 9 / fade)  # after that it is 80 dB down
    at = np.arange(int(seconds * RATE)) / RATE
    sound = np.zeros(len(at))
    for k in range(1, HARMONICS + 1):
        if k * frequency < RATE / 2:
            fading = np.exp(-fade * (0.6 + 0.4 * k) * at)
            sound += np.sin(2 * np.pi * k * frequency * at) * fading / k**1.6
    attack = min(int(ATTACK_SECONDS * RATE * (8 if sustained else 1)), len(at))
    sound[:attack] *= np.linspace(0, 1, attack, endpoint=False)
    return sound.astype(np.float32)


def shape_ends(whole: Samples, seconds: float) -> Samples:
    """Cut a tone to a note of this length: it fades out after `seconds`."""
    held = int(seconds * RATE)
    heard = whole[: held + int(RELEASE_SECONDS * RATE)].copy()
    if len(heard) > held:
        heard[held:] *= np.linspace(1, 0, len(heard) - held, dtype=np.float32) ** 2
    return heard
