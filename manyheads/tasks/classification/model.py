"""What says something about a text: its class, its number, the tags of its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from manyheads.tasks.classification.predictions import AnyPrediction
from manyheads.tasks.masked.model import EncoderModel, readable
from manyheads.tasks.portable import Portable

if TYPE_CHECKING:
    from manyheads.tasks.classification.task import ClassificationTask


class Classifier(EncoderModel):
    """It has learned to say something about a text."""

    def __init__(self, task: ClassificationTask, network: nn.Module, name: str = ""):
        super().__init__(task.codec, network, name)
        self.task, self.kind, self.pooling = task, task.kind, task.pooling

    def classify(
        self, texts: Sequence[Any], progress: Callable[[int], object] = lambda more: None
    ) -> list[AnyPrediction]:
        """model.classify(["A lovely film."]) -> [Prediction("positive", 0.98, ...)]"""
        readable(texts)
        return self.task.decode(self.network, texts, progress=progress)

    def portable(self) -> Portable:
        task = self.task
        return Portable(
            "encoder",
            self.kind,
            task.design,
            (self.codec,),
            task.room,
            self.network,
            self.name,
            labels=tuple(task.labels.names),
            pooling=None if self.kind == "labelling" else task.pooling,
        )
