"""How fast is attention: every kernel x pattern over lengths, and what `choose` picks.

    python bench/attention.py                       a table on this machine
    python bench/attention.py --json results/x.json write the results to a file
    python bench/attention.py --quick               toy sizes, to see that it runs

Three claims stand at the end: plain causal attention through a plan costs what SDPA costs, local
attention grows with the length and not its square, planning is a small part of a step.
Times are medians of forward + backward in milliseconds, many runs in a row as in training; ratios
are of the same run.

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

from manyheads import (
    KERNELS,
    Blocks,
    Causal,
    Clipped,
    Everything,
    Lengths,
    Pairs,
    Prefix,
    RelativeBias,
    RelativeContent,
    Segments,
    Sinusoidal,
    Stack,
    TransformerConfig,
    Window,
    Work,
    choose,
    grid,
    line,
    plan,
)
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Places, packed
from manyheads.attention.positions import Relative

H, C = 8, 64
PRODUCTS = 7  # matrix products over all pairs: 2 forward, 5 backward


class Machine:
    """A device: how to wait for it, and how to time work on it."""

    def __init__(self, name: str, quick: bool):
        self.device = torch.device(name)
        self.cuda = self.device.type == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.seconds = 0.02 if quick else 0.3

    @property
    def description(self) -> str:
        name = (
            torch.cuda.get_device_name() if self.cuda else f"{torch.get_num_threads()} CPU threads"
        )
        return f"{name}, torch {torch.__version__}, {self.dtype}".replace("torch.", "")

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def together(self, work: Callable[[], Any], runs: int) -> float:
        """Return the milliseconds of one run among many in a row, as in training."""
        self.wait()
        began = time.perf_counter()
        for _ in range(runs):
            work()
        self.wait()
        return (time.perf_counter() - began) * 1000 / runs

    def time(self, work: Callable[[], Any]) -> float:
        """Return the median of nine rounds, after a warm-up."""
        self.together(work, 3)
        runs = max(1, int(self.seconds * 1000 / 9 / self.together(work, 2)))
        return statistics.median(self.together(work, min(runs, 50)) for _ in range(9))

    def memory(self, work: Callable[[], Any]) -> float | None:
        """Return the peak memory in GiB beyond what was in use; None on a CPU."""
        if not self.cuda:
            return None
        self.wait()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        self.wait()
        return (torch.cuda.max_memory_allocated() - before) / 2**30

    def tensors(self, batch: int, length: int, count: int = 4) -> list[Tensor]:
        """Return query, key, value and a gradient, laid out as in a model: (B, L, H, C)."""
        options = {"device": self.device, "dtype": self.dtype}
        made = [torch.randn(batch, length, H, C, **options).transpose(1, 2) for _ in range(count)]
        return [x.requires_grad_(i < 3) for i, x in enumerate(made)]


def forward_backward(
    run: Callable[..., Tensor], tensors: list[Tensor], *others: Tensor
) -> Callable[[], None]:
    *inputs, grad = tensors

    def once() -> None:
        torch.autograd.grad(run(*inputs), [*inputs, *others], grad)

    return once


# ---- every kernel x pattern ------------------------------------------------------------------


def cases(
    length: int, batch: int, device: torch.device
) -> list[tuple[str, Pattern, Places, Relative]]:
    """Return the patterns to time at one length, among them 16 packed documents and RGB images."""
    at, plain = line(length, device=device), Relative()
    side = max(1, int((length / 3) ** 0.5) // 8) * 8  # the largest square that fits
    image = grid(side, side, channels=3, blocks=(8, 8), device=device)
    document = [length // 16] * 16
    end_to_end = packed([document] * batch, length, device=device)
    return [
        ("everything", Everything(), at, plain),
        ("causal", Causal(), at, plain),
        ("padded to 3/4", Lengths(torch.full((batch,), length * 3 // 4)).to(device), at, plain),
        ("prefix", Prefix(length // 4), at, plain),
        ("local window", Causal() & Window(256), at, plain),
        ("local 1D", Causal() & Blocks(256, 256), at, plain),
        ("local 2D", Causal() & Blocks((8, 8), (8, 8)), image, plain),
        (
            "packed",
            Causal() & Segments.of([document] * batch, length).to(device),
            end_to_end,
            plain,
        ),
        ("causal, bias", Causal(), at, RelativeBias(H, Clipped(128))),
        ("causal, content", Causal(), at, RelativeContent(C, Clipped(128))),
    ]


def table(machine: Machine, lengths: list[int], tokens: int) -> list[dict[str, Any]]:
    rows = []
    heads = ("kernel", 11), ("ms", 9), ("GiB", 8), ("TFLOP/s", 9), ("plan ms", 9)
    titles = "".join(f"{title:>{width}}" for title, width in heads)
    print(f"\n{'pattern':18}{'B x L':>13}{titles}  taken")
    for length in lengths:
        batch = max(1, tokens // length)
        for name, pattern, places, relative in cases(length, batch, machine.device):
            for row in measured(machine, name, pattern, places, relative, batch):
                rows.append(row)
                print(shown(row), flush=True)
    return rows


def measured(
    machine: Machine, name: str, pattern: Pattern, places: Places, relative: Relative, batch: int
) -> list[dict[str, Any]]:
    relative = relative.to(machine.device, machine.dtype)
    pairs = Pairs(batch, H, places, places)
    work = Work(pattern, pairs, frozenset({"gradient"}), machine.dtype, C, H, relative.kinds())
    taken, rows = choose(work), []
    useful = allowed_pairs(pattern, pairs)
    tables = list(relative.parameters())
    for which, kernel in KERNELS.items():
        if kernel.refuses(work) or (len(places) > 4096 and dense(which, relative)):
            continue
        make = lambda kernel=kernel: plan(kernel, work)  # noqa: E731
        planned, tensors = make(), machine.tensors(batch, len(places))

        def run(q: Tensor, k: Tensor, v: Tensor, planned: Any = planned) -> Tensor:
            return planned(q, k, v, biases=relative.biases(q))

        once = forward_backward(run, tensors, *tables)
        milliseconds = machine.time(once)
        rows.append(
            {
                "pattern": name,
                "written": repr(pattern) if pattern.fixed else name,
                "batch": batch,
                "length": len(places),
                "kernel": which,
                "ms": milliseconds,
                "gib": machine.memory(once),
                "tflops": PRODUCTS * 2 * useful * C * H / milliseconds / 1e9,
                "plan_ms": machine.time(make),
                "taken": which == taken.kernel.name,
            }
        )
    return rows


def dense(kernel: str, relative: Relative) -> bool:
    """Whether the kernel stores a number for every pair, which does not fit at large lengths."""
    return kernel == "reference" or (kernel == "sdpa" and bool(relative.features))


def allowed_pairs(pattern: Pattern, pairs: Pairs) -> int:
    """Count the pairs of the batch that attend, a few rows at a time."""
    b, h, i, j = (torch.arange(n, device=pairs.device) for n in (pairs.batch, 1, *pairs.shape[2:]))
    total, shape = 0, (pairs.batch, 1, -1, pairs.shape[3])
    for rows in i.split(1024):
        pair = pairs.at(b[:, None, None, None], h[None, :, None, None], rows[:, None], j)
        allowed = pattern.allows(pair)
        total += int(allowed.expand(shape[0], 1, len(rows), shape[3]).sum())
    return total


def shown(row: dict[str, Any]) -> str:
    gib = "" if row["gib"] is None else f"{row['gib']:.2f}"
    return (
        f"{row['pattern']:18}{row['batch']:>5} x "
        f"{row['length']:>5}{row['kernel']:>11}{row['ms']:9.2f}"
        f"{gib:>8}{row['tflops']:9.1f}{row['plan_ms']:9.3f}  {'<-' if row['taken'] else ''}"
    )


# ---- the three claims ------------------------------------------------------------------------


def plain_causal(machine: Machine, lengths: list[int], tokens: int) -> list[dict[str, Any]]:
    """Compare our time with SDPA's on the same tensors, in turns on the same machine."""
    rows = []
    for length in lengths:
        batch = max(1, tokens // length)
        tensors = machine.tensors(batch, length)
        at = line(length, device=machine.device)
        work = Work(Causal(), Pairs(batch, H, at, at), frozenset({"gradient"}), machine.dtype, C, H)
        planned = plan(choose(work).kernel, work)
        ours = forward_backward(planned, tensors)
        theirs = forward_backward(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), tensors
        )
        rounds = 40 if machine.cuda else 5
        times: dict[Any, list[float]] = {ours: [], theirs: []}
        for turn in range(rounds):  # they take turns to go first, so that neither gains
            for each in (ours, theirs) if turn % 2 else (theirs, ours):
                times[each].append(machine.together(each, 20))
        first, second = (statistics.median(times[each][2:]) for each in (ours, theirs))
        ratio = first / second
        rows.append({"length": length, "ms": first, "sdpa_ms": second, "ratio": ratio})
        print(f"causal {batch} x {length}: {ratio:.3f} x SDPA ({first:.3f} ms)", flush=True)
    return rows


