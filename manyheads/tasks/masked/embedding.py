"""Imported embedding models, to use or to fine-tune from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from torch import nn

from manyheads.modules.build import build_encoder
from manyheads.tasks.language.settings import TextCodec, TextData
from manyheads.tasks.masked.model import Embedder
from manyheads.tasks.masked.settings import EmbeddingRecipe
from manyheads.tasks.portable import Portable, VectorSettings
from manyheads.tasks.vocabulary import CodecTask


def refuse_training(*_: Any, **__: Any) -> NoReturn:
    EmbeddingRecipe.data_of({})


class EmbeddingTask(CodecTask):
    """The task of an imported embedding model; it cannot be trained."""

    Recipe = EmbeddingRecipe

    @classmethod
    def adopt(cls, model: Portable, source: Path, folder: Path) -> EmbeddingRecipe:
        how = model.vectors or VectorSettings()
        return EmbeddingRecipe(
            "embedding",
            TextData(imported=source, context=model.context),
            TextCodec("given", model.codecs[0].size),
            model.design,
            how.pooling,
            how.normalised,
            how.prompt,
            how.dimensions,
        )

    def network(self) -> nn.Module:
        return build_encoder(self.recipe.network, self.codec.size)

    def model(self, network: nn.Module, name: str = "") -> Embedder:
        return Embedder(self, network, name)

    gather = prepare = classmethod(refuse_training)
    batches = loss = validate = refuse_training
