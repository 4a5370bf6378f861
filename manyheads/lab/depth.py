"""Residuals and norms keep gradients alive through many layers: "good for SGD".

How large is the gradient of the first layer at the start, in stacks of 2 to 24 layers, with and
without residuals, with pre-norm, post-norm and no norm? And how well do such stacks learn in a few
steps to predict the word before?

B batch, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, label_axes
from manyheads.lab.training import earlier_loss, fit, mean_of_last, word_batches
from manyheads.modules.build import build_classifier
from manyheads.modules.config import TransformerConfig
from manyheads.modules.heads import EncoderHead
from manyheads.modules.layers import Sublayer


class Arrangement(NamedTuple):
    """The residual connection and the norm around each part of a layer."""

    residual: bool
    norm: Literal["pre", "post", "none"]


ARRANGEMENTS = {
    "residuals, pre-norm": Arrangement(True, "pre"),
    "residuals, post-norm": Arrangement(True, "post"),
    "residuals, no norm": Arrangement(True, "none"),
    "no residuals, pre-norm": Arrangement(False, "pre"),
    "no residuals, post-norm": Arrangement(False, "post"),
    "no residuals, no norm": Arrangement(False, "none"),
}


@dataclass(frozen=True)
class Depth(Experiment):
    """Gradients in stacks of 2 to 24 layers, and their loss after a few steps."""

    depths: tuple[int, ...] = (2, 4, 8, 16, 24)
    trained: tuple[int, ...] = (2, 8, 24)
    words: int = 16
    length: int = 12
    width: int = 32
    heads: int = 2
    batch: int = 16
    steps: int = 100
    learning_rate: float = 3e-3

    quick = choose_settings(depths=(2, 4), trained=(2, 4), steps=3, batch=4)
    limits = (
        "Only few steps at one learning rate. It is not shown that a stack which has not learned "
        "here never would."
    )

    def measure(self, seed: int) -> Numbers:
        return {name: self.measure_stack(name, seed) for name in ARRANGEMENTS}

    def measure_stack(self, name: str, seed: int) -> Numbers:
        shape = (self.batch, self.length)
        *learned, tested = word_batches(shape, self.words, self.steps + 1, seed)
        gradients = [
            layer_gradients(self.build(name, depth, seed), tested) for depth in self.depths
        ]
        losses = [
            fit(each, earlier_loss, learned, self.learning_rate, warmup_part=5)
            for each in (self.build(name, depth, seed) for depth in self.trained)
        ]
        return {
            "gradient": [each[0] for each in gradients],
            "by layer": gradients[-1],
            "loss": [mean_of_last(each) for each in losses],
        }

    def build(self, name: str, depth: int, seed: int) -> EncoderHead:
        residual, norm = ARRANGEMENTS[name]
        config = TransformerConfig(
            width=self.width,
            depth=depth,
            heads=self.heads,
            dropout=0.0,
            residual=residual,
            norm_position="post" if norm == "post" else "pre",
            position="RelativeContent(4)",
        )
        torch.manual_seed(seed)
        network = build_classifier(config, self.words + 1, self.words + 1, pooling=None)
        for part in network.modules() if norm == "none" else ():
            if isinstance(part, Sublayer):
                part.norm = nn.Identity()
        return network

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        return [
            {
                "stack": name,
                **{
                    f"gradient, {self.depths[at]} layers": format_power(
                        seeds.values(name, "gradient", at)
                    )
                    for at in (0, -1)
                },
                **{
                    f"loss, {depth} layers": seeds.spread(name, "loss", i)
                    for i, depth in enumerate(self.trained)
                },
            }
            for name in ARRANGEMENTS
        ]

    def claims(self, seeds: Seeds) -> list[Claim]:
        few, many, loss = (
            {name: seeds.mean(name, key, at) for name in ARRANGEMENTS}
            for key, at in (("gradient", 0), ("gradient", -1), ("loss", -1))
        )
        pre, post, _, *without, bare = ARRANGEMENTS
        shallow, deep = self.depths[0], self.depths[-1]
        best = min(loss[name] for name in (*without, bare))
        return [
            Claim(
                f"the gradient of the first layer in a stack of {deep} layers is "
                f"{many[pre] / few[pre]:.1f} times that in a stack of {shallow} with residuals "
                f"and pre-norm, and {many[bare] / few[bare]:.0e} times with neither",
                0.3 < many[pre] / few[pre] < 3 and many[bare] / few[bare] < 0.01,
            ),
            Claim(
                "norms alone keep gradients large but not useful: without residuals "
                f"{self.trained[-1]} layers learn nothing (best loss {best:.2f}, chance "
                f"{math.log(self.words):.2f}), with residuals they learn ({loss[pre]:.2f})",
                min(many[name] / few[name] for name in without) > 0.3 and loss[pre] < best - 0.5,
            ),
            Claim(
                f"with post-norm, as first published, {self.trained[-1]} layers are harder to "
                f"train than with pre-norm (loss {loss[post]:.2f})",
                loss[post] > loss[pre] + 0.5,
            ),
        ]

    panels = Panels("abc", (12.5, 4.4), legend="c", columns=4)

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        gradients, layers, losses = axes.values()
        for number, name in enumerate(ARRANGEMENTS):
            draw_curve(gradients, self.depths, seeds.values(name, "gradient"), name, number)
            numbers = range(1, self.depths[-1] + 1)
            draw_curve(layers, numbers, seeds.values(name, "by layer"), name, number)
            draw_curve(losses, self.trained, seeds.values(name, "loss"), name, number)
        label_axes(gradients, "gradient of the first layer, start", "layers of the stack", "norm")
        label_axes(layers, f"gradients in {self.depths[-1]} layers, start", "layer", "norm")
        label_axes(losses, f"after {self.steps} steps", "layers of the stack", "nats per word")
        for axis in (gradients, layers):
            axis.set_yscale("log")
        losses.axhline(math.log(self.words), color="#777777", linestyle=":", label="chance")


def layer_gradients(network: EncoderHead, words: Tensor) -> list[float]:
    """Return the norm of the gradient of each layer's matrices."""
    earlier_loss(network, words).backward()
    return [
        float(
            torch.stack(
                [p.grad.norm() for p in block.parameters() if p.dim() > 1 and p.grad is not None]
            ).norm()
        )
        for block in cast(list[nn.Module], network.encoder.stack.blocks)
    ]


def format_power(values: Sequence[float]) -> str:
    """Format the geometric mean: [1e-3, 1e-5] -> "1.0e-04" """
    return f"{float(torch.tensor(values).log().mean().exp()):.1e}"
