"""What understands: says what a text is, and turns it into a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from manyheads.codecs.text import Text
from manyheads.model.heads import Pooling
from manyheads.tasks.labels import Judged, Judging, embed, judge_texts
from manyheads.tasks.masked import Masked

Vectors = NDArray[np.float32]


class Reader:
    """A trained network that sees both ways."""

    pooling: Pooling = "mean"
    normalised = True

    def __init__(self, codec: Text, network: nn.Module, name: str = ""):
        self.codec, self.network, self.name = codec, network.eval(), name

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling | None = None,
        normalise: bool | None = None,
    ) -> Vectors:
        """A vector for each text, (N, D): close where the texts are."""
        how = pooling or self.pooling
        length = self.normalised if normalise is None else normalise
        return embed(self.network, self.codec, texts, how, length)


class Guesser(Reader):
    """It has learned to guess hidden words."""

    kind = "masked"

    def __init__(self, task: Masked, network: nn.Module, name: str = ""):
        super().__init__(task.codec, network, name)
        self.task = task


class Judge(Reader):
    """It has learned to say something about a text."""

    def __init__(self, task: Judging, network: nn.Module, name: str = ""):
        super().__init__(task.codec, network, name)
        self.task = task

    @property
    def kind(self) -> str:
        return self.task.kind

    def classify(self, texts: Sequence[Any]) -> list[Judged]:
        """model.classify(["A lovely film."]) -> [Verdict("positive", 0.98, ...)]"""
        if isinstance(texts, str):
            raise ValueError('texts come as a list, got a str; ["..."] is a list of one')
        return judge_texts(self.task, self.network, texts)
