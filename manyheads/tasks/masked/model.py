"""What understands: a text turned into a vector, hidden words guessed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from manyheads.codecs.text import Text
from manyheads.data.sources import whole
from manyheads.modules.config import Pooling
from manyheads.tasks.masked.vectors import embed
from manyheads.tasks.portable import Portable, VectorSettings

if TYPE_CHECKING:
    from manyheads.tasks.masked.embedding import EmbeddingTask
    from manyheads.tasks.masked.task import MaskedTask

Vectors = NDArray[np.float32]


class EncoderModel:
    """A trained network that sees both ways."""

    kind: str
    longest = sys.maxsize  # tokens of a text that are read, where the network could read more
    pooling: Pooling = "mean"
    normalised = True
    prompt = ""  # stands before every text
    dimensions = 0  # so many numbers of a vector, the first; 0: all

    def __init__(self, codec: Text, network: nn.Module, name: str = ""):
        self.codec, self.network, self.name = codec, network.eval(), name

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling | None = None,
        normalise: bool | None = None,
    ) -> Vectors:
        """A vector for each text, (N, D): close where the texts are."""
        readable(texts)
        how = pooling or self.pooling
        length = self.normalised if normalise is None else normalise
        read = [self.prompt + text for text in texts]
        vectors = embed(self.network, self.codec, read, how, length, longest=self.longest)
        if self.dimensions and normalise:  # asked for, it is the length of what is given
            kept = vectors[:, : self.dimensions]
            return kept / np.linalg.norm(kept, axis=1, keepdims=True).clip(1e-12)
        return vectors[:, : self.dimensions] if self.dimensions else vectors


class Embedder(EncoderModel):
    """It was made for vectors, elsewhere."""

    kind = "embedding"

    def __init__(self, task: EmbeddingTask, network: nn.Module, name: str = ""):
        super().__init__(task.codec, network, name)
        recipe = self.recipe = task.recipe
        self.longest, self.pooling = recipe.data.context, recipe.pooling
        self.normalised, self.prompt = recipe.normalised, recipe.prompt
        self.dimensions = recipe.dimensions

    def portable(self) -> Portable:
        how = self.pooling, self.normalised, self.prompt, self.dimensions, self.longest
        return Portable(
            "encoder",
            self.kind,
            self.recipe.network,
            (self.codec,),
            self.longest,
            self.network,
            self.name,
            vectors=VectorSettings(*how),
            embed=self.embed,
        )


class MaskedLM(EncoderModel):
    """It has learned to guess hidden words."""

    kind = "masked"

    def __init__(self, task: MaskedTask, network: nn.Module, name: str = ""):
        super().__init__(task.codec, network, name)
        self.task = task

    def portable(self) -> Portable:
        design = self.task.design
        return Portable(
            "encoder", self.kind, design, (self.codec,), design.longest, self.network, self.name
        )


def readable(texts: Sequence[Any]) -> None:
    """Refuse what is no list of texts, of pairs of them or of lists of words."""
    if isinstance(texts, str):
        raise ValueError('texts come as a list, got a str; ["..."] is a list of one')
    for number, one in enumerate(texts, start=1):
        for part in [one] if isinstance(one, str) else one:
            whole(part, f"text {number}")
