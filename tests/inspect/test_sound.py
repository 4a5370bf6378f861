"""Sound, measured."""

import os
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest

from manyheads.tasks.music.midi_bytes import write_midi
from manyheads.tasks.music.notes import Note, Piece, Voice
from manyheads.tasks.music.sound import RATE, TAIL_SECONDS, render_sound, save_sound


def recorded(path: Path) -> np.ndarray:
    with wave.open(str(path), "rb") as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (44_100, 2, 2)
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return frames.reshape(-1, 2)


@pytest.mark.parametrize("program", [0, 19])
def test_a_wav_is_as_long_as_its_piece_audible_and_not_clipped(
    program: int, tmp_path: Path
) -> None:
    notes = tuple(Note(i * 0.1, i * 0.1 + 1.0, 50 + i, 127) for i in range(10))
    save_sound(Piece(notes, (Voice("x", program),)), tmp_path / "a.wav")
    heard = recorded(tmp_path / "a.wav").astype(int)
    assert len(heard) == int((1.9 + TAIL_SECONDS) * RATE)
    assert 28_000 < np.abs(heard).max() < 32_000
    assert heard[: RATE // 2].std() > 1000
    assert np.abs(heard[-RATE // 10 :]).max() == 0  # the tail


@pytest.mark.parametrize("program", [0, 19])
@pytest.mark.parametrize(("pitch", "frequency"), [(69, 440.0), (60, 261.63), (33, 55.0)])
def test_pitches_are_in_tune(pitch: int, frequency: float, program: int) -> None:
    left = render_sound(Piece((Note(0.0, 2.0, pitch),), (Voice("x", program),)))[: 2 * RATE, 0]
    spectrum = np.abs(np.fft.rfft(left * np.hanning(len(left)), 4 * len(left)))
    assert np.argmax(spectrum) / 8 == pytest.approx(frequency, abs=1.0)


def test_a_struck_string_fades_and_a_choir_stays() -> None:
    def ratio(program: int) -> float:
        heard = render_sound(Piece((Note(0.0, 3.0, 69),), (Voice("x", program),)))
        return float(heard[int(2.5 * RATE) : int(2.9 * RATE)].std() / heard[: RATE // 2].std())

    assert ratio(0) < 0.2
    assert ratio(52) > 0.9


def test_velocity_is_loudness_and_low_notes_are_on_the_left() -> None:
    heard = render_sound(Piece((Note(0.0, 0.4, 60, 30), Note(1.0, 1.4, 60, 120))))
    assert heard[RATE : RATE + 8000].std() > 3 * heard[:8000].std()
    low, high = (render_sound(Piece((Note(0.0, 0.4, pitch),))).std(axis=0) for pitch in (30, 100))
    assert low[0] > low[1]
    assert high[0] < high[1]


def test_silence_is_silent_and_an_hour_is_the_most() -> None:
    assert not render_sound(Piece(())).any()
    with pytest.raises(ValueError, match="a sound is 3600 seconds at most, this piece has 4000"):
        render_sound(Piece((Note(0.0, 4000.0, 60),)))


FLUIDSYNTH = """#!/bin/sh
[ "$1 $2 $3 $4 $5 $6" = "-n -i -q -r 44100 -F" ] || { echo "not understood: $*" >&2; exit 2; }
cat "$8" "$9" > "$7"
"""


def test_a_soundfont_is_played_by_fluidsynth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = Piece((Note(0.0, 1.0, 60),))
    font = tmp_path / "font.sf2"
    with pytest.raises(ValueError, match=r"there is no soundfont .*font.sf2"):
        save_sound(piece, tmp_path / "a.wav", font)
    font.write_bytes(b"font")
    with pytest.raises(ValueError, match=r"font.sf2 is no soundfont: it does not begin as .sf2"):
        save_sound(piece, tmp_path / "a.wav", font)
    font.write_bytes(b"RIFF0000sfbk")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="by fluidsynth, which is not on the PATH"):
        save_sound(piece, tmp_path / "a.wav", font)
    program = tmp_path / "fluidsynth"
    program.write_text(FLUIDSYNTH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    save_sound(piece, tmp_path / "a.wav", font)
    assert (tmp_path / "a.wav").read_bytes() == b"RIFF0000sfbk" + write_midi(piece)
    program.write_text("#!/bin/sh\necho no such font >&2; exit 1\n")
    with pytest.raises(ValueError, match="fluidsynth could not play it: no such font"):
        save_sound(piece, tmp_path / "a.wav", font)
    program.write_text(f"{FLUIDSYNTH}echo CRITICAL >&2; echo Failed to load the SoundFont >&2\n")
    with pytest.raises(ValueError, match="could not play it: Failed to load the SoundFont"):
        save_sound(piece, tmp_path / "a.wav", font)
    assert not (tmp_path / "a.wav").exists()


SOUNDFONT = Path("/usr/share/sounds/sf2/default-GM.sf2")  # where Debian's packages put one


@pytest.mark.skipif(
    not (shutil.which("fluidsynth") and SOUNDFONT.exists()),
    reason="needs fluidsynth and a soundfont of the system",
)
def test_fluidsynth_is_heard(tmp_path: Path) -> None:
    save_sound(Piece((Note(0.0, 1.0, 69, 100),)), tmp_path / "a.wav", SOUNDFONT)
    heard = recorded(tmp_path / "a.wav").astype(float).mean(1)
    assert 1.0 < len(heard) / RATE < 10
    first = heard[: int(RATE * 0.9)]
    loudest = np.abs(np.fft.rfft(first)).argmax() * RATE / len(first)
    assert abs(loudest / 440 - round(loudest / 440)) < 0.02  # an A, or one of its overtones
    assert np.abs(heard).max() > 300
