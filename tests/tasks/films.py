"""A few films, and what is said of them: examples for the tests of labels."""

from pathlib import Path
from typing import Any

from manyheads.codecs.text import Text
from manyheads.data.labelled import Labelled, Tagged, as_lines
from manyheads.modules.config import NetworkConfig, TransformerConfig
from manyheads.tasks.classification.corpus import LabelledShard, write_labelled
from manyheads.tasks.classification.labels import LabelledExample, Labels
from manyheads.tasks.classification.settings import ClassificationRecipe, LabelledData
from manyheads.tasks.classification.task import ClassificationTask
from manyheads.training.config import Training

KINDS = ["classification", "regression", "labelling"]
DESIGN = TransformerConfig(width=16, depth=1, heads=2, ffn_width=32, dropout=0.0)
GOOD, BAD = ["fine", "lovely", "warm"], ["dull", "awful", "cold"]


def film(i: int) -> str:
    """Even ones are good."""
    words = BAD if i % 2 else GOOD
    return " ".join(["a", *(words[(i // 2 + k) % 3] for k in range(1 + i % 5)), "film"])


LINES = [film(i) for i in range(40)]


def examples(kind: str) -> list[LabelledExample]:
    if kind == "labelling":
        tag = {**dict.fromkeys(GOOD, "B-UP"), **dict.fromkeys(BAD, "B-DOWN")}
        return [
            Tagged(line.split(), [tag.get(word, "O") for word in line.split()], i + 1)
            for i, line in enumerate(LINES)
        ]
    if kind == "regression":
        return [Labelled(line, str(10 - 4 * (i % 2)), i + 1) for i, line in enumerate(LINES)]
    return [Labelled(line, ["good", "bad"][i % 2], i + 1) for i, line in enumerate(LINES)]


def task_of(
    kind: Any,
    codec: Text,
    labels: Labels | None = None,
    design: NetworkConfig = DESIGN,
    pooling: Any = "mean",
    longest: int = 512,
    folder: Path | None = None,
    **training: Any,
) -> ClassificationTask:
    data = LabelledData(Path("train.tsv"), longest_tokens=longest)
    learned = Training(**training)
    recipe = ClassificationRecipe(kind, data, network=design, pooling=pooling, training=learned)
    labels = labels or Labels.of(kind, examples(kind), "train.tsv")
    return ClassificationTask(recipe, codec, labels, folder)


def shard_of(task: ClassificationTask, folder: Path) -> LabelledShard:
    write(task, examples(task.kind), folder / "train", "train.tsv")
    return LabelledShard.load(folder / "train")


def write(
    task: ClassificationTask, some: list[LabelledExample], path: Path, source: str = "x"
) -> int:
    return write_labelled(path, some, source, task.framer, task.labels)


def learning(
    kind: Any, codec: Text, folder: Path, held: list[LabelledExample], **settings: Any
) -> ClassificationTask:
    """With a folder of examples to train on, and these to validate on."""
    task = task_of(kind, codec, folder=folder, tokens_per_batch=256, **settings)
    (folder / "data").mkdir()
    shard_of(task, folder / "data")
    lines = "".join(f"{one}\n" for one in as_lines(held))
    (folder / "data" / "valid.jsonl").write_text(lines, encoding="utf-8")
    return task
