"""A few films, and what is said of them: examples for the tests of labels."""

from pathlib import Path
from typing import Any

from manyheads.codecs.text import Text
from manyheads.data.labelled import Labelled, Tagged
from manyheads.modules.build import Network
from manyheads.tasks.classification.batches import Corpus, lay_down
from manyheads.tasks.classification.labels import Example, Labels
from manyheads.tasks.classification.task import Judging

KINDS = ["classification", "regression", "labelling"]
DESIGN = Network(width=16, depth=1, heads=2, inner=32, dropout=0.0)
GOOD, BAD = ["fine", "lovely", "warm"], ["dull", "awful", "cold"]


def film(i: int) -> str:
    """Even ones are good."""
    words = BAD if i % 2 else GOOD
    return " ".join(["a", *(words[(i // 2 + k) % 3] for k in range(1 + i % 5)), "film"])


LINES = [film(i) for i in range(40)]


def examples(kind: str) -> list[Example]:
    if kind == "labelling":
        tag = {**dict.fromkeys(GOOD, "B-UP"), **dict.fromkeys(BAD, "B-DOWN")}
        return [
            Tagged(line.split(), [tag.get(word, "O") for word in line.split()], i + 1)
            for i, line in enumerate(LINES)
        ]
    if kind == "regression":
        return [Labelled(line, str(10 - 4 * (i % 2)), i + 1) for i, line in enumerate(LINES)]
    return [Labelled(line, ["good", "bad"][i % 2], i + 1) for i, line in enumerate(LINES)]


def task_of(kind: Any, codec: Text, **settings: Any) -> Judging:
    labels = Labels.of(kind, examples(kind), "train.tsv")
    return Judging(kind, codec, labels, settings.pop("design", DESIGN), **settings)


def corpus_of(task: Judging, folder: Path) -> Corpus:
    lay_down(task, examples(task.kind), folder / "train", "train.tsv")
    return Corpus.load(folder / "train")
