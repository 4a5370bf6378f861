"""How fast is `manyheads train`: the command that a user types, not a single step.

    python bench/commands.py translation --pairs train.tsv
    python bench/commands.py language --text book.txt --nanogpt ../nanoGPT
    python bench/commands.py translation --pairs train.tsv --json results/x.json --quick

Translation: Transformer-base on a corpus, in each way to run it, compared with the step of
bench/training.py with the same number of tokens and vocabulary size. Language: GPT-2 of 124M,
compared with nanoGPT's own `train.py`, compiled, on the same tokens. All run one after another on
one machine; speeds are from the log of the run, after the warm-up.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

STEPS, NOTED = 200, 10  # steps of a run, steps between two lines of its log
WARM = 60  # steps that are not counted
WAYS = {
    "plain": ("training.compile=false", "training.cuda_graph=false"),
    "recorded": ("training.compile=false", "training.cuda_graph=true"),
    "compiled": ("training.compile=true", "training.cuda_graph=false"),
    "compiled and recorded": ("training.compile=true", "training.cuda_graph=true"),
}
GPT2 = (
    "network.width=768",
    "network.depth=12",
    "network.heads=12",
    "network.ffn_width=3072",
    "network.feed_forward=gelu",
    "network.norm=layer",
    "network.position=Learned(1024)",
    "network.dropout=0.0",
    "network.attention_dropout=0.0",
    "data.context=1024",
    "codec.size=50257",
    "training.tokens_per_batch=32768",
)


def train(task: str, given: list[str], way: str, out: Path, quick: bool) -> dict[str, Any]:
    """Train by the command for STEPS steps; return its speed and its losses."""
    steps, noted = (8, 2) if quick else (STEPS, NOTED)
    numbers = f"steps={steps}", f"log_every={noted}", f"validate_every={steps}"
    settings = [f"training.{one}" for one in (*numbers, f"checkpoint_every={steps}")]
    command = [sys.executable, "-m", "manyheads", "train", task, *given, "--out", str(out)]
    run = subprocess.run(
        [*command, *WAYS[way], *settings], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}\n{run.stdout}\n{run.stderr}")
    lines = [json.loads(line) for line in (out / "times.jsonl").read_text().splitlines()]
    speeds = [one["tokens_per_second"] for one in lines if "tokens_per_second" in one]
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {
        "way": way,
        "tokens_per_second": statistics.median(speeds[0 if quick else WARM // noted :]),
        "losses": [one["loss"] for one in metrics if "loss" in one],
        "valid": [one["valid"] for one in metrics if "valid" in one],
        "seconds": lines[-1]["seconds"],
    }


def bench_step(recipe: dict[str, Any], vocabulary: int, quick: bool) -> dict[str, Any]:
    """Time the compiled step of bench/training.py, with the same tokens and vocabulary size."""
    sys.path.insert(0, str(Path(__file__).parent))
    import training

    batch = recipe["training"]["tokens_per_batch"] // 64
    size = training.TOY if quick else training.Size(vocabulary=vocabulary, batch=batch)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    row = training.measured("ours", "compiled", size, device, 1 if quick else 5)
    return {"way": "the step of bench/training.py", "tokens_per_second": row["tokens_per_second"]}


def nanogpt_loop(folder: Path, run: Path, quick: bool) -> dict[str, Any]:
    """Time nanoGPT's own training loop, compiled, on the tokens of the run."""
    from manyheads.data.shards import Shard

    data = folder / "data" / "manyheads"
    data.mkdir(parents=True, exist_ok=True)
    for split in ("train", "val"):
        held = Shard(run / "data" / ("train" if split == "train" else "valid"))
        np.asarray(held.tokens).astype(np.uint16).tofile(data / f"{split}.bin")
    steps = 8 if quick else STEPS
    settings = {
        "dataset": "manyheads", "batch_size": 32, "block_size": 1024, "max_iters": steps,
        "gradient_accumulation_steps": 1, "eval_interval": 10**6, "eval_iters": 1,
        "log_interval": 10, "compile": torch.cuda.is_available(), "lr_decay_iters": steps,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
    }  # fmt: skip
    if quick:
        settings |= {"batch_size": 2, "block_size": 32, "n_layer": 2, "n_embd": 64, "n_head": 2}
    command = [sys.executable, "train.py", *(f"--{key}={value}" for key, value in settings.items())]
    run_ = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run_.returncode:
        raise SystemExit(f"{' '.join(command)}\n{run_.stdout}\n{run_.stderr}")
    times = [
        float(one) for one in re.findall(r"iter \d+: loss [\d.]+, time ([\d.]+)ms", run_.stdout)
    ]
    tokens = int(settings["batch_size"]) * int(settings["block_size"])  # type: ignore[call-overload]
    milliseconds = statistics.median(times[len(times) // 3 :])
    return {
        "way": "nanoGPT's train.py, compiled",
        "tokens_per_second": 1000 * tokens / milliseconds,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("task", choices=("translation", "language"))
    options.add_argument("--pairs", type=Path)
    options.add_argument("--text", type=Path)
    options.add_argument("--nanogpt", type=Path, help="its folder, with train.py and model.py")
    options.add_argument("--way", choices=WAYS, action="append", help="this way, and no others")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options.add_argument(
        "settings", nargs="*", help="settings of the recipe, as in training.seed=1"
    )
    asked = options.parse_args()
    given = ["--pairs", str(asked.pairs)] if asked.pairs else ["--text", str(asked.text)]
    given += ["--preset", "tiny" if asked.quick else "base"]
    given += [*GPT2] if asked.task == "language" and not asked.quick else []
    given += asked.settings
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for i, way in enumerate(asked.way or WAYS):
            out = Path(folder) / str(i)
            rows.append(train(asked.task, given, way, out, asked.quick))
            show(rows[-1])
        if asked.task == "translation":
            vocabulary = count_pieces(out / "tokenizer.json")
            rows.append(bench_step(read_recipe(out), vocabulary, asked.quick))
        elif asked.nanogpt:
            gc.collect()
            rows.append(nanogpt_loop(asked.nanogpt, out, asked.quick))
        show(rows[-1])
    best = max(rows[:-1], key=lambda row: row["tokens_per_second"])
    share = best["tokens_per_second"] / rows[-1]["tokens_per_second"]
    print(f"\n{best['way']}: {share:.2f} x {rows[-1]['way']}")
    if asked.json:
        machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        kept = {"machine": f"{machine}, torch {torch.__version__}", "rows": rows, "share": share}
        asked.json.write_text(json.dumps(kept, indent=1) + "\n")


def read_recipe(run: Path) -> Any:
    import yaml

    return yaml.safe_load((run / "recipe.yaml").read_text())


def count_pieces(path: Path) -> int:
    found = json.loads(path.read_text())
    return len(found["model"]["vocab"])


def show(row: dict[str, Any]) -> None:
    losses = row.get("losses")
    last = f"loss {losses[-1]:.4f}, {row['seconds']:.0f} s in all" if losses else ""
    print(f"{row['way']:32}{row['tokens_per_second']:12,.0f} tokens/s  {last}", flush=True)


if __name__ == "__main__":
    main()
