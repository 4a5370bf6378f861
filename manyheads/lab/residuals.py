"""Residual connections carry the position of a token up the stack.

Positions are added once, below the first layer. A network copies a sentence, so that each target
word belongs to one source word: its cross-attention should be a diagonal. Do higher layers still
know the position of a token without residual connections?

B batch, H heads, T tokens, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.places import line
from manyheads.attention.positions import Sinusoidal
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, draw_map, label_axes
from manyheads.lab.training import fit, mean_of_last, word_batches
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.modules.stack import Stack
from manyheads.modules.transformer import EncoderDecoder


class Case(NamedTuple):
    """A network of the experiment."""

    residual: bool
    position: str | None = "Sinusoidal()"
    every_layer: bool = False  # positions are added again before each layer


WITH, WITHOUT = "with residuals", "without"
TIMED, CONTROL = "without, timing in every layer", "control: residuals, no positions"
CASES = {
    WITH: Case(residual=True),
    WITHOUT: Case(residual=False),
    TIMED: Case(residual=False, every_layer=True),
    CONTROL: Case(residual=True, position=None),
}
PROBED = 3  # the layer in the table


@dataclass(frozen=True)
class Residuals(Experiment):
    """Copy a sentence, with and without residual connections."""

    length: int = 15
    words: int = 8
    width: int = 64
    depth: int = 3
    heads: int = 4
    near: int = 1  # the largest distance to the diagonal that counts as near
    batch: int = 32
    steps: int = 400
    tried: int = 256  # sentences to fit the probe, and as many to test it
    learning_rate: float = 2e-3

    quick = choose_settings(length=8, width=16, batch=8, steps=5, heads=2, tried=16)
    limits = "This is one small network and one task; others are not shown."

    def measure(self, seed: int) -> Numbers:
        return {name: self.measure_case(case, seed) for name, case in CASES.items()}

    def measure_case(self, case: Case, seed: int) -> Numbers:
        learned = word_batches((self.batch, self.length), self.words, self.steps, seed)
        probed, tested = word_batches((self.tried, self.length), self.words, 2, seed + 1000)
        torch.manual_seed(seed)
        network = self.build(case)
        losses = fit(network, copying_loss, learned, self.learning_rate)
        maps = cross_attention(network, tested)  # of each layer (T, T)
        masses = [float((each * self.near_diagonal()).sum() / self.length) for each in maps]
        best = max(range(self.depth), key=masses.__getitem__)
        states = zip(encoder_states(network, probed), encoder_states(network, tested), strict=True)
        return {
            "loss": mean_of_last(losses),
            "probe": [probe_places(before, after) for before, after in states],
            "mass_by_layer": masses,
            "mass": masses[best],
            "map": maps[best].tolist(),
        }

    def build(self, case: Case) -> EncoderDecoder:
        config = TransformerConfig(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            dropout=0.0,
            residual=case.residual,
            position=case.position,
            norm_position="post",  # as first published
        )
        network = build_encoder_decoder(config, self.words + 1, self.words + 1, joint=True)
        if case.every_layer:
            add_timing(network.encoder.stack)
            add_timing(network.decoder.stack)
        return network

    def near_diagonal(self) -> Tensor:
        """(T, T)"""
        place = torch.arange(self.length)
        return (place[:, None] - place).abs() <= self.near

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        uniform = float(self.near_diagonal().float().mean())
        return [
            {
                "network": case,
                f"position read from layer {PROBED}": seeds.spread(case, "probe", PROBED),
                f"mass near the diagonal (uniform {uniform:.2f})": seeds.spread(case, "mass"),
                "loss per word": seeds.spread(case, "loss"),
            }
            for case in CASES
        ]

    def claims(self, seeds: Seeds) -> list[Claim]:
        probe = {case: seeds.mean(case, "probe", PROBED) for case in CASES}
        mass, loss = ({case: seeds.mean(case, key) for case in CASES} for key in ("mass", "loss"))
        lost, kept = loss[WITHOUT] - loss[WITH], loss[CONTROL] - loss[WITH]
        return [
            Claim(
                f"a probe of layer {PROBED} finds the position of {probe[WITH]:.0%} of the tokens "
                f"with residuals and of {probe[WITHOUT]:.0%} without, no more than in the control, "
                f"which gets no positions ({probe[CONTROL]:.0%})",
                probe[WITH] >= 0.5 and probe[WITHOUT] <= probe[CONTROL] + 0.05,
            ),
            Claim(
                f"{mass[WITH]:.0%} of cross-attention lies near the diagonal with residuals and "
                f"{mass[WITHOUT]:.0%} without",
                mass[WITH] >= 0.45 and mass[WITHOUT] <= 0.22,
            ),
            Claim(
                "lost positions do not explain all of the loss: without residuals it is "
                f"{lost:.2f} nats per word higher; in the control, which has residuals but no "
                f"positions, {kept:.2f} higher; the other {lost - kept:.2f} come from training, "
                "which is harder without residuals",
                lost > kept,
            ),
            Claim(
                "timing (positions added again in every layer) lowers the loss without residuals "
                f"by {loss[WITHOUT] - loss[TIMED]:.2f} nats",
                loss[TIMED] < loss[WITHOUT] - 0.1,
            ),
            Claim(
                f"that this brings the diagonal back: {mass[TIMED]:.0%} of attention lies near it, "
                f"and a probe of layer {PROBED} finds {probe[TIMED]:.0%} of the positions",
                mass[TIMED] >= 0.45,
            ),
        ]

    panels = Panels("abcd;llrr", (11.5, 6.4), legend="l", columns=4)

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        left, right = axes["l"], axes["r"]
        for panel, case in zip("abcd", CASES, strict=True):
            draw_map(axes[panel], seeds[0][case]["map"], case, "source", "target", most=0.5)
        for number, case in enumerate(CASES):
            draw_curve(left, range(self.depth + 1), seeds.values(case, "probe"), case, number)
            layers = range(1, self.depth + 1)
            draw_curve(right, layers, seeds.values(case, "mass_by_layer"), case, number)
        label_axes(left, "position read from the encoder", "layer", "share right")
        label_axes(right, "cross-attention near the diagonal", "layer", "mass")


def add_timing(stack: Stack) -> None:
    """Add the sinusoids again before every layer but the first, which has them."""
    waves = Sinusoidal()
    for block in list(stack.blocks)[1:]:
        block.register_forward_pre_hook(
            lambda block, given: (waves(given[0], line(given[0].shape[1])), *given[1:])
        )


def copying_loss(network: EncoderDecoder, words: Tensor) -> Tensor:
    """The loss of copying the source; the target begins with the start token 0."""
    return F.cross_entropy(network(words, F.pad(words, (1, -1))).flatten(0, 1), words.flatten())


def cross_attention(network: EncoderDecoder, words: Tensor) -> list[Tensor]:
    """Return the cross-attention of each layer (T, T), averaged over heads and sentences."""
    seen = network.attention_weights(words, F.pad(words, (1, -1)))
    return [weights.mean((0, 1)) for layer, weights in seen.items() if "cross" in layer]


@torch.no_grad()
def encoder_states(network: EncoderDecoder, words: Tensor) -> list[Tensor]:
    """Return the input of the first layer and the output of each, (B, T, D)."""
    states: list[Tensor] = []
    blocks = list(network.encoder.stack.blocks)
    hooks = [blocks[0].register_forward_pre_hook(lambda block, given: states.append(given[0]))]
    hooks += [
        block.register_forward_hook(lambda block, given, out: states.append(out))
        for block in blocks
    ]
    network.encode(words)
    for hook in hooks:
        hook.remove()
    return states


def probe_places(learned: Tensor, tested: Tensor) -> float:
    """Fit a linear probe of positions to states (B, T, D); return its accuracy on `tested`."""
    length = learned.shape[1]
    scale = learned.flatten(0, 1).std(0) + 1e-6
    first, second = (
        F.pad(each.flatten(0, 1) / scale, (0, 1), value=1.0) for each in (learned, tested)
    )
    places = torch.eye(length).repeat(len(learned), 1)
    ridge = 1e-2 * len(first) * torch.eye(first.shape[1])
    weights = torch.linalg.solve(first.T @ first + ridge, first.T @ places)
    right = (second @ weights).argmax(1) == torch.arange(length).repeat(len(tested))
    return float(right.float().mean())
