"""Several heads attend to several things at once.

A head takes one weighted mean: if it reads several places, only their mixture is left. At every
place a network of one layer predicts the four words before it. All networks do the same number of
operations; they differ in how many heads share the width.

B batch, T tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from manyheads.attention.kernels import KERNELS
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, draw_map, label_axes
from manyheads.lab.training import earlier_loss, earlier_right, fit, mean_of_last, word_batches
from manyheads.modules.build import build_classifier
from manyheads.modules.config import TransformerConfig
from manyheads.modules.heads import EncoderHead


@dataclass(frozen=True)
class Heads(Experiment):
    """Four look-ups at every place, with 1 to 8 heads."""

    heads: tuple[int, ...] = (1, 2, 4, 8)
    lookups: int = 4
    words: int = 16
    length: int = 24
    width: int = 64
    batch: int = 32
    steps: int = 500
    learning_rate: float = 3e-3

    quick = choose_settings(width=16, batch=4, steps=5, length=8)
    limits = (
        "The task was made so that one mean is not enough. It does not show how many heads a "
        "language model needs, nor whether several layers can replace several heads."
    )

    def measure(self, seed: int) -> Numbers:
        return {str(count): self.measure_heads(count, seed) for count in self.heads}

    def measure_heads(self, count: int, seed: int) -> Numbers:
        shape = (self.batch, self.length)
        *learned, tested = word_batches(shape, self.words, self.steps + 1, seed)
        torch.manual_seed(seed)
        network = self.build(count)
        distances = range(1, self.lookups + 1)
        loss = partial(earlier_loss, distances=distances)
        losses = fit(network, loss, learned, self.learning_rate)
        right = earlier_right(network, tested, distances)
        return {
            "operations": count_operations(network, tested),
            "loss": mean_of_last(losses),
            "accuracy": float(right.mean()),
            "by distance": right.mean((0, 1)).tolist(),
            "losses": losses[:: max(1, self.steps // 50)],
            **({"maps": maps_of(network, tested)} if count == self.lookups else {}),
        }

    def build(self, count: int) -> EncoderHead:
        config = TransformerConfig(
            width=self.width,
            depth=1,
            heads=count,
            ffn_width=2 * self.width,
            dropout=0.0,
            position="RelativeContent(8)",
        )
        outcomes = self.lookups * (self.words + 1)
        return build_classifier(config, self.words + 1, outcomes, pooling=None)

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        return [
            {
                "heads": name,
                "operations": f"{seeds[0][name]['operations'] / 1e6:.1f} M",
                "loss per word": seeds.spread(name, "loss"),
                f"right (chance {1 / self.words:.2f})": seeds.spread(name, "accuracy"),
            }
            for name in seeds[0]
        ]

    def claims(self, seeds: Seeds) -> list[Claim]:
        right = {name: seeds.mean(name, "accuracy") for name in seeds[0]}
        operations = {one["operations"] for one in seeds[0].values()}
        first, enough = str(self.heads[0]), str(self.lookups)
        told = ", ".join(f"{name}: {value:.0%}" for name, value in right.items())
        return [
            Claim(
                "at the same number of operations, more heads predict more of the words before "
                f"them ({told})",
                len(operations) == 1 and right[enough] > right[first] + 0.2,
            ),
            Claim(
                f"that more heads than the {enough} things to look up add little: "
                f"{right[str(self.heads[-1])]:.0%} against {right[enough]:.0%}",
                abs(right[str(self.heads[-1])] - right[enough]) < 0.05,
            ),
        ]

    panels = Panels("llrr;abcd", (11.5, 6.4), legend="l", columns=5)

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        curves, bars = axes["l"], axes["r"]
        steps = range(0, self.steps, max(1, self.steps // 50))
        for number, name in enumerate(seeds[0]):
            told = f"{name} head{'s' if name != '1' else ''}"
            draw_curve(curves, steps, seeds.values(name, "losses"), told, number)
            far = range(1, self.lookups + 1)
            draw_curve(bars, far, seeds.values(name, "by distance"), told, number)
        curves.axhline(math.log(self.words), color="#777777", linestyle=":", label="chance")
        label_axes(curves, "loss", "training step", "nats per word")
        label_axes(bars, "words predicted right", "distance", "share right")
        shown = seeds[0][str(self.lookups)]["maps"]
        for number, (panel, weights) in enumerate(zip("abcd", shown, strict=True), 1):
            title = f"head {number} of {self.lookups}"
            draw_map(axes[panel], weights, title, "key", "query")


def maps_of(network: EncoderHead, words: torch.Tensor) -> list[Any]:
    """Return the attention of each head, (T, T), averaged over all sentences."""
    (weights,) = network.attention_weights(words).values()
    return weights.mean(0).tolist()


def count_operations(network: EncoderHead, words: torch.Tensor) -> int:
    """Count the multiplications and additions of one pass, with the reference kernel."""
    stack = network.encoder.stack
    kernel, stack.kernel = stack.kernel, KERNELS["reference"]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(words)
    stack.kernel = kernel
    return counter.get_total_flops()
