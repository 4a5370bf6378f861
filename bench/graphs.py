"""Molecules, papers that cite each other, and what edges cost: by the commands that a user types.

    python bench/graphs.py --prepare-only --molecules FOLDER --papers FOLDER --folder .data/graphs
    python bench/graphs.py --folder .data/graphs --jobs 8 --cpu-jobs 8 --json results/graphs.json
    python bench/graphs.py --folder .data/graphs --quick      two seeds, a few steps: does it run?

The first reads esol, freesolv, lipo and bbbp.csv.xz and cora and citeseer.npz, and needs RDKit and
scikit-learn; the second needs neither. Every tenth molecule, counted from the tenth, is to test on.
Molecules are trained on the GPU where there is one, papers on a CPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from manyheads.tasks.table import load_recipe

TARGETS = {
    "esol": "measured log solubility in mols per litre",
    "freesolv": "expt",
    "lipo": "exp",
    "bbbp": "p_np",
}
PAPERS = ("cora", "citeseer")
SEEDS, PAPER_SEEDS, SWITCH_SEEDS = 5, 20, 5
TREES, FOREST_SEEDS = 300, 3
RELATIONS = ("none", "hops", "edges", "both")
NODES, EDGES = 10_000, (25_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000)
COST_STEPS = {"cuda": (20, 60), "cpu": (2, 6)}  # it is timed between these steps


class Job(NamedTuple):
    """A run: what to train, and what to measure it on."""

    row: dict[str, Any]
    train: list[str]
    test: Path | None
    device: str = "cpu"

    @property
    def name(self) -> str:
        return "-".join(str(value) for value in self.row.values()).replace(" ", "-")


# ---- what needs RDKit and scikit-learn ---------------------------------------------------------


def prepare(molecules: Path, papers: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAPERS:
        prepare_papers(papers / f"{name}.npz", folder / name)
    parts = {name: prepare_molecules(molecules, name, folder) for name in TARGETS}
    forest = {name: grow_forests(name, *both) for name, both in parts.items()}
    (folder / "forest.json").write_text(json.dumps(forest, indent=1) + "\n")


def prepare_molecules(source: Path, name: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """Write graphs for training and test; return them, without test molecules seen in training."""
    from manyheads.data.filters import LeftOut
    from manyheads.tasks.graph.records import save_graphs
    from manyheads.tasks.graph.sources import read_molecules

    with lzma.open(source / f"{name}.csv.xz", "rt", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    left_out, parts = LeftOut(), {}
    for part in ("train", "test"):
        some = [row for i, row in enumerate(rows) if (i % 10 == 9) == (part == "test")]
        with tempfile.TemporaryDirectory() as scratch:
            table = Path(scratch) / f"{part}.csv"
            with table.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([head, *some])
            parts[part] = read_molecules(table, "smiles", [TARGETS[name]], left_out)
        save_graphs(folder / f"{name}.{part}.jsonl", parts[part], [TARGETS[name]])
    known = {one.name for one in parts["train"]}
    tested = [one for one in parts["test"] if one.name not in known]
    print(name, len(parts["train"]), "to learn from,", len(tested), "to test on", left_out)
    return parts["train"], tested


def grow_forests(name: str, train: Sequence[Any], test: Sequence[Any]) -> list[dict[str, float]]:
    """Return the scores of random forests, a seed each, on all descriptors of RDKit."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.metrics import roc_auc_score

    def describe(graphs: Sequence[Any]) -> Any:
        told = [Descriptors.CalcMolDescriptors(Chem.MolFromSmiles(g.name)) for g in graphs]
        table = np.array([[*one.values()] for one in told], dtype=np.float64)
        return np.clip(np.nan_to_num(table), -1e6, 1e6)

    wanted, true = (np.array([float(g.targets[0]) for g in some]) for some in (train, test))
    known, asked, found = describe(train), describe(test), []
    for seed in range(FOREST_SEEDS):
        kind = RandomForestClassifier if name == "bbbp" else RandomForestRegressor
        share = "sqrt" if name == "bbbp" else 1 / 3  # Breiman's choice: all would be worse
        forest = kind(TREES, random_state=seed, max_features=share).fit(known, wanted)
        if name == "bbbp":
            found.append({"auc": float(roc_auc_score(true, forest.predict_proba(asked)[:, 1]))})
        else:
            error = np.sqrt(np.mean((forest.predict(asked) - true) ** 2))
            found.append({"rmse": float(error)})
    return found


