"""The classification task: classes, numbers and tags are one task with three losses.

B rows, T tokens, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.codecs.text import Text
from manyheads.data.batches import map_by_length
from manyheads.data.labelled import Tagged, as_lines, describe_columns
from manyheads.devices import use_threads_for
from manyheads.modules.build import build_classifier
from manyheads.modules.heads import EncoderHead
from manyheads.modules.losses import sum_losses
from manyheads.tasks.classification import corpus
from manyheads.tasks.classification.batches import LabelledBatch, LabelledBatches
from manyheads.tasks.classification.corpus import (
    LabelledCorpus,
    LabelledShard,
    encode_labels,
    read_examples,
    write_labelled,
)
from manyheads.tasks.classification.frames import Frame, Framer, Readable
from manyheads.tasks.classification.labels import LABELS, LabelledExample, Labels
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.predictions import AnyPrediction, measure, predict
from manyheads.tasks.classification.settings import ClassificationRecipe, LabelKind, LabelledData
from manyheads.tasks.language.settings import TextCodec
from manyheads.tasks.portable import Portable
from manyheads.tasks.task import Sample, Validation, pick_evenly
from manyheads.tasks.vocabulary import TOKENIZER, CodecTask, choose_codec
from manyheads.training.files import CORPUS, write_text


class ClassificationTask(CodecTask):
    """The classification task with its tokenizer and labels."""

    Recipe = ClassificationRecipe

    def __init__(
        self,
        recipe: ClassificationRecipe,
        codec: Text,
        labels: Labels,
        folder: Path | None = None,
    ):
        super().__init__(recipe, codec, folder)
        self.labels = labels
        self.framer = Framer(recipe.task, codec, self.room, recipe.network.token_types)

    @property
    def room(self) -> int:
        """Maximum number of tokens of a text, special tokens included; the rest is cut."""
        longest = self.recipe.data.longest_tokens
        return min(longest, self.recipe.network.places or longest)

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: ClassificationRecipe) -> LabelledCorpus:
        return corpus.gather(recipe)

    @classmethod
    def prepare(cls, gathered: LabelledCorpus, recipe: ClassificationRecipe, folder: Path) -> None:
        numbers, source = folder / "data", gathered.source
        numbers.mkdir(exist_ok=True)
        choose_codec(recipe, gathered.lines()).save(folder / TOKENIZER)
        Labels.of(recipe.task, gathered.train, source).save(folder / LABELS)
        corpus.write_guess(folder, gathered.guess)
        task = cls.open(recipe, folder)
        cut = write_labelled(numbers / "train", gathered.train, source, task.framer, task.labels)
        encode_labels(recipe.task, task.labels, gathered.valid, gathered.valid_source)  # may raise
        write_text(numbers / "valid.jsonl", "".join(f"{o}\n" for o in as_lines(gathered.valid)))
        took = "" if recipe.task == "labelling" else describe_columns(source, recipe.data.columns)
        told = f"{gathered}{took and f'; {took}'}\n"
        if cut:
            told += f"  {cut:,} longer than {task.room} tokens: their ends are not read\n"
        write_text(folder / CORPUS, told)

    @classmethod
    def adopt(cls, model: Portable, source: Path, folder: Path) -> ClassificationRecipe:
        Labels(model.labels).save(folder / LABELS)
        data = LabelledData(imported=source, longest_tokens=model.context)
        codec, kind = TextCodec("given", model.codecs[0].size), cast(LabelKind, model.kind)
        return ClassificationRecipe(kind, data, codec, model.design, model.pooling or "mean")

    @classmethod
    def open(cls, recipe: ClassificationRecipe, folder: Path) -> Self:
        codec, labels = Text.load(folder / TOKENIZER), Labels.load(folder / LABELS)
        return cls(recipe, codec, labels, folder)

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> EncoderHead:
        outcomes = 1 if self.kind == "regression" else len(self.labels.names)
        pooling = None if self.kind == "labelling" else self.recipe.pooling
        return build_classifier(self.recipe.network, self.codec.size, outcomes, pooling)

    def batches(self) -> LabelledBatches:
        held, training = LabelledShard.load(self.held_in() / "data" / "train"), self.recipe.training
        return LabelledBatches(self.framer, held, training.tokens_per_batch, training.seed)

    def loss(self, network: Any, batch: LabelledBatch) -> dict[str, Tensor]:
        """Return the summed loss of texts or of tagged words, with label smoothing in training."""
        return {"loss": self.loss_of(network(batch.tokens), batch.wanted, self.smoothing(network))}

    def loss_of(self, logits: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """Return the summed loss of logits (..., C) for labels (...); squared error for numbers."""
        if self.kind != "regression":
            return sum_losses(logits, wanted, smoothing)
        said = logits[..., 0].float()
        return F.mse_loss(said, torch.where(wanted.isnan(), said, wanted), reduction="sum")

    def model(self, network: Any, name: str = "") -> Classifier:
        return Classifier(self, network, name)

    def decode(
        self,
        network: Any,
        texts: Sequence[Readable],
        progress: Callable[[int], object] = lambda more: None,
    ) -> list[AnyPrediction]:
        """Return the prediction for each text, in order.

        `progress` is called with the number of texts just read.

        A text may be a pair (text, second); for tagging, a list of words, or a text to split at
        spaces.
        """
        frames = self.framer.frames(texts)
        logits = self.logits(network, frames, progress)
        return predict(self.kind, self.labels, frames, logits)

    @torch.no_grad()
    def logits(
        self,
        network: Any,
        frames: Sequence[Frame],
        progress: Callable[[int], object] = lambda more: None,
    ) -> list[Tensor]:
        """Return the logits of each frame, (1, C) or (words, C)."""
        network.eval()
        device = next(network.parameters()).device

        def read(rows: list[int]) -> list[Tensor]:
            some = [frames[i] for i in rows]
            batch = self.framer.lay_out([f.ids for f in some], [f.turn for f in some]).to(device)
            with use_threads_for(network, batch.ids):
                logits = network(batch).float().cpu()
            progress(len(rows))
            tagging = self.kind == "labelling"
            return [
                row[list(frame.words)] if tagging else row[None]
                for frame, row in zip(some, logits, strict=True)
            ]

        return map_by_length(read, [frame.ids for frame in frames], self.at_once, self.world.map)

    # ---- validation ----------------------------------------------------------------------------

    @cached_property
    def held_out(self) -> tuple[list[LabelledExample], list[Frame], Tensor]:
        """The validation examples, their frames, and the labels of the texts or of their words."""
        examples = read_examples(self.kind, self.held_in() / "data" / "valid.jsonl")
        wanted = encode_labels(self.kind, self.labels, examples, "the texts to validate on")
        frames = self.framer.frames([one.texts for one in examples])
        return examples, frames, torch.cat(wanted)

    def validate(self, network: Any) -> Validation:
        examples, frames, wanted = self.held_out
        logits = self.logits(network, frames)
        outputs = predict(self.kind, self.labels, frames, logits)
        measured = measure(self.kind, outputs, examples)
        scores = {name: round(one.value, 4) for name, one in measured.items()}
        scores["loss"] = self.loss_of(torch.cat(logits), wanted).item() / len(wanted)
        shown = pick_evenly(len(examples))
        return Validation(scores, [make_sample(examples[i], outputs[i]) for i in shown])


def make_sample(one: LabelledExample, output: AnyPrediction) -> Sample:
    between = " " if isinstance(one, Tagged) else " | "
    return Sample(between.join(filter(None, one.texts)), " ".join(one.tags), str(output))
