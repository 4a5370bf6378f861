"""Vectors of texts: a model that came from elsewhere, to be used and to start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from manyheads.codecs.text import Text
from manyheads.config.declare import setting
from manyheads.modules.build import Network
from manyheads.modules.heads import Pooling
from manyheads.tasks.language.corpus import TextCodec, TextData
from manyheads.tasks.masked.model import Embedder
from manyheads.tasks.portable import Portable, VectorSettings
from manyheads.tasks.task import Choice
from manyheads.training.config import Training
from manyheads.training.run import Run

FILES: tuple[str, ...] = ()
USE = "embed"
PRESETS: dict[str, Any] = {}
UNTRAINED = (
    "vectors of texts are not trained by themselves; `manyheads train classification "
    "--start-from` goes on from such a model, `manyheads train masked` makes one from text"
)


@dataclass(frozen=True)
class Recipe:
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


def data_of(files: Mapping[str, Any]) -> TextData:
    raise ValueError(UNTRAINED)


def recipe_for(task: Any, data: TextData, tokens: int, asked: Choice = Choice()) -> Recipe:
    raise ValueError(UNTRAINED)


def gather(recipe: Recipe) -> Any:
    raise ValueError(UNTRAINED)


def tokens(gathered: Any, recipe: Recipe) -> int:
    raise ValueError(UNTRAINED)


def counted(gathered: Any) -> str:
    raise ValueError(UNTRAINED)


def prepare(gathered: Any, recipe: Recipe, run: Run) -> None:
    raise ValueError(UNTRAINED)


def job(recipe: Recipe, run: Run) -> Any:
    raise ValueError(UNTRAINED)


def adopt(model: Portable, source: Path, folder: Path) -> Recipe:
    data = TextData(imported=source, context=model.context)
    how = model.vectors or VectorSettings()
    return Recipe(
        "embedding",
        data,
        TextCodec("given", model.codecs[0].size),
        model.design,
        how.pooling,
        how.normalised,
        how.prompt,
        how.dimensions,
    )


def model(recipe: Recipe, folder: Path, name: str) -> Embedder:
    codec = Text.load(folder / "tokenizer.json")
    return Embedder(
        codec,
        recipe.network,
        recipe.data.context,
        recipe.pooling,
        name,
        normalised=recipe.normalised,
        prompt=recipe.prompt,
        dimensions=recipe.dimensions,
    )
