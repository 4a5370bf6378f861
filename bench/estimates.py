"""How near is the time that `--dry-run` estimates to the time that training takes?

    python bench/estimates.py --book book.txt --labels trec.tsv --music chorales.npz \
        --images mnist.npz --json results/estimates.json
    python bench/estimates.py --quick      toy lengths, to see that it runs

Six recipes of different tasks, one after another: first the estimate, then the training, by the
commands that a user types. Translations are those of the package; a task whose file is not given is
left out. The time of a training is that of its log: steps and validations, not the preparation.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CORPUS = Path("manyheads/builtin/tatoeba-short.tsv.gz")
UNITS = {"s": 1, "minutes": 60, "hours": 3600}


def recipes(asked: argparse.Namespace) -> dict[str, list[str]]:
    """Return the options of each recipe that has its file."""
    found: dict[str, tuple[Path | None, list[str]]] = {
        "translation": (CORPUS, ["translation", "--pairs", "training.steps=120"]),
        "language": (asked.book, ["language", "--text", "training.steps=150"]),
        "masked": (asked.book, ["masked", "--text", "data.split=line", "training.steps=150"]),
        "classification": (asked.labels, ["classification", "--data", "training.steps=300"]),
        "music": (asked.music, ["music", "--music", "training.steps=30"]),
        "image": (asked.images, ["image", "--images", "--levels", "2", "training.steps=30"]),
    }
    made = {}
    for name, (path, (task, option, *settings)) in found.items():
        if path is not None:
            made[name] = [task, option, str(path), "--preset", "tiny", *settings]
    return made


def command(*words: str) -> str:
    """Run manyheads; return what it prints."""
    run = subprocess.run(
        [sys.executable, "-m", "manyheads", *words], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(f"{' '.join(words)}\n{run.stderr}")
    return run.stdout + run.stderr


def measure(name: str, options: list[str], folder: Path) -> dict[str, Any]:
    steps = next(int(one.partition("=")[2]) for one in options if one.startswith("training.steps"))
    out = folder / name
    options = [*options, f"training.validate_every={steps // 2}", "--device", "cpu"]
    options += ["--out", str(out)]
    told = command("train", *options, "--dry-run")
    number, unit = re.search(r"time: about ([\d.]+) (\w+)", told).groups()  # type: ignore[union-attr]
    began = time.perf_counter()
    command("train", *options)
    whole = time.perf_counter() - began
    lines = [json.loads(line) for line in (out / "times.jsonl").read_text().splitlines()]
    estimated, took = float(number) * UNITS[unit], lines[-1]["seconds"]
    return {
        "name": name,
        "estimated": estimated,
        "took": took,
        "apart": estimated / took - 1,
        "whole": whole,
    }


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("book", "labels", "music", "images"):
        reader.add_argument(f"--{name}", type=Path)
    reader.add_argument("--only", default="", help="recipes whose name has this")
    reader.add_argument("--json", type=Path, help="keep the figures in this file")
    reader.add_argument("--quick", action="store_true", help="toy lengths, to see that it runs")
    asked = reader.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, options in recipes(asked).items():
            if asked.only not in name:
                continue
            chosen = [*options[:-1], "training.steps=6"] if asked.quick else options
            rows.append(measure(name, chosen, Path(folder)))
            print(
                "{name:16}{estimated:8.0f} s estimated{took:8.1f} s taken{apart:+8.0%}".format(
                    **rows[-1]
                ),
                flush=True,
            )
            if asked.json:
                asked.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