def prepare_papers(source: Path, folder: Path) -> None:
    """Write a table of papers with their words and the public split, and one of citations."""
    held, split = np.load(source), {}
    for part, called in (("train", "train"), ("val", "valid"), ("test", "test")):
        split |= dict.fromkeys(held[part].tolist(), called)
    words = np.split(held["x_indices"], held["x_indptr"][1:-1])
    folder.mkdir(exist_ok=True)
    with (folder / "nodes.tsv").open("w", encoding="utf-8") as file:
        file.write("paper\twords\tfield\tsplit\n")
        for i, (some, label) in enumerate(zip(words, held["y"].tolist(), strict=True)):
            told = " ".join(f"w{word}" for word in some), f"c{label}" if label >= 0 else ""
            file.write("\t".join((f"p{i}", *told, split.get(i, ""))) + "\n")
    write_edges(folder / "edges.tsv", held["edges"])


def write_edges(path: Path, edges: Any) -> None:
    lines = [f"p{i}\tp{j}\n" for i, j in edges.tolist()]
    path.write_text("one\tother\n" + "".join(lines), encoding="utf-8")


# ---- the runs ----------------------------------------------------------------------------------


def list_jobs(folder: Path, device: str) -> list[Job]:
    found = []
    for name in sorted(TARGETS, key=lambda name: name != "lipo"):  # the longest first
        found += [molecule_job(folder, name, seed, device) for seed in range(SEEDS)]
    for seed in range(SWITCH_SEEDS):
        found += [molecule_job(folder, "esol", seed, device, one) for one in RELATIONS]
    for name in PAPERS:
        found += [paper_job(folder, name, seed) for seed in range(PAPER_SEEDS)]
    for seed in range(SWITCH_SEEDS):
        found += [paper_job(folder, "cora", seed, one) for one in RELATIONS]
    return found


def molecule_job(folder: Path, name: str, seed: int, device: str, relations: str = "") -> Job:
    files = ["--graphs", str(folder / f"{name}.train.jsonl"), "--target", TARGETS[name]]
    row = {"data": name, "relations": relations or "default", "seed": seed}
    # One network each: the effect of relations shows without a mean over several.
    switch = [f"relations={relations}", "members=1"] if relations else []
    told = [f"training.seed={seed}", *switch]
    return Job(row, files + told, folder / f"{name}.test.jsonl", device)


def paper_job(folder: Path, name: str, seed: int, relations: str = "") -> Job:
    nodes, edges = folder / name / "nodes.tsv", folder / name / "edges.tsv"
    files = ["--nodes", str(nodes), "--edges", str(edges), "--target", "field"]
    row = {"data": name, "relations": relations or "default", "seed": seed}
    told = [f"training.seed={seed}", *([f"relations={relations}"] if relations else [])]
    return Job(row, files + told, nodes)


def cost_job(scratch: Path, count: int, device: str) -> Job:
    """Return a run on a graph of ten thousand nodes with `count` edges, by two local layers."""
    rng = np.random.default_rng(count)
    at = scratch / str(count)
    at.mkdir()
    labels = rng.integers(0, 4, NODES)
    rows = [
        f"p{i}\tw{a} w{b} w{c}\tc{labels[i]}\n"
        for i, (a, b, c) in enumerate(rng.integers(0, 500, (NODES, 3)).tolist())
    ]
    (at / "nodes.tsv").write_text("paper\twords\tfield\n" + "".join(rows))
    write_edges(at / "edges.tsv", rng.integers(0, NODES, (count, 2)))
    files = [
        "--nodes",
        str(at / "nodes.tsv"),
        "--edges",
        str(at / "edges.tsv"),
        "--target",
        "field",
    ]
    first, last = COST_STEPS[device]
    told = ["rounds=0", "consistency=0", "network.depth=2", f"training.steps={last}"]
    told += [f"training.log_every={first}", f"training.validate_every={10 * last}"]
    return Job({"data": f"{NODES} nodes", "edges": count}, files + told, None, device)


