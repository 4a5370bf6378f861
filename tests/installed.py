"""A module of someone else's, as if it had been installed with an entry point."""

from pathlib import Path

import pytest


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, group: str, point: str
) -> None:
    """`point` says what of the module is meant: "brevity = brevity:measure"."""
    name = point.split("=")[1].split(":")[0].strip()
    (folder / f"{name}.py").write_text(source)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{point}\n")
    monkeypatch.syspath_prepend(folder)
