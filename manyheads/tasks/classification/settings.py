"""Settings and presets of text classification."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from manyheads.config.declare import Settings, setting
from manyheads.data.labelled import Columns
from manyheads.modules.config import NETWORK_KINDS, NetworkConfig, Pooling, TransformerConfig
from manyheads.tasks.classification.verbs import VERBS
from manyheads.tasks.language.settings import TextCodec
from manyheads.tasks.masked.settings import network as transformer
from manyheads.tasks.recipe import START_FROM, Choice, Preset, Recipe, TrainingPlan
from manyheads.training.config import Training

LabelKind = Literal["classification", "regression", "labelling"]


@dataclass(frozen=True)
class LabelledData(Settings):
    """Where texts with labels come from."""

    data: Path | None = setting(None, "Texts with labels: .tsv, .csv, .jsonl; CoNLL for tags.")
    valid_data: Path | None = setting(None, "The same, for validation.")
    columns: Columns = setting(Columns(), "Columns of the file, by name or number.")
    held_out: int = setting(
        1000,
        "Texts to hold out for validation if you give no validation file; at most a tenth.",
        least=1,
    )
    longest_tokens: int = setting(128, "Truncate texts to this many tokens.", least=1, most=10**7)
    imported: Path | None = setting(None, "Origin of an imported model.")

    def misfits(self) -> Iterator[str]:
        if not self.data and not self.imported:
            yield "nothing to learn from: give data, a file of texts with labels"


# ---- presets ---------------------------------------------------------------------------------

PRESETS = {
    "tiny": Preset(
        "For a first look: minutes on a laptop.",
        transformer(128, 2, 4, 0.2),
        epochs=5,
        batch=2048,
        learning_rate=1e-3,
        codec=TextCodec(size=4000),
    ),
    "small": Preset(
        "For thousands of texts and more.",
        transformer(256, 4, 4, 0.3),
        epochs=10,
        batch=8192,
        learning_rate=1e-3,
        codec=TextCodec(size=8000),
    ),
}


# ---- the recipe ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassificationRecipe(Recipe):
    """The recipe of a classifier: data, tokenizer, network and training."""

    implementation = "manyheads.tasks.classification.task:ClassificationTask"
    files = ("data", "valid_data")
    example = "--data train.jsonl"
    presets = PRESETS
    verbs = VERBS
    use = "classify"
    networks = NETWORK_KINDS
    starts_from = ("masked", "embedding", *get_args(LabelKind))
    plan = TrainingPlan(
        {"schedule": "linear", "label_smoothing": 0.1, "ema": 0.99},
        least_steps=100,
        warmup=(30, 10**9, 10),
        of_an_epoch=2,
        least_between=10,
    )
    fine_tuning_epochs, has_new_head = 4, True

    task: LabelKind = setting(about="The task.")
    data: LabelledData = setting(about="Training data.")
    codec: TextCodec = setting(TextCodec(size=8000), "Tokenizer.")
    network: NetworkConfig = setting(TransformerConfig(), "Network.")
    pooling: Pooling = setting(
        "mean", "Vector of a text: the state of its first token, or the mean over all tokens."
    )
    training: Training = setting(Training(), "Training.")
    start_from: Path | None = setting(None, START_FROM)

    def __post_init__(self) -> None:
        self.network.one_depth()

    @classmethod
    def choose(cls, task: Any, data: Any, tokens: int, choice: Choice = Choice()) -> Self:
        recipe = super().choose(task, data, tokens, choice)
        if choice.start is not None:
            recipe = replace(recipe, pooling=getattr(choice.start, "pooling", "mean"))
        if task != "regression":
            return recipe
        # bfloat16 is too coarse for a number: rounding alone changes the squared error.
        training = replace(recipe.training, label_smoothing=0.0, precision="float32")
        return replace(recipe, training=training)
