"""How fast is local attention over images: each kernel against dense causal attention.

    python bench/local.py                        forward + backward, 8 heads of 64, bfloat16
    python bench/local.py --json results/x.json  write the results to a file
    python bench/local.py --quick                toy sizes, to see that it runs

Local 2D: tiles of 8 x 8 pixels of three channels, drawn tile by tile; each sees itself and the
tiles around it, as far as they are drawn. Local 1D: blocks of 256 tokens that see the 256 before.
Ratios are to SDPA of one run, which computes all pairs that are not later. Plans are made once for
all layers of a pass; here each call makes its own, as the first layer does.

B images, L tokens, H heads, C channels of one head.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from attention import H, Machine, forward_backward
from torch import Tensor

from manyheads import KERNELS, Blocks, Causal, Pairs, Work, choose, grid, plan
from manyheads.attention.patterns import Pattern

SIDES = (32, 8), (64, 2), (128, 1), (256, 1)  # rows and columns, images
LOCAL: dict[str, Pattern] = {
    "local 2D": Causal() & Blocks((8, 8), (8, 8)),
    "local 1D": Causal() & Blocks(256, 256),
}
SLOWEST = 128  # rows above which dense attention is not measured: it takes a third of a second


def measure(machine: Machine, side: int, batch: int, kernels: Any) -> list[dict[str, Any]]:
    at = grid(side, side, 3, blocks=(8, 8), device=machine.device)
    tensors = machine.tensors(batch, len(at))
    pairs, rows = Pairs(batch, H, at, at), []

    def row(what: str, which: str, pattern: Pattern, limit: float | None) -> dict[str, Any]:
        work = Work(pattern, pairs, frozenset({"gradient"}), machine.dtype)

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return plan(which, work)(query, key, value)

        ms = machine.time(forward_backward(attend, tensors))
        found = {"what": what, "kernel": which, "side": side, "batch": batch, "tokens": len(at)}
        taken = choose(work).kernel.name == which
        ratio = None if limit is None else ms / limit
        return {**found, "ms": ms, "ratio": ratio, "taken": taken}

    limit = None
    if side <= SLOWEST:
        rows.append(row("all before", "sdpa", Causal(), None))
        limit = rows[0]["ms"]
    for what, pattern in LOCAL.items():
        for which in kernels:
            if reason := KERNELS[which].refuses(
                Work(pattern, pairs, frozenset({"gradient"}), machine.dtype)
            ):
                print(f"{which} does not run: {reason}")
                continue
            rows.append(row(what, which, pattern, limit))
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--only", help="this kernel beside dense attention, not both")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    asked = options.parse_args()
    machine = Machine(asked.device, asked.quick)
    print(machine.description)
    print(f"{'':14}{'kernel':14}{'image':>8}{'B':>3}{'tokens':>9}{'ms':>10}  / dense")
    rows: list[dict[str, Any]] = []
    kernels = [asked.only] if asked.only else ["flex", "block-sparse"]
    for side, batch in ((16, 1),) if asked.quick else SIDES:
        for row in measure(machine, side, batch, kernels):
            ratio = "" if row["ratio"] is None else f"{row['ratio']:8.3f}"
            print(
                f"{row['what']:14}{row['kernel']:14}{row['side']:8}{row['batch']:3}"
                f"{row['tokens']:9,}{row['ms']:10.3f}{ratio}{'  taken' if row['taken'] else ''}",
                flush=True,
            )
            rows.append(row)
        if asked.json:
            kept = {"machine": machine.description, "rows": rows}
            asked.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
