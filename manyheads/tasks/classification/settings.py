"""What is said about a text: settings, and good ones for those who give none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.config.declare import check, setting
from manyheads.data.labelled import Columns
from manyheads.modules.config import NETWORK_KINDS, Network, Pooling
from manyheads.tasks.language.settings import TextCodec
from manyheads.tasks.masked.settings import network as transformer
from manyheads.tasks.presets import chosen_preset, fine_tuned, no_other_network
from manyheads.tasks.recipe import Choice
from manyheads.training.config import Training

LabelKind = Literal["classification", "regression", "labelling"]
FILES = ("data", "valid_data")


@dataclass(frozen=True)
class LabelledData:
    """Where texts with labels come from."""

    data: Path | None = setting(None, "Texts with labels: .tsv, .csv, .jsonl; words: CoNLL.")
    valid_data: Path | None = setting(None, "The same, for validation.")
    columns: Columns = setting(Columns(), "Which column is what, by name or number.")
    held_out: int = setting(
        1000, "Texts to validate on, where no file for it is given; a tenth at most.", least=1
    )
    longest_tokens: int = setting(128, "Of longer texts the end is not read.", least=1, most=10**7)
    imported: Path | None = setting(None, "Where a model came from that was not trained here.")

    def __post_init__(self) -> None:
        nothing = "nothing to learn from: give data, a file of texts with labels"
        check(self, () if self.data or self.imported else (nothing,))


@dataclass(frozen=True)
class ClassificationRecipe:
    """What to learn, from what, with what."""

    task: LabelKind = setting(about="What is learned.")
    data: LabelledData = setting(about="Where it is learned from.")
    codec: TextCodec = setting(TextCodec(size=8000), "How it becomes numbers.")
    network: Network = setting(Network(), "What learns it.")
    pooling: Pooling = setting(
        "mean", "What stands for a text: the state of its first token, or the mean of all."
    )
    training: Training = setting(Training(), "How long, how fast and on how much at a time.")
    start_from: Path | None = setting(
        None, "A run or an imported model: its vocabulary, its network and its weights."
    )


# ---- presets ---------------------------------------------------------------------------------


def tiny(tokens: int, cuda: bool) -> dict[str, Any]:
    """For a first look on a laptop: minutes."""
    return {
        "codec": TextCodec(size=4000),
        "network": transformer(128, 2, 4, 0.2),
        "training": scaled(tokens, cuda, epochs=5, batch=2048, learning_rate=1e-3),
    }


def small(tokens: int, cuda: bool) -> dict[str, Any]:
    """For thousands of texts and more."""
    return {
        "codec": TextCodec(size=8000),
        "network": transformer(256, 4, 4, 0.3),
        "training": scaled(tokens, cuda, epochs=10, batch=8192, learning_rate=1e-3),
    }


PRESETS: dict[str, Any] = {"tiny": tiny, "small": small}


def scaled(tokens: int, cuda: bool, *, epochs: int, batch: int, learning_rate: float) -> Training:
    """So many epochs, validated twice in each."""
    steps = max(100, epochs * tokens // batch)
    every = max(10, steps // (2 * epochs))
    return Training(
        steps=steps,
        tokens_per_batch=batch,
        learning_rate=learning_rate,
        schedule="linear",
        warmup_steps=max(10, steps // 10),
        label_smoothing=0.1,
        precision="bfloat16" if cuda else "float32",
        validate_every=every,
        checkpoint_every=every,
        log_every=max(1, min(50, every // 2)),
        ema=0.99,
    )


def recipe_for(
    task: LabelKind, data: LabelledData, tokens: int, choice: Choice = Choice()
) -> ClassificationRecipe:
    cuda = choice.device == "cuda"
    parts = chosen_preset(PRESETS, choice.preset or ("small" if cuda else "tiny"))(tokens, cuda)
    if choice.start is not None:
        parts["network"], parts["codec"] = choice.start.network, codec_of(choice.start)
        batch = parts["training"].tokens_per_batch
        few = scaled(tokens, cuda, epochs=4, batch=batch, learning_rate=1.0)
        # A head that begins anew needs more than the rest: 8e-4 for 128, 2e-4 for 256, 2.2e-5 for
        # 768. Where little was learned before, lower rates stay far behind (results/README.md).
        rate = min(8e-4, 13 / parts["network"].width ** 2)
        parts["training"] = fine_tuned(few, parts["network"], rate)
        parts["pooling"] = getattr(choice.start, "pooling", "mean")
    if task == "regression":
        parts["training"] = replace(parts["training"], label_smoothing=0.0)
    if choice.network is not None:
        no_other_network(choice.network, NETWORK_KINDS)
        parts["network"] = replace(parts["network"], kind=choice.network)
    return ClassificationRecipe(task, data, **parts)


def codec_of(start: Any) -> TextCodec:
    if start.task not in ("masked", "embedding", "classification", "regression", "labelling"):
        raise ValueError(
            f"what judges a text starts from an encoder, masked or another of its kind; "
            f"the run to start from learned {start.task}"
        )
    codec: TextCodec = start.codec
    return codec
