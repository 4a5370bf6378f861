"""How fast is causal attention with Music Transformer's relative term, and how much does it store?

    python bench/relative.py                        forward + backward, B x L = 16,384 tokens
    python bench/relative.py --tiles                the fused kernel in other tiles
    python bench/relative.py --json results/x.json  write the results to a file
    python bench/relative.py --quick                toy sizes, to see that it runs

Plain causal SDPA, which has no such term, is the limit: ratios are to it, in one run. Times are
medians of forward + backward in milliseconds; memory is the peak beyond what was there.

B batch, H heads, L length, C channels of one head.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads import KERNELS, Causal, Every, Pairs, RelativeContent, Work, line, plan
from manyheads.attention.kernels.base import Kernel
from manyheads.attention.kernels.relative import Skewed, Tiles

H, C = 8, 64
SHAPES = (16, 1024), (8, 2048), (4, 4096), (2, 8192)
LONGEST = 32_768  # tokens of one sequence, of which all pairs would not fit into memory
TRIED = tuple(
    Tiles(size, warps, stages, warps, *(backward,) * 3, together=together)
    for size, warps, stages, backward, together in (
        (64, 4, 1, 1, 1),
        (64, 4, 2, 2, 1),
        (64, 4, 3, 2, 2),
        (64, 4, 3, 2, 4),
        (64, 4, 3, 3, 1),
        (64, 8, 2, 1, 1),
        (32, 4, 2, 2, 1),
        (32, 2, 3, 3, 1),
        (128, 8, 2, 1, 1),
    )
)
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # query, key, value and the table


# ---- the ways ----------------------------------------------------------------------------------


def limit(query: Tensor, key: Tensor, value: Tensor, table: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def skew(query: Tensor, key: Tensor, value: Tensor, table: Tensor) -> Tensor:
    """Attend as in Music Transformer: all products, padded and read with another stride."""
    length = query.shape[2]
    back = table[0, :, :length]  # distances from 1 - L to 0
    padded = F.pad(query @ back.mT, (1, 0))
    relative = padded.view(*padded.shape[:2], length + 1, length)[:, :, 1:]
    scores = (query @ key.mT + relative) * query.shape[-1] ** -0.5
    later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ value


def through(kernel: Kernel, batch: int, length: int, relative: RelativeContent) -> Attend | None:
    """Return one of our kernels; None where it refuses."""
    at = line(length, device=relative.key_tables.device)
    dtype = relative.key_tables.dtype
    work = Work(
        Causal(), Pairs(batch, H, at, at), frozenset({"gradient"}), dtype, C, H, relative.kinds()
    )
    if kernel.refuses(work):
        return None
    planned = plan(kernel, work)
    return lambda q, k, v, table: planned(q, k, v, biases=relative.biases(q))


def ways(batch: int, length: int, relative: RelativeContent, cuda: bool) -> dict[str, Attend]:
    found: dict[str, Attend | None] = {"sdpa, no relative term": limit}
    for name in ("skewed", "blockwise", "flex"):
        found[name] = through(KERNELS[name], batch, length, relative)
    found["skew, eager"] = skew
    if cuda:
        found["skew, compiled"] = torch.compile(skew)
    return {name: way for name, way in found.items() if way is not None}


# ---- measuring -----------------------------------------------------------------------------------


def tensors(batch: int, length: int, options: dict[str, Any]) -> list[Tensor]:
    """Return query, key, value and a gradient, laid out as in a model: (B, L, H, C)."""
    made = [torch.randn(batch, length, H, C, **options).transpose(1, 2) for _ in range(4)]
    return [x.requires_grad_(i < 3) for i, x in enumerate(made)]


def stepping(way: Attend, inputs: list[Tensor], table: Tensor) -> Callable[[], None]:
    *qkv, grad = inputs

    def once() -> None:
        torch.autograd.grad(way(*qkv, table), [*qkv, table], grad, allow_unused=True)

    return once


def milliseconds(once: Callable[[], None], cuda: bool, rounds: int) -> float:
    """Return the median of rounds of a few runs each, after a warm-up."""

    def wait() -> None:
        if cuda:
            torch.cuda.synchronize()

    runs, times = 10 if cuda else 1, []
    for _ in range(rounds + 1):
        wait()
        began = time.perf_counter()
        for _ in range(runs):
            once()
        wait()
        times.append((time.perf_counter() - began) * 1000 / runs)
    return statistics.median(times[1:])


def peak(once: Callable[[], None], cuda: bool) -> float | None:
    """Return the peak memory in GiB beyond what was in use; None on a CPU."""
    if not cuda:
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    once()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def measured(
    named: dict[str, Attend],
    shape: tuple[int, int],
    relative: RelativeContent,
    options: dict[str, Any],
    rounds: int,
) -> list[dict[str, Any]]:
    cuda = options["device"] == "cuda"
    inputs, rows = tensors(*shape, options), []
    base: float | None = None
    for name, way in named.items():
        once = stepping(way, inputs, relative.key_tables)
        ms = milliseconds(once, cuda, rounds)
        base = base or ms
        row = {"way": name, "batch": shape[0], "length": shape[1], "ms": ms, "ratio": ms / base}
        row["gib"] = peak(once, cuda)
        rows.append(row)
        stored = "" if row["gib"] is None else f"{row['gib']:8.2f} GiB"
        print(
            f"{shape[0]:4} x {shape[1]:<6}{name:40}{ms:10.3f} ms{row['ratio']:8.2f} x{stored}",
            flush=True,
        )
    return rows


def tiled(batch: int, length: int, relative: RelativeContent) -> dict[str, Attend]:
    """Return the fused kernel with each tile size that fits on the chip."""
    named = {"sdpa, no relative term": limit}
    for tiles in TRIED:
        way = through(Skewed(tiles), batch, length, relative)
        if way is not None and fits(way, batch, length, relative):
            named[str(tiles)] = way
    return named


def fits(way: Attend, batch: int, length: int, relative: RelativeContent) -> bool:
    table = relative.key_tables
    inputs = tensors(batch, length, {"device": table.device, "dtype": table.dtype})
    try:
        stepping(way, inputs, table)()
    except Exception as error:
        if "OutOfResources" not in type(error).__name__:
            raise
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiles", action="store_true", help="try the fused kernel in other tiles")
    parser.add_argument("--quick", action="store_true", help="toy sizes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    told = parser.parse_args()
    cuda = told.device == "cuda"
    options = {"device": told.device, "dtype": torch.bfloat16 if cuda else torch.float32}
    rows = []
    for batch, length in ((2, 64), (1, 128)) if told.quick else SHAPES:
        relative = RelativeContent(C, Every(length), heads=H).to(**options)
        make = tiled(batch, length, relative) if told.tiles else None
        named = make or ways(batch, length, relative, cuda)
        rows += measured(named, (batch, length), relative, options, told.rounds)
    length = 256 if told.quick else LONGEST
    relative = RelativeContent(C, Every(length), heads=H).to(**options)
    alone = through(KERNELS["skewed" if cuda else "blockwise"], 1, length, relative)
    if alone is not None and not told.tiles and (cuda or told.quick):
        named = {"sdpa, no relative term": limit, "one long sequence": alone}
        rows += measured(named, (1, length), relative, options, min(told.rounds, 3))
    if told.json:
        told.json.parent.mkdir(parents=True, exist_ok=True)
        told.json.write_text(
            json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
