"""Attention is a layer whose weights depend on the data.

A linear layer over places and a convolution mix tokens, too, but with weights that are the same
for every input. Given a list of entries, each a name with a value, a question asks for the value of
one name: its place differs from list to list. Which kind of layer finds it?

B batch, T tokens, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.kernels import Plan
from manyheads.attention.layer import Attention
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, draw_map, label_axes
from manyheads.lab.training import Batch, fit, make_batches
from manyheads.modules.build import build_classifier
from manyheads.modules.config import ConvolutionalConfig, TransformerConfig
from manyheads.modules.heads import EncoderHead
from manyheads.modules.stack import Block
from manyheads.training.weights import count_parameters

ATTENTION, LINEAR, CONVOLUTION = "attention", "linear layer", "convolution"
KINDS = (ATTENTION, LINEAR, CONVOLUTION)


class FixedWeights(Attention):
    """Attention with a learned weight for each pair of places, independent of the input."""

    def __init__(self, width: int, length: int):
        super().__init__(width, heads=1)
        self.places = nn.Linear(length, length)

    def forward(self, x: Tensor, plan: Plan, *others: Any, **named: Any) -> Tensor:
        value = self.inward(x, slice(2 * self.width, None))  # (B, T, D)
        return self.out(self.places(value.mT).mT)


@dataclass(frozen=True)
class Recall(Experiment):
    """The task: a list of entries, each a name with a value, and questions for values by name."""

    entries: int = 16
    names: int = 24
    values: int = 8
    questions: int = 8
    batch: int = 64
    steps: int = 300
    every: int = 10

    def draw_lists(self, generator: torch.Generator) -> Batch:
        """Draw lists with their questions (B, T), where an entry is one token, and the answers
        (B, questions).
        """
        order = torch.rand(self.batch, self.names, generator=generator).argsort(1)
        order = order[:, : self.entries]
        value = torch.randint(self.values, order.shape, generator=generator)
        asked = torch.randint(self.entries, (self.batch, self.questions), generator=generator)
        named = self.names * self.values + order.gather(1, asked)
        return torch.cat([order * self.values + value, named], 1), value.gather(1, asked)

    @property
    def looks(self) -> list[int]:
        """The steps at which accuracy is measured."""
        return [*range(0, self.steps, self.every), self.steps]


@dataclass(frozen=True)
class Weights(Recall):
    """Look up entries of a list with attention, a linear layer and a convolution."""

    width: int = 64
    depth: int = 1
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16)  # so that a question sees every entry
    steps: int = 400
    every: int = 20
    learning_rate: float = 3e-3

    quick = choose_settings(entries=4, names=6, questions=2, width=16, batch=8, steps=6, every=2)
    limits = "It is not shown that a much wider or deeper network with fixed weights cannot do it."

    def measure(self, seed: int) -> Numbers:
        return {kind: self.measure_kind(kind, seed) for kind in KINDS}

    def measure_kind(self, kind: str, seed: int) -> Numbers:
        torch.manual_seed(seed)
        network = self.build(kind)
        *learned, tested = make_batches(self.draw_lists, self.steps + 1, seed)
        accuracies: list[float] = []

        def look() -> None:
            accuracies.append(recall_accuracy(network, tested))

        fit(network, recall_loss, learned, self.learning_rate, every=self.every, look=look)
        found: Numbers = {"accuracy": accuracies, "parameters": count_parameters(network)}
        return found if kind == CONVOLUTION else {**found, "maps": self.read_maps(network, tested)}

    def build(self, kind: str) -> EncoderHead:
        """Build networks that differ only in the layer that mixes tokens."""
        vocabulary = self.names * (self.values + 1)
        config: Any = TransformerConfig(width=self.width, depth=self.depth, heads=1, dropout=0.0)
        if kind == CONVOLUTION:
            config = ConvolutionalConfig(
                width=self.width,
                depth=len(self.dilations),
                dilations=self.dilations,
                dropout=0.0,
            )
        network = build_classifier(config, vocabulary, self.values, pooling=None)
        if kind == LINEAR:
            for block in cast(list[Block], network.encoder.stack.blocks):
                length = self.entries + self.questions
                block.self_attention.part = FixedWeights(self.width, length)
        return network

    def read_maps(self, network: EncoderHead, tested: Batch) -> list[list[list[float]]]:
        """Return the weights from questions to entries in the last layer, for two lists."""
        part = network.encoder.stack.blocks[-1].self_attention.part
        if isinstance(part, FixedWeights):
            both = part.places.weight.detach().abs().expand(2, -1, -1)
        else:
            both = [*network.attention_weights(tested[0][:2]).values()][-1][:, 0]
        shown = both[:, self.entries :, : self.entries]
        return (shown / shown.amax((1, 2), keepdim=True)).tolist()

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        return [
            {
                "layer that mixes tokens": kind,
                f"right (chance {1 / self.values:.2f})": seeds.spread(kind, "accuracy", -1),
                "parameters": f"{seeds[0][kind]['parameters']:,}",
            }
            for kind in KINDS
        ]

    def claims(self, seeds: Seeds) -> list[Claim]:
        best = {kind: seeds.mean(kind, "accuracy", -1) for kind in KINDS}
        return [
            Claim(
                f"attention finds {best[ATTENTION]:.0%} of the values, a linear layer "
                f"{best[LINEAR]:.0%}, a convolution that sees every entry {best[CONVOLUTION]:.0%}",
                best[ATTENTION] > 0.9 > 0.5 > max(best[LINEAR], best[CONVOLUTION]),
            )
        ]

    panels = Panels("lab;lcd", (11.5, 4.6), legend="l", columns=4, widths=(1.6, 1, 1))

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        left = axes["l"]
        for number, kind in enumerate(KINDS):
            draw_curve(left, self.looks, seeds.values(kind, "accuracy"), kind, number)
        left.axhline(1 / self.values, color="#777777", linestyle=":", label="chance")
        label_axes(left, "values found", "training step", "share right")
        shown = [(kind, number) for kind in (ATTENTION, LINEAR) for number in range(2)]
        for panel, (kind, number) in zip("abcd", shown, strict=True):
            values = seeds[0][kind]["maps"][number]
            draw_map(axes[panel], values, f"{kind}, list {number + 1}", "entry", "question")


def recall_loss(network: nn.Module, batch: Batch) -> Tensor:
    ids, values = batch
    scores = network(ids)[:, -values.shape[1] :]
    return F.cross_entropy(scores.flatten(0, 1), values.flatten())


@torch.no_grad()
def recall_accuracy(network: nn.Module, batch: Batch) -> float:
    ids, values = batch
    return float((network(ids)[:, -values.shape[1] :].argmax(-1) == values).float().mean())
