"""One state cannot hold a long sentence; with attention it need not.

Three recurrent networks translate: the decoder of the first gets only the last states of the
encoder, the second gets their mean, the third attends to all of them. The language is made up:
every word has one translation, and some swap places with the next, as adjectives do.

B batch, T tokens, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.places import line
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep
from manyheads.lab.experiment import Claim, Experiment, Numbers, Seeds, choose_settings
from manyheads.lab.figures import Panels, draw_curve, label_axes
from manyheads.lab.training import Batch, fit, make_batches, random_words
from manyheads.metrics.bleu import bleu
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.config import RecurrentConfig
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import EncoderDecoder

LAST, MEAN, ATTENTION = "last state alone", "mean of all states", "attention"
KINDS = (LAST, MEAN, ATTENTION)
END = 0  # the start and end token


class LastState(EncoderDecoder):
    """The memory is one state: the last forward and the last backward state of the encoder."""

    def encode(self, source: Any, lengths: Any = None) -> Memory:
        states = super().encode(source, lengths).states  # (B, T, D), half of D for each direction
        forwards, backwards = states.chunk(2, -1)
        last = torch.cat([forwards[:, -1:], backwards[:, :1]], -1)
        return Memory(last, line(1))


@dataclass(frozen=True)
class Bottleneck(Experiment):
    """Translate short and long sentences of a made-up language."""

    words: int = 40
    lengths: tuple[int, ...] = (4, 8, 12, 16, 20, 24)
    width: int = 96
    batch: int = 64
    steps: int = 600
    sentences: int = 64  # test sentences of each length
    learning_rate: float = 4e-3

    quick = choose_settings(lengths=(4, 8), width=16, batch=8, steps=5, sentences=4)
    limits = (
        "The language is made up and has no ambiguity, and all networks have one size. It is not "
        "shown how long a sentence a wider state can hold."
    )

    def measure(self, seed: int) -> Numbers:
        return {kind: self.measure_kind(kind, seed) for kind in KINDS}

    def measure_kind(self, kind: str, seed: int) -> Numbers:
        config = RecurrentConfig(
            width=self.width,
            depth=1,
            score="multiplicative" if kind == ATTENTION else "none",
            dropout=0.0,
        )
        torch.manual_seed(seed)
        network = build_encoder_decoder(config, self.words + 1, self.words + 1, joint=False)
        if kind == LAST:
            network = LastState(network.encoder, network.decoder)
        learned = make_batches(self.draw_pairs, self.steps, seed)
        fit(network, translation_loss, learned, self.learning_rate)
        generator = torch.Generator().manual_seed(seed + 1000)
        return {
            "bleu": [
                translation_bleu(network, self.pairs_of(self.sentences, length, generator))
                for length in self.lengths
            ]
        }

    def draw_pairs(self, generator: torch.Generator) -> Batch:
        """Draw sentences of one random length, up to the longest."""
        length = int(torch.randint(2, self.lengths[-1] + 1, (), generator=generator))
        return self.pairs_of(self.batch, length, generator)

    def pairs_of(self, count: int, length: int, generator: torch.Generator) -> Batch:
        source = random_words(count, length, self.words, generator)
        return source, translate(source, self.words)

    # ---- the report -----------------------------------------------------------------------------

    def rows(self, seeds: Seeds) -> list[dict[str, str]]:
        return [
            {
                "the decoder sees": kind,
                **{
                    f"BLEU, {length} words": seeds.spread(kind, "bleu", i, digits=1)
                    for i, length in enumerate(self.lengths)
                },
            }
            for kind in KINDS
        ]

    def claims(self, seeds: Seeds) -> list[Claim]:
        short, long = ({kind: seeds.mean(kind, "bleu", at) for kind in KINDS} for at in (0, -1))
        first, last = self.lengths[0], self.lengths[-1]
        return [
            Claim(
                f"from {first} to {last} words BLEU falls from {short[LAST]:.0f} to "
                f"{long[LAST]:.0f} with the last state alone, from {short[MEAN]:.0f} to "
                f"{long[MEAN]:.0f} with the mean, from {short[ATTENTION]:.0f} to "
                f"{long[ATTENTION]:.0f} with attention",
                long[ATTENTION] > 0.5 * short[ATTENTION] and max(long[LAST], long[MEAN]) < 20,
            )
        ]

    panels = Panels("a", (7, 4.2), legend="a", columns=3)

    def draw(self, axes: dict[str, Any], seeds: Seeds) -> None:
        axis = axes["a"]
        for number, kind in enumerate(KINDS):
            draw_curve(axis, self.lengths, seeds.values(kind, "bleu"), kind, number)
        label_axes(axis, "what the decoder sees of the source", "words of a sentence", "BLEU")
        axis.set_ylim(0, 102)


def translate(source: Tensor, words: int) -> Tensor:
    """Replace each word by its translation; a word of the first third swaps places with the word
    after it.
    """
    target = source.clone()
    for place in range(source.shape[1] - 1):
        first, second = target[:, place].clone(), target[:, place + 1].clone()
        swaps = source[:, place] <= words // 3
        target[:, place] = torch.where(swaps, second, first)
        target[:, place + 1] = torch.where(swaps, first, second)
    return words + 1 - target


def translation_loss(network: EncoderDecoder, pair: Batch) -> Tensor:
    source, target = pair
    scores = network(source, F.pad(target, (1, 0), value=END))
    return F.cross_entropy(scores.flatten(0, 1), F.pad(target, (0, 1), value=END).flatten())


def translation_bleu(network: EncoderDecoder, pair: Batch) -> float:
    """Return the BLEU of greedy decoding."""
    source, target = pair
    with torch.no_grad():
        step = CachedStep(network.decoder, network.encode(source))
    start = torch.full((len(source), 1), END)
    written = greedy(step, start, Bounds(END, longest=2 * target.shape[1]))
    outputs, references = (
        [" ".join(map(str, ids)) for ids in texts]
        for texts in ([one.ids for one in written], target.tolist())
    )
    return bleu(outputs, references, tokenize="none").value