def local_growth(machine: Machine, lengths: list[int], batch: int) -> list[dict[str, Any]]:
    """Measure the time per token of local 1D attention, relative to the shortest length."""
    rows: list[dict[str, Any]] = []
    for length in lengths:
        at = line(length, device=machine.device)
        pairs = Pairs(batch, H, at, at)
        work = Work(
            Causal() & Blocks(256, 256), pairs, frozenset({"gradient"}), machine.dtype, C, H
        )
        kernel = choose(work).kernel
        tensors = machine.tensors(batch, length)
        milliseconds = machine.time(forward_backward(plan(kernel, work), tensors))
        per_token = milliseconds / length
        first = rows[0]["ms"] / rows[0]["length"] if rows else per_token
        rows.append(
            {
                "length": length,
                "ms": milliseconds,
                "kernel": kernel.name,
                "linear": per_token / first,
            }
        )
        print(
            f"local 1D {batch} x {length} ({kernel.name}): "
            f"{milliseconds:.3f} ms, {per_token / first:.3f} of linear",
            flush=True,
        )
    return rows


def planning(machine: Machine, document: int, count: int, width: int) -> list[dict[str, Any]]:
    """Compare planning `count` packed documents with one training step of six layers on them."""
    length = document * count
    lengths = [[document] * count]
    places = packed(lengths, length, device=machine.device)
    seen = Segments.of(lengths, length).to(machine.device)
    shape = TransformerConfig(width=width, depth=6, heads=H, dropout=0.0)
    stack = Stack.of(shape, Causal(), position=Sinusoidal()).to(machine.device)
    optimizer = torch.optim.AdamW(stack.parameters(), fused=True)
    x = torch.randn(1, length, width, device=machine.device)

    def step() -> None:
        with torch.autocast(machine.device.type, machine.dtype, enabled=machine.cuda):
            loss = stack(x, places, seen).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    whole = machine.time(step)
    rows = []
    for name in ("varlen", "flex"):
        pairs = Pairs(1, H, places, places)
        work = Work(Causal() & seen, pairs, frozenset({"gradient"}), machine.dtype, C, H)
        if KERNELS[name].refuses(work):
            continue
        milliseconds = wall(machine, lambda name=name, work=work: plan(KERNELS[name], work))
        share = milliseconds / whole
        rows.append(
            {
                "kernel": name,
                "documents": count,
                "tokens": length,
                "plan_ms": milliseconds,
                "step_ms": whole,
                "share": share,
            }
        )
        print(
            f"plan {count} documents, {length} tokens, {name}: "
            f"{milliseconds:.3f} ms, {share:.1%} of a step of {whole:.1f} ms",
            flush=True,
        )
    return rows


