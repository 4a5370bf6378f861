"""Folders of MIDI files to learn from."""

from __future__ import annotations

from pathlib import Path

import tunes


def folder(path: Path, count: int = 5) -> Path:
    path.mkdir()
    for i in range(count):
        tunes.midi(tunes.performance(seed=i), path / f"{i:02d}.mid")
    return path
