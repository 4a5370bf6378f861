"""Run an experiment with its seeds, and write the results into a folder."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from manyheads import __version__
from manyheads.devices import threads_are_set, use_threads
from manyheads.lab.experiment import Seeds
from manyheads.lab.table import EXPERIMENTS, find_experiment
from manyheads.metrics.report import format_table
from manyheads.training.files import write_text

FIGURE, TABLE, NUMBERS = "figure.png", "table.md", "lab.json"
QUICK = "A quick run: it shows that the experiment works, and nothing else."


def run_experiment(
    name: str,
    out: str | Path,
    *,
    seeds: int = 3,
    seed: int = 0,
    quick: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Write lab/residuals with a figure, a table and lab.json for run("residuals", out="lab"), and
    return the contents of lab.json. `seeds` runs begin with `seed`; `quick` takes seconds.
    """
    kind = find_experiment(name)
    if seeds < 1:
        raise ValueError(f"an experiment has 1 seed or more, got {seeds}")
    folder = make_folder(Path(out) / name)
    if quick and (folder / NUMBERS).exists() and not read_numbers(folder)["quick"]:
        raise ValueError(
            f"{folder} holds a whole run, and a quick one would take its place; another --out "
            "keeps both"
        )
    say(f"== {name}: {EXPERIMENTS[name][1]}")
    experiment = kind(**kind.quick) if quick else kind()
    measured = dict[str, Any]()
    began, busy = time.perf_counter(), time.process_time()
    # With small networks several threads are slower; a user's own setting is kept.
    with use_threads(torch.get_num_threads() if threads_are_set() else 1):
        machine = describe_machine()
        for number in range(seed, seed + seeds):
            measured[str(number)] = round_numbers(experiment.measure(number))
            say(f"seed {number} done, {time.perf_counter() - began:.0f} s")
    report = {
        "experiment": name,
        "about": EXPERIMENTS[name][1],
        "quick": quick,
        "settings": asdict(experiment),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - busy, 1),  # not of other programs
        "machine": machine,
        "claims": [claim._asdict() for claim in experiment.claims(Seeds(measured.values()))],
        "measured": measured,
    }
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in report.items())
    write_text(folder / NUMBERS, "{" + ",\n".join(lines) + "}\n")
    write_text(folder / TABLE, f"# {name}\n\n{report['about']}\n\n{format_lab(report)}\n")
    experiment.figure(Seeds(measured.values())).savefig(folder / FIGURE, dpi=110)
    say(f"\n{format_lab(report)}\n\n{folder / FIGURE}, {TABLE}, {NUMBERS}: {report['seconds']} s")
    return report


def make_folder(folder: Path) -> Path:
    """Make the folder; if it cannot be written, fail before anything is measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--out is a folder, and a file lies in the way of {folder}") from None
    return folder


def format_lab(report: Mapping[str, Any]) -> str:
    """Format the table and the paragraph from the numbers of a lab.json."""
    experiment = find_experiment(report["experiment"])(**report["settings"])
    seeds = Seeds(report["measured"].values())
    told = QUICK if report["quick"] else experiment.paragraph(seeds)
    return f"{format_table(experiment.rows(seeds))}\n\n{told}"


def describe_machine() -> dict[str, Any]:
    return {
        "manyheads": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def round_numbers(value: Any) -> Any:
    """Round all floats to four significant digits, to keep the file small."""
    if isinstance(value, dict):
        return {key: round_numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [round_numbers(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def read_numbers(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    return report