def wall(machine: Machine, work: Callable[[], Any]) -> float:
    """Return milliseconds of wall time, with waits: the most that planning adds to a step."""
    runs = []
    for _ in range(12):
        machine.wait()
        began = time.perf_counter()
        work()
        machine.wait()
        runs.append((time.perf_counter() - began) * 1000)
    return statistics.median(runs[2:])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options.add_argument("--claims", action="store_true", help="only the three claims")
    asked = options.parse_args()
    machine = Machine(asked.device, asked.quick)
    big = machine.cuda and not asked.quick
    print(machine.description)
    results: dict[str, Any] = {"machine": machine.description, "heads": H, "channels": C}
    for name, measure in sections(machine, big, asked.quick).items():
        if asked.claims and name == "table":
            continue
        results[name] = measure()
        if asked.json:  # after each: an interrupted run keeps its results
            asked.json.write_text(json.dumps(results, indent=1) + "\n")


def sections(machine: Machine, big: bool, quick: bool) -> dict[str, Callable[[], Any]]:
    """Return what to measure, with sizes that fit this machine."""
    small = [192, 384] if quick else [768, 1536]
    if not big:
        return {
            "plain_causal": lambda: plain_causal(machine, [1024, 2048], 2048),
            "local_growth": lambda: local_growth(machine, [768, 1536], 1),
            "planning": lambda: planning(machine, 64, 16, 512),
            "table": lambda: table(machine, small, 1536),
        }
    return {
        "plain_causal": lambda: plain_causal(machine, [1024, 2048, 4096, 8192], 16384),
        "local_growth": lambda: local_growth(machine, [3072 * 2**n for n in range(5)], 32),
        "planning": lambda: [
            *planning(machine, 1024, 16, 512),
            *planning(machine, 16384, 16, 512),
        ],
        "table": lambda: table(machine, [4096, 16384], 16384),
    }


if __name__ == "__main__":
    main()
