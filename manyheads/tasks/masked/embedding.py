"""Vectors of texts: a model that came from elsewhere, to be used and to start from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

from torch import nn

from manyheads.codecs.text import Text
from manyheads.config.declare import setting
from manyheads.modules.build import Network, encoder
from manyheads.modules.heads import Pooling
from manyheads.tasks.language.corpus import TextCodec, TextData
from manyheads.tasks.masked.model import Embedder
from manyheads.tasks.portable import Portable, VectorSettings
from manyheads.tasks.task import Task
from manyheads.training.config import Training


@dataclass(frozen=True)
class EmbeddingRecipe:
    """What it is, and where it came from."""

    task: Literal["embedding"] = setting(about="What is learned.")
    data: TextData = setting(about="Where it is learned from.")
    codec: TextCodec = setting(TextCodec("given", 8000), "How it becomes numbers.")
    network: Network = setting(Network(), "What learns it.")
    pooling: Pooling = setting(
        "mean", "What stands for a text: the state of its first token, or the mean of all."
    )
    normalised: bool = setting(True, "Vectors are brought to length 1.")
    prompt: str = setting("", "Stands before every text.")
    dimensions: int = setting(0, "So many numbers of a vector, the first; 0: all.", least=0)
    training: Training = setting(Training(), "How long, how fast and on how much at a time.")
    start_from: Path | None = setting(
        None, "A run or an imported model: its vocabulary, its network and its weights."
    )


def refuse_training(*_: Any, **__: Any) -> NoReturn:
    raise ValueError(
        "vectors of texts are not trained by themselves; `manyheads train classification "
        "--start-from` goes on from such a model, `manyheads train masked` makes one from text"
    )


class EmbeddingTask(Task):
    """What such a model needs to be opened, and nothing to train it by."""

    Recipe = EmbeddingRecipe
    files = ()
    use = "embed"
    presets = {}  # noqa: RUF012 - there is nothing to choose

    def __init__(self, recipe: EmbeddingRecipe, codec: Text, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.codec = codec

    @classmethod
    def open(cls, recipe: EmbeddingRecipe, folder: Path) -> Self:
        return cls(recipe, Text.load(folder / "tokenizer.json"), folder)

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
        return encoder(self.recipe.network, self.codec.size)

    def model(self, network: nn.Module, name: str = "") -> Embedder:
        return Embedder(self, network, name)

    data_of = choose = gather = prepare = classmethod(refuse_training)
    batches = loss = validate = refuse_training
