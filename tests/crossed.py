"""How much of the package a command crosses: `python tests/crossed.py [--all]`.

Counted are functions that are called, without those that are called while a module is imported,
and without lambdas and comprehensions.
"""

import sys
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from typed import SETTINGS, texts

import manyheads
from manyheads.cli.app import main

ROOT = str(Path(manyheads.__file__).parent)


def is_imported(frame: FrameType | None) -> bool:
    """Whether a module of the package is being loaded around this call."""
    while frame is not None:
        code, frame = frame.f_code, frame.f_back
        if code.co_name == "<module>" and code.co_filename.startswith(ROOT):
            return True
    return False


def cross(arguments: list[str]) -> set[tuple[str, str]]:
    """The file and the name of each function that this command calls."""
    met: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        one = (code.co_filename, name)
        if event != "call" or one in met or not code.co_filename.startswith(ROOT):
            return
        if not code.co_name.startswith("<") and not is_imported(frame.f_back):
            met.add(one)

    before, sys.argv = sys.argv, ["manyheads", *arguments]
    threading.setprofile(note)  # batches are made in another thread
    sys.setprofile(note)
    try:
        main()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        sys.argv = before
    return {(name.removeprefix(f"{ROOT}/"), function) for name, function in met}


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        source, target = texts(Path(folder))
        out = ["--out", f"{folder}/run", "--device", "cpu"]
        asked = ["train", "translation", "--source", source, "--target", target, *out, *SETTINGS]
        met = cross([*map(str, asked)])
    files = Counter(name for name, _ in met)
    if "--all" in sys.argv[1:]:
        print(*sorted(f"{name} {function}" for name, function in met), sep="\n")
    for name, count in files.most_common():
        print(f"{count:4} {name}")
    print(f"train translation crosses {len(files)} files and {len(met)} functions")
