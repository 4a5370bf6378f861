"""What is said about a text: settings, and good ones for those who give none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.codecs.text import Text
from manyheads.config.declare import check, setting
from manyheads.data.labelled import (
    Columns,
    Labelled,
    Tagged,
    as_lines,
    describe_columns,
    labelled,
    tagged,
)
from manyheads.modules.build import BUILDERS, Network
from manyheads.modules.heads import Pooling
from manyheads.tasks.classification.batches import Corpus, lay_down
from manyheads.tasks.classification.labels import Kind, Labels, tags_of
from manyheads.tasks.classification.model import Judge
from manyheads.tasks.classification.predictions import Learning
from manyheads.tasks.classification.task import Judging
from manyheads.tasks.language.corpus import TextCodec
from manyheads.tasks.masked.settings import network as transformer
from manyheads.tasks.presets import chosen_preset, fine_tuned, no_other_network
from manyheads.tasks.task import Choice
from manyheads.training.config import Training
from manyheads.training.files import write_text
from manyheads.training.run import CORPUS, Run

FILES: tuple[str, ...] = ("data", "valid_data")
USE = "classify"
LABELS = "labels.json"
CHARACTERS_A_TOKEN = 4  # about

Example = Labelled | Tagged


@dataclass(frozen=True)
class Data:
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
class Recipe:
    """What to learn, from what, with what."""

    task: Kind = setting(about="What is learned.")
    data: Data = setting(about="Where it is learned from.")
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


def recipe_for(task: Kind, data: Data, tokens: int, choice: Choice = Choice()) -> Recipe:
    cuda = choice.device == "cuda"
    parts = chosen_preset(PRESETS, choice.preset or ("small" if cuda else "tiny"))(tokens, cuda)
    if choice.start is not None:
        parts["network"], parts["codec"] = choice.start.network, begun(choice.start)
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
        no_other_network(choice.network, tuple(BUILDERS))
        parts["network"] = replace(parts["network"], kind=choice.network)
    return Recipe(task, data, **parts)


def begun(start: Any) -> TextCodec:
    if start.task not in ("masked", "embedding", "classification", "regression", "labelling"):
        raise ValueError(
            f"what judges a text starts from an encoder, masked or another of its kind; "
            f"the run to start from learned {start.task}"
        )
    codec: TextCodec = start.codec
    return codec


# ---- from files to a job ---------------------------------------------------------------------


@dataclass(frozen=True)
class Gathered:
    """Examples to train on and to validate on, and the files they are from."""

    train: list[Example]
    valid: list[Example]
    source: Path
    valid_source: Path


def data_of(files: Mapping[str, Any]) -> Data:
    return Data(**files)


def read(kind: Kind, path: Path, columns: Columns) -> list[Example]:
    return list(tagged(path)) if kind == "labelling" else list(labelled(path, columns))


def gather(recipe: Recipe) -> Gathered:
    data, seed = recipe.data, recipe.training.seed
    source = data.data
    if source is None:
        raise ValueError(f"nothing to learn from: {data.imported} is a model, not labelled texts")
    train = read(recipe.task, source, data.columns)
    if data.valid_data is not None:
        valid = read(recipe.task, data.valid_data, data.columns)
        return Gathered(train, valid, source, data.valid_data)
    count = min(data.held_out, len(train) // 10)
    if not count:
        texts = "1 text" if len(train) == 1 else f"{len(train)} texts"
        raise ValueError(
            f"{source} has {texts}, too few to hold some out for validation; "
            "give --valid-data, or 10 texts at least"
        )
    order = np.random.default_rng([seed, 1]).permutation(len(train)).tolist()
    may = order if recipe.task == "regression" else spared(train, order)
    held = {*islice(may, count)}
    if not held:
        raise ValueError(
            f"{source}: no label is met twice, none can be held out for validation; "
            "give --valid-data"
        )
    kept = [one for i, one in enumerate(train) if i not in held]
    return Gathered(kept, [train[i] for i in sorted(held)], source, source)


def spared(examples: Sequence[Example], order: Sequence[int]) -> Iterator[int]:
    """Those whose labels training still meets without them: others could not be judged."""
    left = Counter(tag for one in examples for tag in set(tags_of(one)))
    for i in order:
        tags = set(tags_of(examples[i]))
        if all(left[tag] > 1 for tag in tags):
            left.subtract(tags)
            yield i


def tokens(gathered: Gathered, recipe: Recipe) -> int:
    return sum(map(length, gathered.train)) // CHARACTERS_A_TOKEN + 2 * len(gathered.train)


def length(one: Example) -> int:
    if isinstance(one, Tagged):
        return sum(len(word) + 1 for word in one.words)
    return len(one.text) + len(one.second)


def counted(gathered: Gathered) -> str:
    return f"{len(gathered.train):,} texts to train on, {len(gathered.valid):,} to validate on"


def codec_of(gathered: Gathered, recipe: Recipe) -> Text:
    if recipe.start_from is not None:
        return Text.load(recipe.start_from / "tokenizer.json")
    lines = (line for one in gathered.train for line in texts(one))
    return Text.train(lines, recipe.codec.kind, recipe.codec.size, masked=True)


def texts(one: Example) -> list[str]:
    return [" ".join(one.words)] if isinstance(one, Tagged) else [one.text, one.second]


def prepare(gathered: Gathered, recipe: Recipe, run: Run) -> None:
    (run / "data").mkdir(exist_ok=True)
    source = gathered.source
    codec_of(gathered, recipe).save(run / "tokenizer.json")
    Labels.of(recipe.task, gathered.train, gathered.source).save(run / LABELS)
    task = task_of(recipe, run.folder)
    cut = lay_down(task, gathered.train, run / "data" / "train", gathered.source)
    lay_down(task, gathered.valid, run / "data" / "valid", gathered.valid_source)
    write_text(run / "data" / "valid.jsonl", "".join(f"{o}\n" for o in as_lines(gathered.valid)))
    shortened = (
        f"\n  {cut:,} longer than {task.room} tokens: their ends are not read" if cut else ""
    )
    took = "" if recipe.task == "labelling" else describe_columns(source, recipe.data.columns)
    run.text(CORPUS, f"{counted(gathered)}{took and f'; {took}'}{shortened}\n")


def task_of(recipe: Recipe, folder: Path) -> Judging:
    return Judging(
        recipe.task,
        Text.load(folder / "tokenizer.json"),
        Labels.load(folder / LABELS),
        recipe.network,
        recipe.pooling,
        recipe.data.longest_tokens,
    )


def job(recipe: Recipe, run: Run) -> Learning:
    return Learning(
        task_of(recipe, run.folder),
        Corpus.load(run / "data" / "train"),
        read(recipe.task, run / "data" / "valid.jsonl", Columns()),
        tokens=recipe.training.tokens_per_batch,
        seed=recipe.training.seed,
    )


def model(recipe: Recipe, folder: Path, name: str) -> Judge:
    task = task_of(recipe, folder)
    return Judge(task, task.network(), name)
