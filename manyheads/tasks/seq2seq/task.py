"""Text in, text out: translation, summaries and answers are one task with different metrics.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.decoding.config import DecodingConfig
from manyheads.metrics.bleu import check_tokenizer, fitting_tokenizer
from manyheads.metrics.measured import Measured, Reference
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.losses import sum_losses
from manyheads.modules.transformer import EncoderDecoder
from manyheads.tasks.portable import Portable
from manyheads.tasks.seq2seq import corpus
from manyheads.tasks.seq2seq.batches import PairBatch, PairBatches, PairShards
from manyheads.tasks.seq2seq.corpus import Codecs, PairCorpus, load_codecs, load_pairs
from manyheads.tasks.seq2seq.distillation import find_teacher, teach
from manyheads.tasks.seq2seq.kinds import HeldOut, judge_outputs, metrics_of, read_held_out
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.parallel.checks import compare_batches
from manyheads.tasks.seq2seq.parallel.config import ParallelConfig
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork
from manyheads.tasks.seq2seq.parallel.table import NETWORKS
from manyheads.tasks.seq2seq.settings import PairCodec, PairData, Seq2SeqRecipe
from manyheads.tasks.seq2seq.writing import write_targets
from manyheads.tasks.task import Task, Validation
from manyheads.training.files import CORPUS

FEW = 8  # texts to compare ways to write on, where none are given


class Seq2Seq(Task):
    """A task of this family with its vocabularies."""

    Recipe = Seq2SeqRecipe

    def __init__(self, recipe: Seq2SeqRecipe, codecs: Codecs, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.codecs = codecs

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: Seq2SeqRecipe) -> PairCorpus:
        if recipe.bleu_tokenizer is not None:
            check_tokenizer(recipe.bleu_tokenizer)
        if recipe.data.teacher is not None:
            find_teacher(recipe.data.teacher, recipe.task)
        return corpus.gather(recipe.task, recipe.data, recipe.training.seed)

    @classmethod
    def settle(cls, recipe: Seq2SeqRecipe, gathered: PairCorpus) -> Seq2SeqRecipe:
        """Choose the tokenizer of BLEU by the script of the targets, where none was given."""
        if recipe.data.teacher is not None:
            teacher = find_teacher(recipe.data.teacher, recipe.task)
            recipe = replace(recipe, data=replace(recipe.data, teacher=teacher))
        if recipe.task != "translation" or recipe.bleu_tokenizer is not None:
            return recipe
        chosen = fitting_tokenizer(example.target for example in gathered.valid)
        return replace(recipe, bleu_tokenizer=chosen.tokenizer)

    @classmethod
    def shorten(cls, recipe: Seq2SeqRecipe) -> Seq2SeqRecipe:
        """Drop the teacher: what it would write is about as long as the targets."""
        return replace(recipe, data=replace(recipe.data, teacher=None))

    @classmethod
    def prepare(cls, gathered: PairCorpus, recipe: Seq2SeqRecipe, folder: Path) -> None:
        """Write the corpus into the folder, with the targets of the teacher where there is one."""
        if recipe.data.teacher is not None:
            gathered = teach(gathered, recipe, cls, folder)
        corpus.prepare(gathered, recipe, folder)
        if recipe.task != "translation":
            return
        fits = fitting_tokenizer(example.target for example in gathered.valid)
        if recipe.bleu_tokenizer in (None, fits.tokenizer) and fits.reason:
            with (folder / CORPUS).open("a", encoding="utf-8") as file:
                file.write(f"{fits.reason}; bleu_tokenizer=... would change it\n")

    @classmethod
    def adopt(cls, model: Portable, source: Path, folder: Path) -> Seq2SeqRecipe:
        codec = PairCodec("given", model.codecs[0].size, joint=len(model.codecs) == 1)
        data = PairData(imported=source, longest_tokens=model.context)
        return Seq2SeqRecipe("translation", data, codec, model.design, layout="padded")

    @classmethod
    def open(cls, recipe: Seq2SeqRecipe, folder: Path) -> Self:
        return cls(recipe, load_codecs(folder), folder)

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> EncoderDecoder:
        sizes = self.codecs.source.size, self.codecs.target.size
        if self.recipe.network.kind in NETWORKS:
            build = NETWORKS[self.recipe.network.kind]
            special = self.codecs.special_tokens[1]
            return build(self.recipe.network, *sizes, self.codecs.joint, special)
        return build_encoder_decoder(self.recipe.network, *sizes, joint=self.codecs.joint)

    def batches(self) -> PairBatches:
        recipe, training = self.recipe, self.recipe.training
        tokens, capitals = training.tokens_per_batch, recipe.data.capitals
        pairs = load_pairs(self.held_in(), "train", self.codecs)
        return PairBatches(pairs, recipe.layout, tokens, training.seed, capitals)

    def loss(self, network: EncoderDecoder, batch: PairBatch) -> dict[str, Tensor]:
        """Return the loss, smoothed in training; a parallel network has loss terms of its own."""
        if isinstance(self.recipe.network, ParallelConfig):
            terms: dict[str, Tensor] = network(batch.source, batch.wanted, self.smoothing(network))
            return terms
        scores = network(batch.source, batch.target)  # (B, T, V)
        return {"loss": sum_losses(scores, batch.wanted, self.smoothing(network))}

    def model(self, network: EncoderDecoder, name: str = "") -> Translator:
        return Translator(self, network, name)

    def decode(
        self,
        network: EncoderDecoder,
        sources: Sequence[str],
        how: DecodingConfig = DecodingConfig(),
    ) -> list[str]:
        read = self.codecs.source.encode_all(list(sources))
        written = write_targets(
            network,
            read,
            how,
            special=self.codecs.special_tokens,
            tokens=self.at_once,
            spread=self.world.map,
        )
        return [self.codecs.target.render(best.ids) for best, *_ in written]

    def measure(
        self, outputs: Sequence[str], references: Sequence[Reference]
    ) -> dict[str, Measured]:
        measures = metrics_of(self.kind, self.tokenize)
        return {name: of(outputs, references) for name, of in measures.items()}

    def compare_ways(
        self, network: EncoderDecoder, lines: Sequence[str]
    ) -> Iterator[tuple[str, float]]:
        """Compare batches of a parallel network, on these texts or on some for validation."""
        if isinstance(network, ParallelNetwork):
            texts = list(lines or self.held_out[0][:FEW])
            read = self.codecs.source.encode_all(texts)
            yield from compare_batches(network, read, self.codecs.special_tokens[0])

    # ---- validation ----------------------------------------------------------------------------

    @cached_property
    def held_out(self) -> HeldOut:
        return read_held_out(self.held_in())

    @cached_property
    def tokenize(self) -> str:
        """The tokenizer of BLEU."""
        chosen = self.recipe.bleu_tokenizer
        if chosen is None:
            chosen = fitting_tokenizer(wanted[0] for wanted in self.held_out[1]).tokenizer
        check_tokenizer(chosen)
        return chosen

    def validate(self, network: EncoderDecoder) -> Validation:
        """Decode the validation set greedily; measure the loss per token without smoothing.

        Batches are made smaller where they do not fit into memory, so that a run is not lost.
        """
        pairs = load_pairs(self.held_in(), "valid", self.codecs)
        longest = int(pairs.lengths().max())
        return self.halve_until_it_fits(lambda: self.judge_network(network.eval(), pairs), longest)

    @torch.no_grad()
    def judge_network(self, network: EncoderDecoder, pairs: PairShards) -> Validation:
        quick = network.validating if isinstance(network, ParallelNetwork) else DecodingConfig()
        outputs = self.decode(network, self.held_out[0], quick)
        batches = PairBatches(pairs, "padded", self.at_once)
        batches.weights = batches.weights * self.find_writable(pairs)
        loss = self.mean_loss(network, batches)
        metrics = metrics_of(self.kind, self.tokenize)
        return judge_outputs(metrics, outputs, self.held_out, loss)

    def find_writable(self, pairs: PairShards) -> NDArray[np.bool_]:
        """Return which pairs have a loss, (N): those that a parallel network can write at all."""
        kind, every = self.recipe.network, range(len(pairs))
        if not isinstance(kind, ParallelConfig):
            return np.ones(len(pairs), bool)
        return np.array(
            [not corpus.refuse_ids(kind, pairs.source[i], pairs.target[i]) for i in every]
        )
