"""A source with two good translations: a network that writes all words at once mixes them.

Each word of a source has two translations, one in each style, and a target is all in one style:
both styles are right, a mixture is wrong. A network that writes token by token knows which style it
began with. One that samples all places at once does not; several passes, or training on the outputs
of another network (distillation), solve this.

B sentences, T words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.codecs.text import BOS, EOS, SpecialTokens
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.step import CachedStep
from manyheads.decoding.strategies import decode
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, draw_map, label_axes
from manyheads.lab.training import fit, make_batches
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.config import TransformerConfig, change_kind
from manyheads.modules.transformer import EncoderDecoder
from manyheads.tasks.seq2seq.parallel.config import PARALLEL
from manyheads.tasks.seq2seq.parallel.mask_predict import MaskPredictNetwork, rank_in_row

FIRST = 4  # the first word, after the special tokens
AR, RAW, DISTILLED = "token by token", "in parallel", "in parallel, distilled"


@dataclass(frozen=True)
class Multimodality(Experiment):
    """Targets in one of two styles."""

    words: int = 8
    length: int = 6
    passes: tuple[int, ...] = (1, 2, 3, 6)
    width: int = 64
    depth: int = 2
    heads: int = 4
    batch: int = 64
    steps: int = 400
    drawn: int = 256  # texts that each network generates
    shown: int = 12  # texts for one source, in the figure
    learning_rate: float = 3e-3

    quick = choose_settings(
        words=3, length=2, passes=(1, 2), width=16, depth=1, batch=4, steps=4, drawn=4, shown=3
    )
    limits = (
        "There are two styles, equally likely and visible in every word. It is not shown how many "
        "translations a real sentence has, nor how different they are."
    )

    def measure(self, seed: int) -> Numbers:
        learned = make_batches(self.draw_pairs, self.steps, seed)
        torch.manual_seed(seed)
        teacher = build_encoder_decoder(self.config, self.size, self.size, joint=True)
        fit(teacher, self.lose_one_by_one, learned, self.learning_rate)
        taught = [(source, self.write_one_by_one(teacher, source)) for source, _ in learned]
        raw, distilled = (self.fit_parallel(pairs, seed) for pairs in (learned, taught))
        tested, _ = self.draw_pairs(torch.Generator().manual_seed(seed + 1), self.drawn)
        same = tested[:1].expand(self.shown, -1)
        found: Numbers = {AR: self.judge(self.write_one_by_one(teacher, tested, seed), tested)}
        found[f"{AR}, drawn"] = self.find_styles(self.write_one_by_one(teacher, same, seed), same)
        for name, network in ((RAW, raw), (DISTILLED, distilled)):
            torch.manual_seed(seed)
            written = [self.write_in_passes(network, tested, n) for n in self.passes]
            found[name] = [self.judge(one, tested) for one in written]
            once = self.write_in_passes(network, same, 1)
            found[f"{name}, drawn"] = self.find_styles(once, same)
        return found

    # ---- texts ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return FIRST + 3 * self.words

    def draw_pairs(self, generator: torch.Generator, count: int = 0) -> tuple[Tensor, Tensor]:
        """Draw sources and targets, each target in one style: (B, T)"""
        shape = (count or self.batch, self.length)
        source = FIRST + torch.randint(self.words, shape, generator=generator)
        style = torch.randint(2, (shape[0], 1), generator=generator)
        return source, source + self.words * (1 + style)

    def find_styles(self, written: Tensor, source: Tensor) -> list[list[float]]:
        """Return the style of each word: 0 or 1; 0.5 if it is no translation of its source."""
        found = (written - source).float() / self.words - 1
        return torch.where((found == 0) | (found == 1), found, 0.5).tolist()

    def judge(self, written: Tensor, source: Tensor) -> float:
        """Return the share of texts that are a good translation."""
        styles = torch.tensor(self.find_styles(written, source))
        good = [(styles == style).all(1) for style in (0, 1)]
        return float((good[0] | good[1]).float().mean())

    # ---- networks ------------------------------------------------------------------------------

    @property
    def config(self) -> TransformerConfig:
        return TransformerConfig(width=self.width, depth=self.depth, heads=self.heads, dropout=0.0)

    def lose_one_by_one(self, network: EncoderDecoder, batch: tuple[Tensor, Tensor]) -> Tensor:
        source, target = batch
        scores = network(source, F.pad(target, (1, -1), value=BOS))
        return F.cross_entropy(scores.mT, target)

    @torch.no_grad()
    def write_one_by_one(
        self, network: EncoderDecoder, source: Tensor, seed: int | None = None
    ) -> Tensor:
        """Generate greedily, or sample if there is a seed: (B, T)"""
        start = torch.full((len(source), 1), BOS)
        bounds = Bounds(None, longest=self.length)
        how = DecodingConfig() if seed is None else DecodingConfig(temperature=1.0, seed=seed)
        step = CachedStep(network.decoder, network.encode(source))
        return torch.tensor([best.ids for best, *_ in decode(step, start, bounds, how)])

    def fit_parallel(self, pairs: Sequence[tuple[Tensor, Tensor]], seed: int) -> MaskPredictNetwork:
        torch.manual_seed(seed)
        config = change_kind(self.config, "mask-predict", PARALLEL)
        network = MaskPredictNetwork(config, self.size, self.size, True, SpecialTokens())

        def lose(each: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
            source, target = batch
            terms = each(source, F.pad(target, (0, 1), value=EOS))
            return terms["tokens"] / target.numel()

        fit(network, lose, pairs, self.learning_rate)
        return network

    @torch.no_grad()
    def write_in_passes(self, network: MaskPredictNetwork, source: Tensor, passes: int) -> Tensor:
        """Sample every masked word independently; after each pass mask the least likely words
        again, fewer each time: (B, T)"""
        memory, counts = network.encode(source), torch.full((len(source),), self.length)
        ids, logs = torch.full_like(source, network.mask), torch.zeros(source.shape)
        hidden = torch.ones(source.shape, dtype=torch.bool)
        for number in range(1, passes + 1):
            likely = network.score(ids, counts, memory).log_softmax(-1)
            drawn = torch.multinomial(likely.exp().flatten(0, 1), 1).view(source.shape)
            own = likely.gather(2, drawn[..., None])[..., 0]
            ids, logs = torch.where(hidden, drawn, ids), torch.where(hidden, own, logs)
            hidden = rank_in_row(logs) < self.length * (passes - number) // passes
            ids = ids.masked_fill(hidden, network.mask)
        return ids

    # ---- the report ----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        title = "good translations"
        rows = [
            {
                "written": AR,
                "passes": str(self.length),
                title: seeds.spread(AR),
            }
        ]
        for name in (RAW, DISTILLED):
            rows += [
                {
                    "written": name,
                    "passes": str(n),
                    title: seeds.spread(name, i),
                }
                for i, n in enumerate(self.passes)
            ]
        return rows

    def claims(self, seeds: Seeds) -> list[Claim]:
        once, often = (seeds.mean(RAW, i) for i in (0, -1))
        taught, chance = seeds.mean(DISTILLED, 0), 2 ** (1 - self.length)
        return [
            Claim(
                f"sampled all at once, {once:.0%} of texts are in one style (a coin for each word "
                f"would give {chance:.0%}); sampled token by token, {seeds.mean(AR):.0%} are",
                once < 3 * chance and seeds.mean(AR) > 0.9,
            ),
            Claim(
                f"in {self.passes[-1]} passes {often:.0%} are, and in one pass {taught:.0%} if the "
                "network was trained on outputs of the other one",
                often > 0.9 and taught > 0.9,
            ),
        ]

    panels = Panels("labc", (11, 4.2), legend="l", columns=4, widths=(1.6, 1, 1, 1))

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        for number, name in enumerate((RAW, DISTILLED)):
            draw_curve(axes["l"], self.passes, seeds.values(name), name, number)
        axes["l"].axhline(
            seeds.mean(AR), color="#228833", linestyle="--", label=f"{AR}, {self.length}"
        )
        axes["l"].axhline(2 ** (1 - self.length), color="#777777", linestyle=":", label="by chance")
        label_axes(axes["l"], "texts of one style", "passes", "share")
        axes["l"].set_ylim(-0.03, 1.05)
        for panel, name in zip("abc", (AR, RAW, DISTILLED), strict=True):
            drawn = seeds[0][f"{name}, drawn"]
            draw_map(axes[panel], drawn, name, "word", "sample")
