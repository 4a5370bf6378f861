"""Settings and presets of language models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from manyheads.codecs.text import VocabularyKind
from manyheads.config.declare import Settings, setting
from manyheads.data.documents import check_split
from manyheads.modules.config import NetworkConfig, TransformerConfig
from manyheads.tasks.language.verbs import VERBS
from manyheads.tasks.recipe import ContinuationRecipe, Preset, gated_layers


@dataclass(frozen=True)
class TextData(Settings):
    """Where running text comes from, and how much of it is read at a time."""

    text: tuple[Path, ...] = setting(
        (), "Text files, folders of text files, or .jsonl; can be given several times."
    )
    valid_text: tuple[Path, ...] = setting((), "The same, for validation.")
    split: str = setting(
        "file",
        "What a document is: a file, a line, the text between blank lines (blank), or the text "
        "between separators; any other value is the separator, such as <|endoftext|>.",
    )
    held_out: float = setting(
        0.1,
        "Share of the text, from its end, to hold out for validation if you give no validation "
        "text.",
        above=0,
        below=1,
    )
    context: int = setting(256, "Context length in tokens.", least=4, most=10**7)
    imported: Path | None = setting(None, "Origin of an imported model.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_split(self.split)

    def misfits(self) -> Iterator[str]:
        if not self.text and not self.imported:
            yield "nothing to learn from: give text, a file or a folder"


@dataclass(frozen=True)
class TextCodec(Settings):
    """How text becomes numbers."""

    kind: VocabularyKind = setting("bpe", "Kind of tokenizer; given: that of an imported model.")
    size: int = setting(4000, "Maximum size of the vocabulary.", least=1, most=10**7)


# ---- presets ---------------------------------------------------------------------------------


def network(width: int, depth: int, heads: int, dropout: float) -> NetworkConfig:
    """RMS norm, SwiGLU and rotary positions, as in most language models."""
    return TransformerConfig(
        **gated_layers(width),
        depth=depth,
        heads=heads,
        init="gpt2",
        scale_embeddings=False,
        position="Rotary()",
        dropout=dropout,
        attention_dropout=dropout,
    )


def modern_network(width: int, depth: int, heads: int) -> TransformerConfig:
    """Newer parts, from speed runs to a low loss; each is one setting and can be left out."""
    return TransformerConfig(
        width=width,
        depth=depth,
        heads=heads,
        feed_forward="relu2",
        norm="rms",
        embedding_norm=True,
        bias=False,
        init="zero",
        qk_norm=True,
        residual_scalars=True,
        value_embeddings=2,
        tied=False,
        logit_cap=30.0,
        pattern=("Window(255)", "Window(255)", "Window(255)", "Everything()"),
        scale_embeddings=False,
        position="Rotary()",
        dropout=0.0,
    )


PRESETS = {
    "tiny": Preset(
        "For a first look: minutes on a laptop.",
        network(128, 4, 4, 0.1),
        epochs=4,
        batch=2048,
        learning_rate=3e-3,
        codec=TextCodec(size=2000),
        context=128,
    ),
    # So many epochs would overfit: the weight decay is high (results/README.md).
    "small": Preset(
        "For one book or a hundred books.",
        network(384, 6, 6, 0.2),
        epochs=40,
        batch=16384,
        learning_rate=1e-3,
        codec=TextCodec(size=4000),
        context=256,
        training={"weight_decay": 1.5, "ema": 0.998},
    ),
    "base": Preset(
        "For billions of tokens: the size of the smallest GPT-2.",
        network(768, 12, 12, 0.0),
        epochs=1,
        batch=131072,
        learning_rate=6e-4,
        codec=TextCodec(size=32000),
        context=1024,
        training={"warmup_steps": 1000},  # with fewer, the loss jumps up once
    ),
    "modern": Preset(
        "The size of base, with Muon and newer parts: fewer steps to the same loss.",
        modern_network(768, 12, 6),
        epochs=1,
        batch=131072,
        learning_rate=4e-3,
        codec=TextCodec(size=32000),
        context=1024,
        training={
            "optimizer": "muon",
            "matrix_rate": 0.02,
            "betas": (0.8, 0.95),
            "weight_decay": 0.01,
            "schedule": "stable",
        },
    ),
}


# ---- the recipe ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageRecipe(ContinuationRecipe):
    """The recipe of a language model: data, tokenizer, network and training."""

    implementation = "manyheads.tasks.language.task:LanguageTask"
    files = ("text", "valid_text")
    example = "--text corpus.txt"
    presets = PRESETS
    verbs = VERBS
    starts_from = ("language",)
    fine_tuning_epochs = 4
    judged, written = "a language model", "a language model is"

    task: Literal["language"] = setting(about="The task.")
    data: TextData = setting(about="Training data.")
    codec: TextCodec = setting(TextCodec(), "Tokenizer.")
    network: NetworkConfig = setting(TransformerConfig(), "Network.")
