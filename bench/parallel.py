"""How fast and how good are parallel decoders: AR, CTC, mask-predict, on Multi30k.

    python bench/parallel.py multi30k --json results/parallel-h200.json --minutes 9
    python bench/parallel.py multi30k --quick

The folder has train, val and test_2016_flickr, each .de.gz and .en.gz. A teacher (AR 6-6) is
trained alone and writes the distilled targets; parallel decoders start from its weights, unless
--cold. Then all other rows of the table are trained at the same time, each in a process of its own,
until the time is up, and evaluated on test 2016. At the end, when nothing else runs, each way to
decode is timed, one sentence at a time and 64 at once. Rows are written to the file as they are
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch

from manyheads.data.sources import Example, read_aligned
from manyheads.decoders import (
    DISTILLED,
    RAW,
    TARGETS,
    Rival,
    ask_for,
    draw_rows,
    format_rows,
    make_rivals,
    measure_quality,
    measure_speed,
    train_until,
)
from manyheads.decoding.config import DecodingConfig
from manyheads.learn import Request, prepare_run, resolve
from manyheads.models import load
from manyheads.tasks.seq2seq.model import Translator
from manyheads.training.run import Run

DEPTH = 6
TEACHING, TIMING = 130, 100  # seconds of the total time for the teacher, and for timing
RATES = {"transformer": 3e-3, "ctc": 2e-3, "mask-predict": 2e-3, "latent": 2e-3}
STEPS = {"transformer": 2000}  # others train until the time is up
MOST = 12_000
QUICK = [
    *("network.width=32", "network.heads=2", "network.ffn_width=64", "codec.size=400"),
    *("training.tokens_per_batch=512", "training.warmup_steps=5"),
]


def request_for(rival: Rival, targets: str, asked: argparse.Namespace) -> Request:
    sides = {"source": "train.de", "target": "train.en"}
    sides |= {"valid_source": "val.de", "valid_target": "val.en"}
    files = {name: asked.data / f"{part}.gz" for name, part in sides.items()}
    steps = 6 if asked.quick else STEPS.get(rival.kind, MOST)
    settings = [
        f"training.steps={steps}",
        f"training.validate_every={max(3, steps // 24)}",
        f"training.checkpoint_every={steps}",
        f"training.learning_rate={RATES[rival.kind]}",
        f"training.warmup_steps={max(1, min(400, steps // 8))}",
        *(QUICK if asked.quick else ()),
    ]
    plain = Request(
        "translation",
        settings,
        files,
        "cuda" if torch.cuda.is_available() else "cpu",
        preset="small",
    )
    request = ask_for(rival, targets, plain, asked.work, rivals_of(asked))
    return replace(request, start_from=None) if asked.cold else request


def rivals_of(asked: argparse.Namespace) -> list[Rival]:
    return make_rivals(1 if asked.quick else DEPTH)


def run_row(asked: argparse.Namespace) -> None:
    """In a process of its own: train one row until its time is up, and evaluate it."""
    rival = rivals_of(asked)[asked.row]
    run = Run(asked.work / rival.folder(asked.targets))
    request, deadline = request_for(rival, asked.targets, asked), asked.until - time.time()
    if asked.prepare:
        recipe, corpus = resolve(request)
        prepare_run(recipe, run, corpus)
        return
    train_until(request, run, deadline=time.monotonic() + max(1.0, deadline))
    model = cast(Translator, load(run.folder))
    rows = [
        {
            "model": rival.name,
            "targets": asked.targets,
            "way": way,
            **measure_quality(model, read_test(asked), DecodingConfig(**settings)),
        }
        for way, settings in rival.ways.items()
    ]
    (run / "rows.json").write_text(json.dumps(rows))


def read_test(asked: argparse.Namespace) -> list[Example]:
    sides = (asked.data / f"test_2016_flickr.{side}.gz" for side in ("de", "en"))
    return list(read_aligned(*sides))[: 4 if asked.quick else None]


def start_row(
    asked: argparse.Namespace, number: int, targets: str, until: float, *more: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start the process of a row; return it and its log file."""
    given = ["--work", str(asked.work), "--row", str(number), "--targets", targets]
    flags = [f"--{name}" for name in ("quick", "cold") if getattr(asked, name)]
    log = asked.work / f"{number}-{targets}{''.join(more)}.log"
    command = [sys.executable, __file__, str(asked.data), *given, "--until", str(until)]
    threads = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "2"}
    with log.open("wb") as file:
        return subprocess.Popen(
            [*command, *flags, *more], stdout=file, stderr=file, env={**os.environ, **threads}
        ), log


def finish(started: list[tuple[subprocess.Popen[bytes], Path]]) -> None:
    for process, log in started:
        if process.wait():
            print(f"{log.stem} failed:\n" + "\n".join(log.read_text().splitlines()[-8:]))


def main(asked: argparse.Namespace) -> None:
    began, rivals = time.time(), rivals_of(asked)
    done, last = began + TEACHING, began + 60 * asked.minutes - TIMING
    finish([start_row(asked, 0, RAW, done - 40)])
    print(f"{time.time() - began:.0f} s: the teacher is trained", flush=True)
    finish([start_row(asked, 0, DISTILLED, last, "--prepare")])
    print(f"{time.time() - began:.0f} s: it has written the distilled targets", flush=True)
    rest = [(i, targets) for i in range(len(rivals)) for targets in TARGETS][1:]
    if torch.cuda.is_available():
        finish([start_row(asked, *one, last) for one in rest])
    else:
        for one in rest:
            finish([start_row(asked, *one, last)])
    print(f"{time.time() - began:.0f} s: all are trained", flush=True)
    rows: list[dict[str, Any]] = []
    test = read_test(asked)
    for rival in rivals:
        for targets in TARGETS:
            run = asked.work / rival.folder(targets)
            if not (run / "rows.json").exists():
                continue
            model = cast(Translator, load(run))
            for row in json.loads((run / "rows.json").read_text()):
                how = DecodingConfig(**rival.ways[row["way"]])
                rows.append({**row, **measure_speed(model, test, how)})
                keep(asked, rows, began)
    print(format_rows(rows))
    if asked.json is not None and find_spec("matplotlib"):
        draw_rows(rows, asked.json.with_suffix(".png"))


def keep(asked: argparse.Namespace, rows: list[dict[str, Any]], began: float) -> None:
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    about = {"machine": name, "torch": torch.__version__, "seconds": round(time.time() - began)}
    about |= {"cold": asked.cold}
    if asked.json is not None:
        asked.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("data", type=Path)
    reader.add_argument("--json", type=Path)
    reader.add_argument("--minutes", type=float, default=9)
    reader.add_argument(
        "--work", type=Path, help="the folder of the runs; else one that is dropped"
    )
    reader.add_argument("--cold", action="store_true", help="all start from nothing")
    reader.add_argument("--quick", action="store_true", help="toy sizes: does it run?")
    reader.add_argument("--row", type=int, help=argparse.SUPPRESS)
    reader.add_argument("--targets", help=argparse.SUPPRESS)
    reader.add_argument("--until", type=float, help=argparse.SUPPRESS)
    reader.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    given = reader.parse_args()
    if given.row is not None:
        run_row(given)
    elif given.work is not None:
        given.work.mkdir(parents=True, exist_ok=True)
        main(given)
    else:
        with tempfile.TemporaryDirectory() as folder:
            given.work = Path(folder)
            main(given)
