"""A classifier: predict the class or number of a text, or the tags of its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from torch import nn

from manyheads.modules.transformer import Tokens
from manyheads.tasks.classification.predictions import AnyPrediction
from manyheads.tasks.masked.model import EncoderModel, refuse_no_texts
from manyheads.tasks.model import as_list
from manyheads.tasks.portable import Portable, VectorSettings, describe

if TYPE_CHECKING:
    from manyheads.tasks.classification.task import ClassificationTask


class Classifier(EncoderModel):
    """A trained classifier of texts."""

    task: ClassificationTask

    def __init__(self, task: ClassificationTask, network: nn.Module, name: str = ""):
        super().__init__(task, network, name)
        self.vectors = VectorSettings(task.recipe.pooling)

    @overload
    def classify(self, texts: str) -> AnyPrediction: ...
    @overload
    def classify(
        self, texts: Sequence[Any], progress: Callable[[int], object] = ...
    ) -> list[AnyPrediction]: ...
    def classify(
        self,
        texts: str | Sequence[Any],
        progress: Callable[[int], object] = lambda more: None,
    ) -> AnyPrediction | list[AnyPrediction]:
        """model.classify("A lovely film.") -> Prediction("positive", 0.98, ...)

        A list gives a list; it may contain pairs of texts, and texts as lists of words.
        """
        several = as_list(texts)
        refuse_no_texts(several)
        found = self.task.decode(self.network, several, progress=progress)
        return found[0] if isinstance(texts, str) else found

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.task.labels.names) if self.kind == "classification" else ()

    @property
    def value(self) -> Callable[[float], float] | None:
        return self.task.labels.value if self.kind == "regression" else None

    def lay_out(self, ids: list[int], copies: int) -> Tokens:
        return self.task.framer.lay_out([ids] * copies, [len(ids)] * copies).to(self.device)

    def portable(self) -> Portable:
        pooling = None if self.kind == "labelling" else self.task.recipe.pooling
        known = self.task.labels
        scale: dict[str, Any] = {"mean": known.mean, "spread": known.spread}
        labels = tuple(known.names)
        return describe(self, "encoder", self.task.room, labels=labels, pooling=pooling, **scale)
