"""Does fast training learn the same? Every preset of every task, by the command a user types.

    python bench/compiled.py                        a table on this machine
    python bench/compiled.py --json results/x.json  write the results to a file
    python bench/compiled.py --only language        some of them; the file keeps the others
    python bench/compiled.py --quick                toy networks, to see that it runs

Each case is started four times, plain, recorded, compiled and both, and stopped after twenty steps;
the losses of each step are compared. All use the same dropout: inductor is told to draw random
numbers as eager torch does. The corpora are made here from the one that comes with the package.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STEPS = 20
SAME = 1e-2
CORPUS = Path("manyheads/builtin/tatoeba-short.tsv.gz")
COMMAND = (
    "import sys, torch._inductor.config as inductor; inductor.fallback_random = True; "
    "from manyheads.cli.app import main; main()"
)
WAYS = {
    "plain": ["training.compile=false", "training.cuda_graph=false"],
    "recorded": ["training.compile=false", "training.cuda_graph=true"],
    "compiled": ["training.compile=true", "training.cuda_graph=false"],
    "both": ["training.compile=true", "training.cuda_graph=true"],
}
QUICK = [
    "network.width=32",
    "network.heads=2",
    "network.ffn_width=64",
    "training.tokens_per_batch=1024",
]


class Case(NamedTuple):
    """A task, its files and other options."""

    name: str
    task: str
    files: list[str]
    options: tuple[str, ...] = ()

    def command(self, out: Path, more: list[str]) -> list[str]:
        noted = ["training.log_every=1", "training.validate_every=1000"]
        given = [*self.files, *self.options, "--out", str(out), *noted, *more]
        return [sys.executable, "-c", COMMAND, "train", self.task, *given]


class Compared(NamedTuple):
    """The losses of a case in each way, or why it has none."""

    name: str
    losses: dict[str, list[float]]
    error: str = ""

    @property
    def apart(self) -> float:
        plain, *others = self.losses.values() or [[]]
        pairs = [pair for other in others for pair in zip(plain, other, strict=False)]
        return max((abs(one - other) for one, other in pairs), default=float("nan"))

    @property
    def same(self) -> bool:
        whole = all(len(one) == STEPS for one in self.losses.values())
        return len(self.losses) == len(WAYS) and whole and self.apart <= SAME

    def __str__(self) -> str:
        if self.error:
            return f"{self.name:34} {self.error}"
        last = " ".join(f"{one[-1]:.4f}" for one in self.losses.values())
        return f"{self.name:34} {last}  apart {self.apart:.1e}  {'same' if self.same else 'OTHER'}"


def cases(folder: Path) -> list[Case]:
    """Return a case for every preset of every task."""
    with gzip.open(CORPUS, "rt", encoding="utf-8") as corpus:
        pairs = [line.split("\t")[:2] for line in corpus.read().splitlines()]
    files = corpora(folder, pairs)
    found = [
        Case(f"{task} {preset}", task, files[task], ("--preset", preset))
        for task in (
            *("translation", "summarization", "answering", "language", "masked", "music", "image"),
        )
        for preset in ("tiny", "small", "base")
    ]
    found += [
        Case(f"{task} {preset}", task, files[task], ("--preset", preset))
        for task in ("classification", "regression", "labelling")
        for preset in ("tiny", "small")
    ]
    found += [
        Case(f"music {preset}, chorales", "music", files["chorales"], ("--preset", preset))
        for preset in ("tiny", "small", "base")
    ]
    found += [Case("language modern", "language", files["language"], ("--preset", "modern"))]
    found += [
        Case(f"graph {preset}", "graph", files["graph"], ("--preset", preset))
        for preset in ("tiny", "small")
    ]
    other = ("--preset", "small", "--network", "convolutional")
    found += [Case("translation small, convolutional", "translation", files["translation"], other)]
    padded = ("--preset", "small", "layout=padded")
    found += [
        Case(f"{task} small, padded", task, files[task], padded)
        for task in ("translation", "language")
    ]
    return found


def corpora(folder: Path, pairs: list[list[str]]) -> dict[str, list[str]]:
    """Write files for each task; return the options that name them."""
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    told = [target[i : i + 8] for i in range(0, len(target), 8)]
    files = {
        "train.de": source,
        "train.en": target,
        "book.txt": ["\n".join(target * 4)],
        "labels.tsv": [
            f"{'question' if text.endswith('?') else 'other'}\t{text}" for text in target
        ],
        # A share, not a length: lengths in a batch are similar, so each would have its own mean.
        "numbers.tsv": [f"{sum(map(text.count, 'aeiou')) / len(text)}\t{text}" for text in target],
        "summaries.jsonl": [
            json.dumps({"document": " ".join(some), "summary": some[0]}) for some in told
        ],
        "answers.jsonl": [
            json.dumps({"question": "Who?", "context": " ".join(some), "answer": some[0]})
            for some in told
        ],
        "graphs.jsonl": [
            json.dumps(
                {
                    "nodes": {"letter": [*text[:20]]},
                    "edges": [[i, i + 1, "next"] for i in range(len(text[:20]) - 1)],
                    "targets": {"vowels": sum(map(text[:20].count, "aeiou")) / 20},
                }
            )
            for text in target
        ],
        "tags.jsonl": [
            json.dumps(
                {
                    "words": text.split(),
                    "tags": ["B" if w[:1].isupper() else "O" for w in text.split()],
                }
            )
            for text in target
        ],
    }
    for name, content in files.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")
    at = {name: str(folder / name) for name in files}
    return {
        "translation": ["--source", at["train.de"], "--target", at["train.en"]],
        "summarization": ["--pairs", at["summaries.jsonl"]],
        "answering": ["--pairs", at["answers.jsonl"]],
        "language": ["--text", at["book.txt"]],
        "masked": ["--text", at["book.txt"]],
        "classification": ["--data", at["labels.tsv"]],
        "regression": ["--data", at["numbers.tsv"]],
        "labelling": ["--data", at["tags.jsonl"]],
        "graph": ["--graphs", at["graphs.jsonl"], "--target", "vowels"],
        "music": ["--music", str(performances(folder / "midi"))],
        "chorales": ["--music", str(chorales(folder / "chorales.npz"))],
        "image": ["--images", str(images(folder / "images.npz"))],
    }


def performances(folder: Path) -> Path:
    from manyheads.tasks.music.midi import save_midi
    from manyheads.tasks.music.notes import Note, Piece

    folder.mkdir()
    for number in range(40):
        chance = np.random.default_rng(number)
        starts = np.cumsum(chance.choice([0.0, 0.12, 0.25, 0.5], 2000)).tolist()
        pitches = (60 + np.cumsum(chance.integers(-3, 4, 2000)) % 24).tolist()
        notes = [Note(at, at + 0.3, p, 64) for at, p in zip(starts, pitches, strict=True)]
        save_midi(Piece(tuple(notes)), folder / f"{number:02d}.mid")
    return folder


def chorales(path: Path) -> Path:
    chance = np.random.default_rng(0)
    held = {}
    for split, count in (("train", 60), ("valid", 6), ("test", 6)):
        chords = np.array([72, 65, 57, 48]) + chance.integers(-4, 5, (count * 60, 4))
        held[f"{split}_notes"] = np.repeat(chords, 4, 0).astype(np.int16)
        held[f"{split}_lengths"] = np.full(count, 240)
    np.savez(path, **held)
    return path


def images(path: Path) -> Path:
    """Write images of two colours that fade into each other, with noise: without noise they could
    be memorized, and the loss would go to zero.
    """
    chance = np.random.default_rng(0)
    ends = chance.integers(0, 256, (6000, 2, 1, 1, 3))
    share = np.linspace(0, 1, 16)[:, None, None]
    faded = (ends[:, 0] * share + ends[:, 1] * (1 - share)).repeat(16, 2)
    noisy = faded + chance.normal(0, 12, faded.shape)
    np.savez(path, images=noisy.clip(0, 255).astype(np.uint8))
    return path


def compare(case: Case, folder: Path, more: list[str]) -> Compared:
    losses = {}
    for way, settings in WAYS.items():
        out = folder / f"{case.name} {way}".replace(" ", "-").replace(",", "")
        command = case.command(out, [*more, *settings])
        with out.with_suffix(".log").open("w+", encoding="utf-8") as log:
            running = subprocess.Popen(command, stdout=log, stderr=log)
            while running.poll() is None and len(losses_in(out)) < STEPS:
                time.sleep(0.2)
            running.terminate()
            running.wait()
            log.seek(0)
            said = log.read().strip()
        losses[way] = losses_in(out)[:STEPS]
        if len(losses[way]) < STEPS:
            return Compared(case.name, losses, f"{way}: {said[-300:]}")
        if "cut into" in said:  # parts of a batch have other dropout than the whole
            return Compared(case.name, losses, f"{way}: too many cases at once for the memory")
    return Compared(case.name, losses)


def losses_in(run: Path) -> list[float]:
    """Return the loss of each step so far, without a line that is still being written."""
    path = run / "metrics.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
    return [line["loss"] for line in lines if "loss" in line]


def read_rows(path: Path | None) -> list[dict[str, Any]]:
    """Return the rows of an earlier run: cases that are not compared now stay in the file."""
    if path is None or not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description="Compiled training beside plain training.")
    asked.add_argument(
        "--only", default="", help="cases whose name holds this, or one of these: a;b"
    )
    asked.add_argument("--jobs", type=int, default=1, help="cases at once")
    asked.add_argument("--json", type=Path)
    asked.add_argument("--quick", action="store_true")
    options = asked.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory() as held, ThreadPoolExecutor(options.jobs) as pool:
        only = options.only.split(";")
        chosen = [case for case in cases(Path(held)) if any(one in case.name for one in only)]
        more = QUICK if options.quick else []
        rows, names = [], {case.name for case in chosen}
        kept = [row for row in read_rows(options.json) if row["name"] not in names]
        for row in pool.map(lambda case: compare(case, Path(held), more), chosen):
            print(row, flush=True)
            rows.append(row)
            if options.json is not None:
                found = [row._asdict() | {"apart": row.apart, "same": row.same} for row in rows]
                options.json.write_text(json.dumps(kept + found, indent=1) + "\n", encoding="utf-8")
    other = [row.name for row in rows if not row.same]
    print(f"{len(rows) - len(other)} of {len(rows)} the same within {SAME}")
    sys.exit(bool(other))


if __name__ == "__main__":
    main()
