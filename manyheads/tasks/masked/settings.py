"""Settings and presets of masked language models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from manyheads.config.declare import Settings, setting
from manyheads.modules.config import NetworkConfig, Pooling, TransformerConfig
from manyheads.tasks.language.settings import TextCodec, TextData
from manyheads.tasks.masked.verbs import VERBS
from manyheads.tasks.recipe import START_FROM, Preset, Recipe, TrainingPlan, check_room
from manyheads.training.config import Training


@dataclass(frozen=True)
class Masking(Settings):
    """How many tokens are hidden, and how; the defaults are those of BERT."""

    share: float = setting(0.15, "Share of the tokens that are masked.", above=0, below=1)
    masked: float = setting(0.8, "Share of the masked tokens that become the mask token.", least=0)
    changed: float = setting(
        0.1,
        "Share of the masked tokens that become a random token; the rest stay, and are predicted "
        "too.",
        least=0,
    )
    whole_words: bool = setting(False, "Mask all subwords of a word together (whole-word masking).")

    def misfits(self) -> Iterator[str]:
        if self.masked + self.changed > 1:
            yield (
                "masked and changed are shares of what is hidden and together 1 at most, "
                f"got {self.masked} and {self.changed}"
            )


# ---- presets ---------------------------------------------------------------------------------


def network(width: int, depth: int, heads: int, dropout: float) -> NetworkConfig:
    return TransformerConfig(
        width=width,
        depth=depth,
        heads=heads,
        feed_forward="gelu",
        scale_embeddings=False,
        position="Rotary()",
        dropout=dropout,
    )


PRESETS = {
    "tiny": Preset(
        "For a first look: minutes on a laptop.",
        network(128, 3, 4, 0.1),
        epochs=4,
        batch=4096,
        learning_rate=2e-3,
        codec=TextCodec(size=4000),
        context=128,
    ),
    "small": Preset(
        "For millions of words.",
        network(256, 6, 4, 0.1),
        epochs=60,
        batch=32768,
        learning_rate=2e-3,
        codec=TextCodec(size=8000),
        context=128,
    ),
    "base": Preset(
        "For billions of words: the size of BERT-base.",
        network(768, 12, 12, 0.1),
        epochs=10,
        batch=131072,
        learning_rate=5e-4,
        codec=TextCodec(size=32000),
        context=128,
    ),
}


# ---- the recipe ------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskedRecipe(Recipe):
    """The recipe of a masked language model: data, tokenizer, masking, network and training."""

    implementation = "manyheads.tasks.masked.task:MaskedTask"
    files = ("text", "valid_text")
    example = "--text corpus.txt"
    presets = PRESETS
    verbs = VERBS
    use = "embed"
    starts_from = ("masked",)
    plan = TrainingPlan({"schedule": "linear", "best_by": "loss"}, warmup=(20, 4000, 10))
    many_tokens = 300_000_000

    task: Literal["masked"] = setting(about="The task.")
    data: TextData = setting(about="Training data.")
    codec: TextCodec = setting(TextCodec(size=8000), "Tokenizer.")
    masking: Masking = setting(Masking(), "Masking.")
    network: NetworkConfig = setting(TransformerConfig(), "Network.")
    training: Training = setting(Training(), "Training.")
    start_from: Path | None = setting(None, START_FROM)

    def __post_init__(self) -> None:
        if self.network.kind != "transformer":
            raise ValueError(
                "hidden words are guessed by a transformer; network.kind: transformer would do"
            )
        check_room(self.network, self.data.context)
        self.network.one_depth()


@dataclass(frozen=True)
class EmbeddingRecipe(Recipe):
    """The recipe of an imported embedding model, which cannot be trained."""

    implementation = "manyheads.tasks.masked.embedding:EmbeddingTask"
    verbs = VERBS
    use = "embed"

    task: Literal["embedding"] = setting(about="The task.")
    data: TextData = setting(about="Training data.")
    codec: TextCodec = setting(TextCodec("given", 8000), "Tokenizer.")
    network: NetworkConfig = setting(TransformerConfig(), "Network.")
    pooling: Pooling = setting(
        "mean", "Vector of a text: the state of its first token, or the mean over all tokens."
    )
    normalised: bool = setting(True, "Scale vectors to length 1.")
    prompt: str = setting("", "Prompt that is put before every text.")
    dimensions: int = setting(0, "Keep only this many first numbers of a vector; 0: all.", least=0)
    training: Training = setting(Training(), "Training.")
    start_from: Path | None = setting(None, START_FROM)

    @classmethod
    def data_of(cls, files: Any) -> NoReturn:
        raise ValueError(
            "vectors of texts are not trained by themselves; `manyheads train classification "
            "--start-from` goes on from such a model, `manyheads train masked` makes one from text"
        )
