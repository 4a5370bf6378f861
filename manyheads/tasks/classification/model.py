"""What says something about a text: its class, its number, the tags of its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from manyheads.tasks.classification.predictions import Judged, judge_texts
from manyheads.tasks.classification.task import Judging
from manyheads.tasks.masked.model import Reader, readable
from manyheads.tasks.portable import Portable


class Judge(Reader):
    """It has learned to say something about a text."""

    def __init__(self, task: Judging, network: nn.Module, name: str = ""):
        super().__init__(task.codec, network, name)
        self.task, self.kind, self.pooling = task, task.kind, task.pooling

    def classify(self, texts: Sequence[Any]) -> list[Judged]:
        """model.classify(["A lovely film."]) -> [Verdict("positive", 0.98, ...)]"""
        readable(texts)
        return judge_texts(self.task, self.network, texts)

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
