"""Text in, text out: translation, summaries and answers are one task with three measures.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.codecs.text import Normalize, Signs, Text
from manyheads.config.declare import check, setting
from manyheads.data.layout import Layout
from manyheads.metrics.measured import Measured, Reference
from manyheads.modules.build import Network, encoder_decoder
from manyheads.modules.transformer import EncoderDecoder
from manyheads.tasks.seq2seq.batches import Batch, Batches, Corpus
from manyheads.tasks.seq2seq.kinds import Kind, measures_of
from manyheads.tasks.seq2seq.writing import write
from manyheads.training.oom_retry import in_parts
from manyheads.training.trainer import Sample

SHOWN = 5  # sentences of which every validation leaves a sample
VALIDATED_AT_ONCE = 16384  # tokens


@dataclass(frozen=True)
class Codec:
    """How text becomes numbers."""

    kind: Literal["bpe", "unigram", "word", "character", "byte", "given"] = setting(
        "bpe", "What text is cut into; given: the vocabulary of a model from elsewhere."
    )
    size: int = setting(8000, "Pieces of a vocabulary, at most.", least=1, most=10**7)
    joint: bool = setting(True, "One vocabulary for both sides, or one each.")
    normalize: Normalize = setting(
        "nfkc",
        "Before a text is cut: nfkc writes … as ... and ² as 2, nfc does not; both fold spaces.",
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, eq=False)
class Codecs:
    """The numbers of what is read and of what is written; one object where they are joint."""

    source: Text
    target: Text

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @property
    def signs(self) -> tuple[Signs, Signs]:
        return self.source.signs, self.target.signs


@dataclass(frozen=True, eq=False)
class Texts:
    """A task of this kind with its vocabularies and its network."""

    kind: Kind
    codecs: Codecs
    design: Network
    tokenize: str = "13a"  # how BLEU finds words

    def network(self) -> EncoderDecoder:
        sizes = self.codecs.source.size, self.codecs.target.size
        return encoder_decoder(self.design, *sizes, joint=self.codecs.joint)

    def loss(self, network: EncoderDecoder, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Summed over all tokens that are wanted."""
        scores = network(batch.source, batch.target)  # (B, T, V)
        return F.cross_entropy(
            scores.flatten(0, 1).float(),
            batch.wanted.flatten(),
            label_smoothing=smoothing,
            reduction="sum",
        )

    def measure(
        self, outputs: Sequence[str], references: Sequence[Reference]
    ) -> dict[str, Measured]:
        measures = measures_of(self.kind, self.tokenize)
        return {name: of(outputs, references) for name, of in measures.items()}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a network is judged on: texts to write, and the same pairs as numbers."""

    sources: list[str]
    references: list[list[str]]
    pairs: Corpus


class Learning:
    """The task as a run learns it."""

    def __init__(
        self,
        task: Texts,
        pairs: Corpus,
        held_out: HeldOut,
        layout: Layout,
        tokens: int,
        seed: int,
        capitals: float = 0.0,
    ):
        self.task, self.held_out = task, held_out
        self.plan = Batches(pairs, layout, tokens, seed, capitals)
        self.at_once = VALIDATED_AT_ONCE
        apart = max(1, len(held_out.sources) // SHOWN)
        self.shown = range(0, len(held_out.sources), apart)[:SHOWN]

    def network(self) -> EncoderDecoder:
        return self.task.network()

    def loss(self, network: EncoderDecoder, batch: Batch, smoothing: float) -> Tensor:
        return self.task.loss(network, batch, smoothing)

    def judge(self, network: EncoderDecoder) -> tuple[dict[str, float], list[Sample]]:
        """Written greedily, and the loss of a token without smoothing.

        A run is not lost because all that is held out does not fit into memory at once.
        """
        longest = int(self.held_out.pairs.lengths().max())
        return in_parts(self, lambda: self.judged(network), longest)

    @torch.no_grad()
    def judged(self, network: EncoderDecoder) -> tuple[dict[str, float], list[Sample]]:
        network.eval()
        codecs, held = self.task.codecs, self.held_out
        sources = codecs.source.encode_all(held.sources)
        written = write(network, sources, signs=codecs.signs, tokens=self.at_once)
        outputs = [codecs.target.render(best.ids) for best, *_ in written]
        measured = self.task.measure(outputs, held.references)
        scores = {name: round(one.value, 4) for name, one in measured.items()}
        samples = [Sample(held.sources[i], held.references[i][0], outputs[i]) for i in self.shown]
        return {**scores, "loss": self.lost(network)}, samples

    def lost(self, network: EncoderDecoder) -> float:
        device = next(network.parameters()).device
        valid = Batches(self.held_out.pairs, "padded", self.at_once)
        total, counted = 0.0, 0
        for rows in valid.epoch(0):
            total += self.task.loss(network, valid.batch(rows).to(device)).item()
            counted += valid.count(rows)
        return total / counted
