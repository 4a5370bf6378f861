"""Encoder models: vectors of texts, masked language models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from manyheads.codecs.text import Text
from manyheads.data.sources import require_utf8
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.inspect.long import Part
from manyheads.modules.config import Pooling
from manyheads.modules.transformer import Tokens
from manyheads.tasks.masked.inspection import inspect_encoder
from manyheads.tasks.masked.vectors import embed
from manyheads.tasks.model import Model, as_list
from manyheads.tasks.portable import Portable, VectorSettings, describe

if TYPE_CHECKING:
    from manyheads.tasks.masked.embedding import EmbeddingTask
    from manyheads.tasks.masked.task import MaskedTask

Vectors = NDArray[np.float32]


class EncoderModel(Model):
    """A trained bidirectional encoder."""

    vectors = VectorSettings()

    @property
    def codec(self) -> Text:
        codec: Text = self.task.codec
        return codec

    def embed(
        self,
        texts: str | Sequence[str],
        pooling: Pooling | None = None,
        normalise: bool | None = None,
    ) -> Vectors:
        """Return a vector for each text, (N, D), or (D,) for one text; similar texts are close."""
        how, several = self.vectors, as_list(texts)
        refuse_no_texts(several)
        vectors = embed(
            self.network,
            self.codec,
            [how.prompt + text for text in several],
            pooling or how.pooling,
            how.normalised if normalise is None else normalise,
            longest=how.context or sys.maxsize,
        )
        if how.dimensions:
            vectors = vectors[:, : how.dimensions]
            if normalise:  # if asked for, the shortened vector has length 1
                vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        return vectors[0] if isinstance(texts, str) else vectors

    @torch.no_grad()
    def inspect(
        self, text: str, *, what_if: Sequence[Intervention] = (), tokens: Part | None = None
    ) -> AttentionPage:
        """Return a page of what every head attends to, for a notebook or `.save("page.html")`.

        `what_if` lists interventions such as `Off("2.self", 5)`;
        `tokens=(600, 1100)` shows that part of a long text in full.
        """
        return inspect_encoder(self, require_utf8(text, "the text"), what_if, tokens)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that it predicts for a text; empty if it does something else."""
        return ()

    @property
    def value(self) -> Callable[[float], float] | None:
        """For regression, a function from the output of the network to the number."""
        return None

    def lay_out(self, ids: list[int], copies: int) -> Tokens:
        return Tokens.padded([ids] * copies).to(self.device)


class Embedder(EncoderModel):
    """An imported embedding model."""

    task: EmbeddingTask

    def __init__(self, task: EmbeddingTask, network: nn.Module, name: str = ""):
        super().__init__(task, network, name)
        said, context = task.recipe, task.recipe.data.context
        self.vectors = VectorSettings(
            said.pooling, said.normalised, said.prompt, said.dimensions, context
        )

    def portable(self) -> Portable:
        context = self.vectors.context
        return describe(self, "encoder", context, vectors=self.vectors, embed=self.embed)


class MaskedLM(EncoderModel):
    """A trained masked language model."""

    task: MaskedTask

    def portable(self) -> Portable:
        return describe(self, "encoder")


def refuse_no_texts(texts: Sequence[Any]) -> None:
    """Raise if something is no text, no pair of texts and no list of words."""
    for number, one in enumerate(texts, start=1):
        for part in one if isinstance(one, list | tuple) else [one]:
            require_utf8(part, f"text {number}")
