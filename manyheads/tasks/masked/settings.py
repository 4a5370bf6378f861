"""Guessing hidden words: settings, and good ones for those who give none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.codecs.text import Text
from manyheads.config.declare import setting
from manyheads.data.shards import Shard
from manyheads.modules.build import Network
from manyheads.tasks.language.corpus import FILES as FILES
from manyheads.tasks.language.corpus import (
    TextCodec,
    TextCorpus,
    TextData,
    choose_codec,
    gather_texts,
    prepare_texts,
)
from manyheads.tasks.masked.model import Guesser
from manyheads.tasks.masked.task import Learning, Masked, Masking
from manyheads.tasks.presets import check_room, chosen_preset, fine_tuned, no_other_network
from manyheads.tasks.task import Choice
from manyheads.training.config import Training
from manyheads.training.run import Run

USE = "embed"


@dataclass(frozen=True)
class Recipe:
    """What to learn, from what, with what."""

    task: Literal["masked"] = setting(about="What is learned.")
    data: TextData = setting(about="Where it is learned from.")
    codec: TextCodec = setting(TextCodec(size=8000), "How it becomes numbers.")
    masking: Masking = setting(Masking(), "What is hidden, and how.")
    network: Network = setting(Network(), "What learns it.")
    training: Training = setting(Training(), "How long, how fast and on how much at a time.")
    start_from: Path | None = setting(
        None, "A run or an imported model: its vocabulary, its network and its weights."
    )

    def __post_init__(self) -> None:
        if self.network.kind != "transformer":
            raise ValueError(
                "hidden words are guessed by a transformer; network.kind: transformer would do"
            )
        check_room(self.network, self.data.context)


# ---- presets ---------------------------------------------------------------------------------


def network(width: int, depth: int, heads: int, dropout: float) -> Network:
    return Network(
        width=width,
        depth=depth,
        heads=heads,
        inner=4 * width,
        feed_forward="gelu",
        scaled=False,
        position="rotary",
        dropout=dropout,
    )


def tiny(tokens: int, cuda: bool) -> dict[str, Any]:
    """For a first look on a laptop: minutes."""
    return {
        "codec": TextCodec(size=4000),
        "network": network(128, 3, 4, 0.1),
        "training": scaled(tokens, cuda, epochs=4, batch=4096, learning_rate=2e-3),
    }


def small(tokens: int, cuda: bool) -> dict[str, Any]:
    """For millions of words."""
    return {
        "codec": TextCodec(size=8000),
        "network": network(256, 6, 4, 0.1),
        "training": scaled(tokens, cuda, epochs=60, batch=32768, learning_rate=2e-3),
    }


def base(tokens: int, cuda: bool) -> dict[str, Any]:
    """For billions: the measures of BERT-base."""
    return {
        "codec": TextCodec(size=32000),
        "network": network(768, 12, 12, 0.1),
        "training": scaled(tokens, cuda, epochs=10, batch=131072, learning_rate=5e-4),
    }


PRESETS: dict[str, Any] = {"tiny": tiny, "small": small, "base": base}


def fitting(tokens: int, cuda: bool) -> str:
    if not cuda:
        return "tiny"
    return "small" if tokens < 300_000_000 else "base"


def scaled(tokens: int, cuda: bool, *, epochs: int, batch: int, learning_rate: float) -> Training:
    steps = max(200, epochs * tokens // batch)
    every = max(50, steps // 20)
    return Training(
        steps=steps,
        tokens_per_batch=batch,
        learning_rate=learning_rate,
        schedule="linear",
        warmup_steps=max(20, min(4000, steps // 10)),
        precision="bfloat16" if cuda else "float32",
        best_by="loss",
        validate_every=every,
        checkpoint_every=every,
        log_every=max(1, min(50, every // 2)),
    )


def recipe_for(task: Any, data: TextData, tokens: int, choice: Choice = Choice()) -> Recipe:
    cuda = choice.device == "cuda"
    parts = chosen_preset(PRESETS, choice.preset or fitting(tokens, cuda))(tokens, cuda)
    data = replace(data, context=128)
    if choice.start is not None:
        if choice.start.task != "masked":
            raise ValueError(
                "a model that guesses hidden words starts from one; the run to start from learned "
                f"{choice.start.task}"
            )
        parts["network"], parts["codec"] = choice.start.network, choice.start.codec
        parts["training"] = fine_tuned(parts["training"], parts["network"])
        data = replace(data, context=choice.start.data.context)
    if choice.network is not None:
        no_other_network(choice.network, ("transformer",))
    return Recipe(task, data, **parts)


# ---- from files to a job ---------------------------------------------------------------------


def data_of(files: Mapping[str, Any]) -> TextData:
    return TextData(**files)


def gather(recipe: Recipe) -> TextCorpus:
    return gather_texts(recipe.data, recipe.codec.kind)


def tokens(gathered: TextCorpus, recipe: Recipe) -> int:
    return gathered.tokens


def counted(gathered: TextCorpus) -> str:
    return str(gathered)


def prepare(gathered: TextCorpus, recipe: Recipe, run: Run) -> None:
    codec = choose_codec(gathered, recipe, masked=True)
    prepare_texts(gathered, codec, run.folder, framed=False)


def job(recipe: Recipe, run: Run) -> Learning:
    return Learning(
        Masked(Text.load(run / "tokenizer.json"), recipe.network),
        Shard(run / "data" / "train"),
        Shard(run / "data" / "valid"),
        masking=recipe.masking,
        context=recipe.data.context,
        tokens=recipe.training.tokens_per_batch,
        seed=recipe.training.seed,
    )


def model(recipe: Recipe, folder: Path, name: str) -> Guesser:
    task = Masked(Text.load(folder / "tokenizer.json"), recipe.network)
    return Guesser(task, task.network(), name)
