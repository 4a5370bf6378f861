"""Settings and presets of extractive question answering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from manyheads.config.declare import Settings, setting
from manyheads.modules.config import NETWORK_KINDS, NetworkConfig, TransformerConfig
from manyheads.tasks.language.settings import TextCodec
from manyheads.tasks.masked.settings import network as transformer
from manyheads.tasks.pointing.verbs import VERBS
from manyheads.tasks.recipe import START_FROM, Choice, Preset, Recipe, TrainingPlan, check_room
from manyheads.training.config import Training

TYPES = 3  # token types: question, text, and words of the text that the question has too


@dataclass(frozen=True)
class QuestionData(Settings):
    """Where questions, their texts and their answers come from: .jsonl as in SQuAD."""

    pairs: Path | None = setting(None, "Questions with their texts and answers, .jsonl.")
    valid_pairs: Path | None = setting(None, "The same, for validation.")
    held_out: int = setting(
        500,
        "Questions to hold out for validation if you give no validation file; at most a tenth.",
        least=1,
    )
    longest_tokens: int = setting(
        512, "Truncate question and text to this many tokens.", least=8, most=10**7
    )

    def misfits(self) -> Iterator[str]:
        if not self.pairs:
            yield "nothing to learn from: give pairs, a .jsonl file of questions"


PRESETS = {
    "tiny": Preset(
        "For a first look: minutes on a laptop.",
        transformer(128, 3, 4, 0.1),
        epochs=6,
        batch=4096,
        learning_rate=1e-3,
        codec=TextCodec(size=8000),
    ),
    "small": Preset(
        "For tens of thousands of questions.",
        transformer(256, 6, 8, 0.3),
        epochs=40,
        batch=16384,
        learning_rate=1e-3,
        codec=TextCodec(size=8000),
    ),
}


@dataclass(frozen=True)
class PointingRecipe(Recipe):
    """The recipe of a question answering model: data, tokenizer, network and training."""

    implementation = "manyheads.tasks.pointing.task:PointingTask"
    files = ("pairs", "valid_pairs")
    example = "--pairs train.jsonl"
    presets = PRESETS
    verbs = VERBS
    use = "translate"
    networks = NETWORK_KINDS
    starts_from = ("masked", "pointing")
    plan = TrainingPlan({"schedule": "linear", "ema": 0.995}, warmup=(50, 2000, 10))
    fine_tuning_epochs, has_new_head = 10, True

    task: Literal["pointing"] = setting(about="The task.")
    data: QuestionData = setting(about="Training data.")
    codec: TextCodec = setting(TextCodec(size=8000), "Tokenizer.")
    network: NetworkConfig = setting(TransformerConfig(), "Network.")
    training: Training = setting(Training(), "Training.")
    start_from: Path | None = setting(None, START_FROM)

    def __post_init__(self) -> None:
        self.network.one_depth()
        check_room(self.network, self.data.longest_tokens, "texts", "data.longest_tokens")

    @classmethod
    def choose(cls, task: Any, data: Any, tokens: int, choice: Choice = Choice()) -> Self:
        """Use token types, even if the run in `start_from` has none."""
        recipe = super().choose(task, data, tokens, choice)
        types = recipe.network.token_types or TYPES
        return replace(recipe, network=replace(recipe.network, token_types=types))