def run_job(job: Job, scratch: Path, more: Sequence[str]) -> dict[str, Any]:
    """Return the row of a run: what it measured, or why it failed."""
    out, began, row = scratch / job.name, time.perf_counter(), {**job.row, "device": job.device}
    try:
        command("train", "graph", *job.train, *more, "--out", str(out), "--device", job.device)
        row |= {"seconds": round(time.perf_counter() - began, 1)}
        if job.test is None:
            return row | {"ms_a_step": time_steps(out, *COST_STEPS[job.device])}
        at = ("--model", str(out), "--device", "cpu")
        report = json.loads(command("evaluate", *at, "--data", str(job.test), "--json"))
        row |= {name: one["value"] for name, one in report["scores"].items()}
        members = load_recipe(out / "recipe.yaml").members
        return row | {"valid": best_of(out), "examples": report["examples"], "members": members}
    except subprocess.CalledProcessError as error:
        return row | {"error": error.stderr.strip().splitlines()[-1:]}


def command(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "manyheads", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return done.stdout


def best_of(run: Path) -> float:
    """Return the best validation, by the main score."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return max(next(iter(line["valid"].values())) for line in lines if "valid" in line)


def time_steps(run: Path, first: int, last: int) -> float:
    lines = map(json.loads, (run / "times.jsonl").read_text().splitlines())
    at = {line["step"]: line["seconds"] for line in lines if "validated" not in line}
    return round(1000 * (at[last] - at[first]) / (last - first), 2)


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--folder", type=Path, required=True)
    reader.add_argument("--prepare-only", action="store_true")
    reader.add_argument("--molecules", type=Path)
    reader.add_argument("--papers", type=Path)
    reader.add_argument("--jobs", type=int, default=1)
    reader.add_argument("--cpu-jobs", type=int, default=0)
    reader.add_argument("--only", default="", help="runs whose name has this")
    reader.add_argument("--missing", action="store_true", help="only runs that the file lacks")
    reader.add_argument("--quick", action="store_true")
    reader.add_argument("--json", type=Path)
    asked = reader.parse_args()
    if asked.prepare_only:
        return prepare(asked.molecules, asked.papers, asked.folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as scratch:
        run_all(asked, Path(scratch), device)


def read_rows(path: Path | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if path is not None and path.exists():
        rows = json.loads(path.read_text())["rows"]
    return rows


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a row: scores are the same on all machines, times are not."""
    names = "data", "relations", "seed", "edges", *(["device"] if "edges" in row else [])
    return tuple(row.get(name) for name in names)


def run_all(asked: Any, scratch: Path, device: str) -> None:
    jobs = [one for one in list_jobs(asked.folder, device) if asked.only in one.name]
    if asked.quick:
        jobs = [one for one in jobs if one.row["seed"] < 2]
    more = ["training.steps=4", "training.validate_every=2"] if asked.quick else []
    forest = json.loads((asked.folder / "forest.json").read_text())
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    rows: list[dict[str, Any]] = []
    before = {key_of(row): row for row in read_rows(asked.json)}  # other rows stay as they were
    if asked.missing:
        jobs = [one for one in jobs if key_of(one.row) not in before]

    def keep(row: dict[str, Any]) -> None:
        """Write the rows at once, so that an interrupted run keeps its results."""
        rows.append({**row, "device": name if row["device"] == "cuda" else "CPU"})
        print(row, flush=True)
        if asked.json:
            fresh = {key_of(row): row for row in rows}
            told = {"torch": torch.__version__, "rows": [*(before | fresh).values()]}
            asked.json.write_text(json.dumps({**told, "forest": forest}, indent=1) + "\n")

    began = time.perf_counter()
    with ThreadPoolExecutor(asked.jobs) as gpu, ThreadPoolExecutor(asked.cpu_jobs or 1) as cpu:
        waiting = []
        for job in jobs:
            pool = cpu if job.device == "cpu" and asked.cpu_jobs else gpu
            waiting.append(pool.submit(run_job, job, scratch, more))
        for one in as_completed(waiting):
            keep(one.result())
    for count in EDGES[:2] if asked.quick else EDGES:  # alone: they are timed
        if asked.only in f"{NODES} nodes":
            keep(run_job(cost_job(scratch, count, device), scratch, []))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
