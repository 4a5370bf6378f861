"""Time and memory of a layer, by the length of the sequence.

The usual table says: for n tokens of width d attention takes n²·d operations, a recurrent layer
n·d², a convolution of span k k·n·d². So attention is the cheapest while n < d. This experiment
measures the time of a layer, forward and backward, and the memory it keeps for the backward pass.

n tokens, d model width.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.kernels import kernel as named_kernel
from manyheads.attention.kernels import plan
from manyheads.attention.layer import Attention
from manyheads.attention.patterns import Everything
from manyheads.attention.places import Pairs, line
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, label_axes
from manyheads.modules.convolutional import Gated
from manyheads.modules.recurrent import cells_of

Layer = Callable[[Tensor], Tensor]  # (1, n, d) -> (1, n, d)
ATTENTION, FUSED = "attention, as written", "attention, fused"
RECURRENT, CONVOLUTION = "recurrent (LSTM)", "convolution (span 3)"
LAYERS = (ATTENTION, FUSED, RECURRENT, CONVOLUTION)
SPAN = 3
TABLE = {RECURRENT: 1, CONVOLUTION: SPAN}  # attention costs as much at this multiple of the width


@dataclass(frozen=True)
class Cost(Experiment):
    """Time and memory of one layer."""

    width: int = 128
    lengths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    rounds: int = 5

    quick = choose_settings(width=16, lengths=(16, 64), rounds=1)
    limits = (
        "The times hold for this machine and its CPU kernels. A GPU computes n tokens at once, but "
        "a recurrent layer still takes n steps: there the lines cross at other lengths."
    )

    def measure(self, seed: int) -> Numbers:
        torch.manual_seed(seed)
        layers = {name: self.build(name) for name in LAYERS}
        found: Numbers = {name: {"ms": [], "mib": []} for name in LAYERS}
        for length in self.lengths:
            x = torch.randn(1, length, self.width, requires_grad=True)
            for name, layer in layers.items():
                found[name]["ms"].append(1e3 * best_time(layer, x, self.rounds))
                found[name]["mib"].append(kept_bytes(layer, x) / 2**20)
        return found

    def build(self, name: str) -> Layer:
        if name == RECURRENT:
            cells = cells_of("lstm", self.width, depth=1, dropout=0.0)
            return lambda x: cells(x)[0]
        if name == CONVOLUTION:
            gated = Gated(self.width, SPAN, dilation=1, dropout=0.0)
            return lambda x: gated(nn.functional.pad(x.mT, (SPAN // 2, SPAN // 2))).mT
        attention = Attention(self.width, heads=4)
        kernel = named_kernel("reference" if name == ATTENTION else "sdpa")

        def attend(x: Tensor) -> Tensor:
            at = line(x.shape[1])
            pairs = Pairs(1, attention.heads, at, at)
            return attention(x, plan(kernel, attention.work(Everything(), pairs, x)))

        return attend

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        shown = [*range(0, len(self.lengths), 3)]
        return [
            {
                "layer": name,
                **{
                    f"ms, n = {self.lengths[i]}": f"{self.best_times(seeds, name)[i]:.2f}"
                    for i in shown
                },
                f"MiB kept, n = {self.lengths[-1]}": f"{seeds[0][name]['mib'][-1]:.1f}",
                **{
                    f"{one} is slower": self.find_crossing(seeds, one, name)
                    if name in TABLE
                    else ""
                    for one in (ATTENTION, FUSED)
                },
                "by the table of operations": f"from n = {TABLE[name] * self.width}"
                if name in TABLE
                else "",
            }
            for name in LAYERS
        ]

    def best_times(self, seeds: Seeds, name: str) -> list[float]:
        """Return the milliseconds at each length, the best of all seeds."""
        return [min(each) for each in zip(*seeds.values(name, "ms"), strict=True)]

    def find_crossing(self, seeds: Seeds, one: str, other: str) -> str:
        """Return the length from which the first is slower, interpolated between measurements."""
        both = zip(self.best_times(seeds, one), self.best_times(seeds, other), strict=True)
        ratios = [math.log(ours / theirs) for ours, theirs in both]
        if ratios[-1] <= 0:
            return "at no length"
        last = max((i for i, ratio in enumerate(ratios) if ratio <= 0), default=None)
        if last is None:
            return "at every length"
        share = -ratios[last] / (ratios[last + 1] - ratios[last])
        low, high = self.lengths[last], self.lengths[last + 1]
        return f"from n = {low * (high / low) ** share:.0f}"

    def claims(self, seeds: Seeds) -> list[Claim]:
        times = {name: self.best_times(seeds, name) for name in LAYERS}
        kept = {name: seeds[0][name]["mib"] for name in LAYERS}
        doubled = {name: each[-1] / each[-2] for name, each in times.items()}
        found = {name: self.find_crossing(seeds, ATTENTION, name) for name in TABLE}
        return [
            Claim(
                "attention as written (unfused) is slower than the recurrent layer "
                f"{found[RECURRENT]}; the table of operations, which counts only products of n "
                f"and d, says {self.width}",
                found[RECURRENT].startswith("from"),
            ),
            Claim(
                f"that attention is faster than a convolution while n is small: it is slower "
                f"{found[CONVOLUTION]}; the table says from {TABLE[CONVOLUTION] * self.width} on, "
                "but does not count the projections to queries, keys and values",
                found[CONVOLUTION].startswith("from"),
            ),
            Claim(
                f"from {self.lengths[-2]} to {self.lengths[-1]} tokens attention takes "
                f"{doubled[ATTENTION]:.1f} times as long, the recurrent layer "
                f"{doubled[RECURRENT]:.1f}, the convolution {doubled[CONVOLUTION]:.1f}",
                doubled[ATTENTION] > max(doubled[RECURRENT], doubled[CONVOLUTION]) + 0.5,
            ),
            Claim(
                f"attention need not keep n² weights in memory: fused it keeps "
                f"{kept[FUSED][-1]:.0f} MiB at {self.lengths[-1]} tokens, as written "
                f"{kept[ATTENTION][-1]:.0f}",
                kept[ATTENTION][-1] > 3 * kept[FUSED][-1],
            ),
        ]

    panels = Panels("ab", (10.5, 4.4), legend="a", columns=5)

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        panels = (
            ("ms", "time, forward and backward", "ms"),
            ("mib", "memory for the backward pass", "MiB"),
        )
        for axis, (key, title, unit) in zip(axes.values(), panels, strict=True):
            for number, name in enumerate(LAYERS):
                draw_curve(axis, self.lengths, seeds.values(name, key), name, number)
            axis.axvline(self.width, color="#777777", linestyle=":", label="length = width")
            label_axes(axis, title, "tokens n", unit)
            axis.set_xscale("log", base=2)
            axis.set_xticks(self.lengths, [*map(str, self.lengths)])
            axis.set_yscale("log")


def best_time(layer: Layer, x: Tensor, rounds: int) -> float:
    """Return the seconds of a forward and backward pass, the best of several after a warm-up."""
    took = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        layer(x).sum().backward()
        took.append(time.perf_counter() - began)
    return min(took[1:])


def kept_bytes(layer: Layer, x: Tensor) -> int:
    """Return the bytes that a forward pass keeps for the backward pass, each storage once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = layer(x)
        found = sum(kept.values())
    del out  # not before: freed memory could be used again and be counted only once
    return found
