"""Guessing hidden words: settings, and good ones for those who give none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.config.declare import check, setting
from manyheads.modules.config import Network, Pooling
from manyheads.tasks.language.settings import TextCodec, TextData
from manyheads.tasks.presets import check_room, chosen_preset, fine_tuned, no_other_network
from manyheads.tasks.recipe import Choice
from manyheads.training.config import Training


@dataclass(frozen=True)
class Masking:
    """How much is hidden, and how: as BERT does, unless told."""

    share: float = setting(0.15, "Of all tokens, so many are hidden.", above=0, below=1)
    masked: float = setting(0.8, "Of those, so many become the mask.", least=0)
    changed: float = setting(
        0.1, "So many become another; the rest stay, and are to be guessed too.", least=0
    )
    whole_words: bool = setting(False, "All pieces of a word are hidden at once.")

    def __post_init__(self) -> None:
        together = (
            "masked and changed are shares of what is hidden and together 1 at most, "
            f"got {self.masked} and {self.changed}"
        )
        check(self, (together,) if self.masked + self.changed > 1 else ())


@dataclass(frozen=True)
class MaskedRecipe:
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


def recipe_for(task: Any, data: TextData, tokens: int, choice: Choice = Choice()) -> MaskedRecipe:
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
    return MaskedRecipe(task, data, **parts)
