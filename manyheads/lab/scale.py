"""Why scores are divided by √d: otherwise attention is almost one-hot before training.

The dot product of two vectors of d random numbers is about as large as √d. Without the division,
wide heads begin with attention on one token, where the softmax has almost no gradient.

T tokens, D model width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from manyheads.attention.layer import Attention
from manyheads.attention.scores import Dot, ScaledDot
from manyheads.lab.experiment import Claim, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, label_axes
from manyheads.lab.training import Batch, fit, make_batches
from manyheads.lab.weights import Recall, recall_accuracy, recall_loss
from manyheads.modules.build import build_classifier
from manyheads.modules.config import TransformerConfig
from manyheads.modules.heads import EncoderHead

SCORES = {"q·k / √d": ScaledDot, "q·k": Dot}
SCALED, PLAIN = SCORES


@dataclass(frozen=True)
class Scale(Recall):
    """Look up entries of a list with one head, narrow and wide."""

    widths: tuple[int, ...] = (8, 32, 128, 512)
    trained: int = 128  # the width that is trained
    learning_rate: float = 1e-3

    quick = choose_settings(widths=(8, 32), trained=32, batch=8, steps=6, every=2)
    limits = (
        "Adam hides much of the effect of small gradients. It is not shown what plain gradient "
        "descent would do, nor whether a larger network recovers."
    )

    def measure(self, seed: int) -> Numbers:
        return {name: self.measure_score(name, seed) for name in SCORES}

    def measure_score(self, name: str, seed: int) -> Numbers:
        *learned, tested = make_batches(self.draw_lists, self.steps + 1, seed)
        begins = [look_inside(self.build(name, width, seed), tested) for width in self.widths]
        network = self.build(name, self.trained, seed)
        seen: list[Numbers] = []

        def look() -> None:
            seen.append(look_inside(network, tested))

        fit(network, recall_loss, learned, self.learning_rate, every=self.every, look=look)
        return {
            **{f"start {key}": [one[key] for one in begins] for key in begins[0]},
            **{key: [one[key] for one in seen] for key in seen[0]},
        }

    def build(self, name: str, width: int, seed: int) -> EncoderHead:
        torch.manual_seed(seed)
        config = TransformerConfig(width=width, ffn_width=64, depth=1, heads=1, dropout=0.0)
        network = build_classifier(config, self.names * (self.values + 1), self.values, None)
        attention_of(network).score = SCORES[name]()
        return network

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        numbered = [*enumerate(self.widths)]
        return [
            {
                "score": name,
                **{
                    f"entropy at the start, d = {width}": seeds.spread(name, "start entropy", i)
                    for i, width in numbered
                },
                f"right after {self.steps // 2} steps": seeds.spread(name, "accuracy", self.middle),
                f"after {self.steps}": seeds.spread(name, "accuracy", -1),
            }
            for name in SCORES
        ]

    @property
    def middle(self) -> int:
        """The index of the measurement after half of the steps."""
        return self.steps // 2 // self.every

    def claims(self, seeds: Seeds) -> list[Claim]:
        entropy, moves, gradient = (
            {name: seeds.mean(name, f"start {key}", -1) for name in SCORES}
            for key in ("entropy", "moves", "gradient")
        )
        half, end = (
            {name: seeds.mean(name, "accuracy", at) for name in SCORES} for at in (self.middle, -1)
        )
        widest = self.widths[-1]
        return [
            Claim(
                f"with d = {widest} attention begins at {entropy[SCALED]:.0%} of the largest "
                f"entropy if scores are divided by √d, and at {entropy[PLAIN]:.0%} if not",
                entropy[SCALED] > 0.8 and entropy[PLAIN] < 0.5,
            ),
            Claim(
                "without the division, attention hardly changes with the scores: the trace of the "
                f"softmax's derivative is {moves[PLAIN]:.2f} against {moves[SCALED]:.2f}",
                moves[SCALED] > 5 * moves[PLAIN],
            ),
            Claim(
                "that the gradient of queries and keys is smaller without the division: its norm "
                f"begins at {gradient[PLAIN]:.2g} against {gradient[SCALED]:.2g}, since the small "
                "gradient that passes the softmax is not divided by √d either",
                gradient[SCALED] > gradient[PLAIN],
            ),
            Claim(
                f"with d = {self.trained} the divided scores find {half[SCALED]:.0%} of the values "
                f"after half of the steps, the others {half[PLAIN]:.0%}; after all steps "
                f"{end[SCALED]:.0%} against {end[PLAIN]:.0%}",
                half[SCALED] > half[PLAIN] + 0.05,
            ),
        ]

    panels = Panels("abc;def", (11.5, 6.4), legend="a", columns=2)

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        panels = (
            (axes["a"], self.widths, "start entropy", "entropy, start"),
            (axes["b"], self.widths, "start moves", "change of attention with scores, start"),
            (axes["c"], self.widths, "start gradient", "gradient of queries and keys, start"),
            (axes["d"], self.looks, "entropy", "entropy"),
            (axes["e"], self.looks, "accuracy", "values found"),
            (axes["f"], self.looks, "gradient", "gradient of queries and keys"),
        )
        for axis, across, key, title in panels:
            for number, name in enumerate(SCORES):
                draw_curve(axis, across, seeds.values(name, key), name, number)
            wide = across is self.widths
            label_axes(
                axis,
                title,
                "width d of the head" if wide else "training step",
                UNITS[key.split()[-1]],
            )
            if wide:
                axis.set_xscale("log", base=2)
                axis.set_xticks(self.widths, [*map(str, self.widths)])
            if key.endswith("gradient"):
                axis.set_yscale("log")


UNITS = {
    "entropy": "share of the largest",
    "moves": "derivative of the softmax",
    "gradient": "norm",
    "accuracy": "share right",
}


def attention_of(network: EncoderHead) -> Attention:
    """Return the attention of the network's one layer."""
    return network.encoder.stack.blocks[0].self_attention.part


def look_inside(network: EncoderHead, batch: Batch) -> Numbers:
    """Measure the entropy of attention as a share of the largest; the trace of the softmax's
    derivative, which tells how much weights change with scores; the norm of the gradient of the
    query and key weights; accuracy and loss.
    """
    (weights,) = network.attention_weights(batch[0]).values()
    looked = weights[:, :, -batch[1].shape[1] :]  # the attention of the questions
    loss = recall_loss(network, batch)
    (gradient,) = torch.autograd.grad(loss, attention_of(network).inward.weight)
    return {
        "entropy": float(torch.special.entr(looked).sum(-1).mean() / math.log(looked.shape[-1])),
        "moves": float(1 - looked.square().sum(-1).mean()),
        "gradient": float(gradient[: 2 * network.encoder.stack.width].norm()),
        "accuracy": recall_accuracy(network, batch),
        "loss": loss.item(),
    }
