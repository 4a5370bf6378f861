"""Position encodings, and whether they work beyond the training length.

At every place a network predicts the word three places before. It is trained on short sentences and
tested on longer ones.

B batch, T tokens, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from manyheads.attention.places import line
from manyheads.attention.positions import Sinusoidal
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, label_axes
from manyheads.lab.training import earlier_loss, earlier_right, fit, word_batches
from manyheads.modules.build import build_classifier
from manyheads.modules.config import TransformerConfig
from manyheads.modules.heads import EncoderHead

SINUSOIDAL, CONCATENATED, LEARNED = "sinusoidal", "sinusoidal, concatenated", "learned"
ROTARY, BIAS, CONTENT = "rotary", "relative bias (T5)", "relative content (Shaw)"


@dataclass(frozen=True)
class Positions(Experiment):
    """Predict the word three places before, in sentences longer than those of training."""

    length: int = 24  # in training
    lengths: tuple[int, ...] = (12, 24, 32, 48, 72, 96)  # in tests
    distances: tuple[int, ...] = (3,)
    words: int = 16
    width: int = 64
    depth: int = 2
    heads: int = 4
    batch: int = 32
    steps: int = 400
    learning_rate: float = 4e-3

    quick = choose_settings(length=8, lengths=(8, 16), width=16, heads=2, batch=4, steps=5)
    limits = (
        "The task needs only small distances. It does not show that a position encoding which "
        "works here on longer sentences also works for a language model on longer texts."
    )

    @property
    def positions(self) -> dict[str, str]:
        return {
            SINUSOIDAL: "Sinusoidal()",
            CONCATENATED: "Concatenated()",
            LEARNED: f"Learned({self.lengths[-1]})",
            ROTARY: "Rotary()",
            BIAS: "RelativeBias()",
            CONTENT: "RelativeContent(8)",
        }

    def measure(self, seed: int) -> Numbers:
        return {name: self.measure_position(text, seed) for name, text in self.positions.items()}

    def measure_position(self, position: str, seed: int) -> Numbers:
        learned = word_batches((self.batch, self.length), self.words, self.steps, seed)
        config = TransformerConfig(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            ffn_width=2 * self.width,
            dropout=0.0,
            position=position,
            # Learned vectors begin small; beside large word embeddings they would learn late.
            scale_embeddings=not position.startswith("Learned"),
        )
        outcomes = len(self.distances) * (self.words + 1)
        torch.manual_seed(seed)
        network = build_classifier(config, self.words + 1, outcomes, pooling=None)
        loss = partial(earlier_loss, distances=self.distances)
        losses = fit(network, loss, learned, self.learning_rate)
        return {
            "losses": losses[:: max(1, self.steps // 50)],
            "accuracy": [self.try_length(network, length, seed) for length in self.lengths],
        }

    def try_length(self, network: EncoderHead, length: int, seed: int) -> float:
        (tested,) = word_batches((2 * self.batch, length), self.words, 1, seed + 1000)
        return float(earlier_right(network, tested, self.distances).mean())

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        return [
            {
                "position": name,
                **{
                    f"{length} words": seeds.spread(name, "accuracy", i)
                    for i, length in enumerate(self.lengths)
                },
            }
            for name in self.positions
        ]

    def claims(self, seeds: Seeds) -> list[Claim]:
        known = self.lengths.index(self.length)
        inside, beyond = (
            {name: seeds.mean(name, "accuracy", at) for name in self.positions}
            for at in (known, -1)
        )
        longest = self.lengths[-1]
        return [
            Claim(
                f"at {self.length} words, the training length, every position encoding works (the "
                f"worst: {min(inside.values()):.0%} right)",
                min(inside.values()) > 0.9,
            ),
            Claim(
                f"at {longest} words rotary positions and clipped distances still work "
                f"({beyond[ROTARY]:.0%} and {beyond[CONTENT]:.0%} right); sinusoidal and learned "
                f"positions, which are absolute, do not ({beyond[SINUSOIDAL]:.0%} and "
                f"{beyond[LEARNED]:.0%})",
                min(beyond[ROTARY], beyond[CONTENT])
                > 0.9
                > 0.6
                > max(beyond[SINUSOIDAL], beyond[LEARNED]),
            ),
            Claim(
                "a relative encoding alone is not enough: T5's biases of far distances were never "
                f"trained, and attention leaks there ({beyond[BIAS]:.0%} right)",
                beyond[BIAS] < inside[BIAS] - 0.2,
            ),
            Claim(
                "concatenated sinusoidal positions work as well as added ones: "
                f"{inside[CONCATENATED]:.0%} and {inside[SINUSOIDAL]:.0%} at the training length",
                abs(inside[CONCATENATED] - inside[SINUSOIDAL]) < 0.05,
            ),
        ]

    panels = Panels("tlc", (12.5, 4.2), legend="t", columns=4, widths=(1.2, 1, 1))

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        tried, learned = axes["t"], axes["l"]
        steps = range(0, self.steps, max(1, self.steps // 50))
        for number, name in enumerate(self.positions):
            draw_curve(tried, self.lengths, seeds.values(name, "accuracy"), name, number)
            draw_curve(learned, steps, seeds.values(name, "losses"), name, number)
        tried.axvline(self.length, color="#777777", linestyle=":", label="training length")
        label_axes(tried, "beyond the training length", "words of a sentence", "share right")
        label_axes(learned, "training", "training step", "loss, nats per word")
        draw_clocks(axes["c"], self.lengths[-1])


def draw_clocks(axis: Any, places: int) -> None:
    """Draw the sinusoids: two channels are like the hand of a clock, the next two a slower one."""
    waves = Sinusoidal().waves(64, line(places), torch.float32)
    axis.imshow(
        waves.T.tolist(), cmap="RdBu", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    label_axes(axis, "sinusoids: sines above, cosines below", "place", "channel")
    axis.grid(False)
