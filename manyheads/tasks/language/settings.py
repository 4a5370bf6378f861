"""Text that goes on: settings, and good ones for those who give none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.codecs.text import Text
from manyheads.config.declare import setting
from manyheads.data.layout import Layout
from manyheads.data.shards import Shard
from manyheads.modules.build import Network
from manyheads.tasks.language.chat import CHAT, Chat
from manyheads.tasks.language.corpus import Running, Texts, held_bytes
from manyheads.tasks.language.corpus import prepare as lay_down
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.language.shared import FILES as FILES
from manyheads.tasks.language.shared import Codec as Codec
from manyheads.tasks.language.shared import codec_of
from manyheads.tasks.language.shared import counted as counted
from manyheads.tasks.language.shared import data_of as data_of
from manyheads.tasks.language.shared import gather as gather
from manyheads.tasks.language.shared import tokens as tokens
from manyheads.tasks.language.task import HeldOut, Language, Learning
from manyheads.tasks.presets import (
    check_layout,
    check_room,
    chosen_preset,
    fine_tuned,
    fitting_preset,
    no_other_network,
    scale_training,
)
from manyheads.tasks.task import Choice
from manyheads.training.config import Training
from manyheads.training.run import Run

USE = "generate"
EPOCHS = 4  # where it starts from a run


@dataclass(frozen=True)
class Recipe:
    """What to learn, from what, with what."""

    task: Literal["language"] = setting(about="What is learned.")
    data: Running = setting(about="Where it is learned from.")
    codec: Codec = setting(Codec(), "How it becomes numbers.")
    network: Network = setting(Network(), "What learns it.")
    training: Training = setting(
        Training(best_by="loss"), "How long, how fast and on how much at a time."
    )
    layout: Layout = setting(
        "packed", "Sequences behind each other in full rows (packed), or one a row (padded)."
    )
    start_from: Path | None = setting(
        None, "A run or an imported model: its vocabulary, its network and its weights."
    )

    def __post_init__(self) -> None:
        if self.training.best_by != "loss":
            raise ValueError("a language model is judged by its loss; training.best_by: loss")
        if self.network.kind == "convolutional":
            raise ValueError(
                "a language model is a transformer or a recurrent network; "
                "network.kind: recurrent would do"
            )
        check_layout(self.network, self.layout)
        check_room(self.network, self.data.context)


# ---- presets ---------------------------------------------------------------------------------


def network(width: int, depth: int, heads: int, dropout: float) -> Network:
    """Norms without a mean, gates, turned queries and keys: what language models settled on."""
    return Network(
        width=width,
        depth=depth,
        heads=heads,
        inner=(8 * width // 3 + 63) // 64 * 64,
        feed_forward="swiglu",
        norm="rms",
        bias=False,
        scaled=False,
        position="rotary",
        dropout=dropout,
        attention_dropout=dropout,
    )


def tiny(tokens: int, cuda: bool) -> dict[str, Any]:
    """For a first look on a laptop: minutes."""
    return {
        "codec": Codec(size=2000),
        "context": 128,
        "network": network(128, 4, 4, 0.1),
        "training": scale_training(tokens, cuda, epochs=4, batch=2048, learning_rate=3e-3),
    }


def small(tokens: int, cuda: bool) -> dict[str, Any]:
    """For a book or a hundred of them, read so often that it would know them by heart: weights
    decay fast (results/README.md).
    """
    often = scale_training(tokens, cuda, epochs=40, batch=16384, learning_rate=1e-3)
    return {
        "codec": Codec(size=4000),
        "context": 256,
        "network": network(384, 6, 6, 0.2),
        "training": replace(often, weight_decay=1.5, ema=0.998),
    }


def base(tokens: int, cuda: bool) -> dict[str, Any]:
    """For billions of tokens: the measures of the smallest GPT-2."""
    return {
        "codec": Codec(size=32000),
        "context": 1024,
        "network": network(768, 12, 12, 0.0),
        "training": scale_training(tokens, cuda, epochs=1, batch=131072, learning_rate=6e-4),
    }


PRESETS: dict[str, Any] = {"tiny": tiny, "small": small, "base": base}


def recipe_for(task: Any, data: Running, tokens: int, choice: Choice = Choice()) -> Recipe:
    cuda = choice.device == "cuda"
    parts = chosen_preset(PRESETS, choice.preset or fitting_preset(tokens, cuda))(tokens, cuda)
    data = replace(data, context=parts.pop("context"))
    if choice.start is not None:
        parts["network"], parts["codec"] = choice.start.network, begun(choice.start)
        batch = parts["training"].tokens_per_batch
        few = scale_training(tokens, cuda, epochs=EPOCHS, batch=batch, learning_rate=1.0)
        parts["training"] = fine_tuned(few, parts["network"])
        data = replace(data, context=choice.start.data.context)
    if choice.network is not None:
        no_other_network(choice.network, ("transformer", "recurrent"))
        parts["network"] = replace(parts["network"], kind=choice.network)
    layout: Layout = "packed" if parts["network"].packs else "padded"
    return Recipe(task, data, layout=layout, **parts)


def begun(start: Any) -> Codec:
    if start.task != "language":
        raise ValueError(
            f"a language model starts from one; the run to start from learned {start.task}"
        )
    codec: Codec = start.codec
    return codec


# ---- from files to a job ---------------------------------------------------------------------


def prepare(gathered: Texts, recipe: Recipe, run: Run) -> None:
    lay_down(gathered, codec_of(gathered, recipe), run, framed=True)
    if recipe.start_from is not None and (chat := Chat.load(recipe.start_from / CHAT)):
        chat.save(run / CHAT)


def task_of(recipe: Recipe, codec: Text) -> Language:
    return Language(codec, recipe.network, recipe.data.context)


def job(recipe: Recipe, run: Run) -> Learning:
    return Learning(
        task_of(recipe, Text.load(run / "tokenizer.json")),
        Shard(run / "data" / "train"),
        HeldOut(Shard(run / "data" / "valid"), held_bytes(run)),
        layout=recipe.layout,
        tokens=recipe.training.tokens_per_batch,
        seed=recipe.training.seed,
    )


def model(recipe: Recipe, folder: Path, name: str) -> LanguageModel:
    task = task_of(recipe, Text.load(folder / "tokenizer.json"))
    return LanguageModel(task, task.network(), name, Chat.load(folder / CHAT))
