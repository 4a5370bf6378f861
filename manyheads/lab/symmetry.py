"""Global attention sees that an image is symmetric; local attention sees only near pixels.

The right half of each image mirrors its left half. Networks generate such images pixel by pixel,
row by row: one sees all pixels before, others see pixels up to 2 or 6 rows and columns away. To
predict a pixel at the right edge, a network must see the left edge.

B images, T pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.patterns import Causal, Pattern, Window
from manyheads.attention.places import grid
from manyheads.attention.positions import Learned
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.step import CachedStep
from manyheads.decoding.strategies import decode
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, draw_map, label_axes
from manyheads.lab.training import fit, make_batches
from manyheads.modules.config import TransformerConfig
from manyheads.modules.stack import Stack
from manyheads.modules.transformer import Decoder, Embedding, Tokens

NEAR, FAR, GLOBAL = "local, 2 pixels", "local, 6 pixels", "global"
PATTERNS: dict[str, Pattern] = {
    NEAR: Causal() & Window(2),
    FAR: Causal() & Window(6),
    GLOBAL: Causal(),
}


@dataclass(frozen=True)
class Symmetry(Experiment):
    """Generate images whose right half mirrors the left half."""

    rows_of_image: int = 6
    columns: int = 12
    levels: int = 4  # of grey
    width: int = 64
    depth: int = 1
    heads: int = 4
    batch: int = 24
    steps: int = 300
    drawn: int = 32  # images that each network generates
    learning_rate: float = 3e-3

    quick = choose_settings(rows_of_image=3, columns=6, width=16, batch=4, steps=4, drawn=4)
    limits = (
        "The images are random pixels with an exact mirror. It is not shown how symmetric "
        "photographs are, nor whether deeper stacks of local attention can pass the information on."
    )

    def measure(self, seed: int) -> Numbers:
        return {name: self.measure_pattern(pattern, seed) for name, pattern in PATTERNS.items()}

    def measure_pattern(self, pattern: Pattern, seed: int) -> Numbers:
        *learned, tested = make_batches(self.draw_images, self.steps + 1, seed)
        torch.manual_seed(seed)
        network = self.build(pattern)
        fit(network, lambda net, images: self.bits(net, images).mean(), learned, self.learning_rate)
        with torch.no_grad():
            bits = self.bits(network, tested).unflatten(1, (self.rows_of_image, -1)).mean((0, 1))
        images = self.write(network, seed).unflatten(1, (self.rows_of_image, -1))
        half = self.columns // 2
        return {
            "bits": bits.tolist(),  # of each column
            "right": float(bits[half:].mean()),
            "mirrored": float((images[..., half:].flip(-1) == images[..., :half]).float().mean()),
            "image": images[0].tolist(),
        }

    def draw_images(self, generator: torch.Generator) -> Tensor:
        """(B, T), row by row."""
        shape = (self.batch, self.rows_of_image, self.columns // 2)
        left = torch.randint(self.levels, shape, generator=generator)
        return torch.cat([left, left.flip(-1)], -1).flatten(1)

    def build(self, pattern: Pattern) -> Decoder:
        """Build a decoder that reads the previous pixel and the row and column of the next one."""
        config = TransformerConfig(
            width=self.width, depth=self.depth, heads=self.heads, dropout=0.0
        )
        place = Learned(self.width, self.rows_of_image, self.columns)
        stack = Stack.of(config, pattern, position=place)
        embedding = Embedding(self.levels + 1, self.width, scaled=False)
        return Decoder(embedding, stack, nn.Linear(self.width, self.levels))

    def bits(self, network: Decoder, images: Tensor) -> Tensor:
        """Return the bits of each pixel, (B, T); a start token comes before the first."""
        before = F.pad(images, (1, -1), value=self.levels)
        scores = network(Tokens(before, grid(self.rows_of_image, self.columns)))
        return F.cross_entropy(scores.mT, images, reduction="none") / torch.tensor(2.0).log()

    def write(self, network: Decoder, seed: int) -> Tensor:
        """Sample images, (B, T)."""
        step = CachedStep(network, places=grid(self.rows_of_image, self.columns))
        start = torch.full((self.drawn, 1), self.levels)
        bounds = Bounds(None, longest=self.rows_of_image * self.columns)
        found = decode(step, start, bounds, DecodingConfig(temperature=1.0, seed=seed))
        return torch.tensor([best.ids for best, *_ in found])

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        edge = f"bits at the right edge (chance {torch.tensor(self.levels).log2():.0f})"
        return [
            {
                "attention": name,
                "bits per pixel, right half": seeds.spread(name, "right"),
                edge: seeds.spread(name, "bits", -1),
                "generated pixels that mirror": seeds.spread(name, "mirrored"),
            }
            for name in PATTERNS
        ]

    def claims(self, seeds: Seeds) -> list[Claim]:
        edge, mirrored = (
            {name: seeds.mean(name, *keys) for name in PATTERNS}
            for keys in (("bits", -1), ("mirrored",))
        )
        return [
            Claim(
                f"a pixel at the right edge costs {edge[GLOBAL]:.2f} bits with global attention, "
                f"{edge[FAR]:.2f} with a window of 6 pixels, {edge[NEAR]:.2f} with a window of 2",
                edge[GLOBAL] < 0.5 and min(edge[FAR], edge[NEAR]) > 1,
            ),
            Claim(
                f"{mirrored[GLOBAL]:.0%} of the generated pixels mirror the left half with global "
                f"attention, {mirrored[FAR]:.0%} and {mirrored[NEAR]:.0%} with windows of 6 and 2 "
                f"(chance {1 / self.levels:.0%})",
                mirrored[GLOBAL] > 0.9 > 0.85 > mirrored[FAR] > mirrored[NEAR],
            ),
        ]

    panels = Panels("la;lb;lc", (9.5, 4.8), legend="l", columns=4, widths=(1.5, 1))

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        places = range(1, self.columns + 1)
        for number, (panel, name) in enumerate(zip("abc", PATTERNS, strict=True)):
            draw_curve(axes["l"], places, seeds.values(name, "bits"), name, number)
            image = seeds[0][name]["image"]
            draw_map(axes[panel], image, f"output, {name}", "column", "row", most=self.levels - 1)
            axes[panel].axvline(self.columns / 2 - 0.5, color="#ee6677", linewidth=1)
        axes["l"].axvline(
            self.columns / 2 + 0.5, color="#777777", linestyle=":", label="the mirror"
        )
        label_axes(axes["l"], "bits per pixel", "column", "bits")
