"""Texts with what is to be said about them: as numbers on disk, and as batches.

N examples, B rows, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.data.batches import Padding, Row
from manyheads.data.layout import NOTHING
from manyheads.data.shards import Shard
from manyheads.data.shards import write as write_shard
from manyheads.modules.transformer import Tokens
from manyheads.tasks.classification.labels import Example, suit, tags_of
from manyheads.tasks.classification.task import Batch, Frame, Judging, readable
from manyheads.training.files import read_tensors, write_tensors


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts as they are read, and what is wanted of each; or of each token, end to end."""

    texts: Shard
    turns: NDArray[np.int64]  # (N)
    wanted: NDArray[Any]  # (N), or of every token: NOTHING where it begins no word

    @staticmethod
    def load(path: Path) -> Corpus:
        held, _ = read_tensors(labels_beside(path))
        found = Corpus(Shard(path), held["turns"].numpy(), held["wanted"].numpy())
        if len(found.turns) != len(found.texts):
            raise ValueError(
                f"{path} has {len(found.texts)} texts and labels for {len(found.turns)}; "
                "they are not of one corpus"
            )
        return found


def labels_beside(path: Path) -> Path:
    """data/train -> data/train.labels.safetensors"""
    return path.with_name(f"{path.name}.labels.safetensors")


def lay_down(task: Judging, examples: Sequence[Example], path: Path, source: Path | str) -> int:
    """Examples read from `source` as numbers on disk; gives how many were too long and cut."""
    wanted = wanted_of(task, examples, source)
    frames = task.frames([readable(one) for one in examples])
    write_shard(path, (frame.ids for frame in frames), task.codec.size)
    if task.kind == "labelling":
        spread = torch.full((sum(len(frame.ids) for frame in frames),), NOTHING)
        spread[torch.from_numpy(places(frames))] = torch.cat(wanted)
        wanted = [spread]
    turns = torch.tensor([frame.turn for frame in frames])
    tensors = {"turns": turns, "wanted": torch.cat(wanted)}
    write_tensors(labels_beside(path), tensors, {"kind": task.kind})
    return len({frame.text for frame in frames if frame.cut})


def wanted_of(task: Judging, examples: Sequence[Example], source: Path | str) -> list[Tensor]:
    """Of each example one number, or one for each of its words."""
    suit(task.kind, examples)
    if task.kind == "regression":
        return [
            torch.tensor([task.labels.scaled(tags_of(one)[0], f"{source}:{one.line}")])
            for one in examples
        ]
    numbers = {name: i for i, name in enumerate(task.labels.names)}

    def number_of(tag: str, line: int) -> int:
        return numbers[tag] if tag in numbers else task.labels.number(tag, f"{source}:{line}")

    return [
        torch.tensor([number_of(tag, one.line) for tag in tags_of(one)], dtype=torch.long)
        for one in examples
    ]


def places(frames: Sequence[Frame]) -> NDArray[np.int64]:
    """Where the words of all frames begin, if the frames lie end to end."""
    ends = np.cumsum([len(frame.ids) for frame in frames])
    starts = [
        ends[i] - len(frame.ids) + np.array(frame.words, int) for i, frame in enumerate(frames)
    ]
    return np.concatenate(starts)


class Batches:
    """Which texts make which batch, and the batches: a text a row, like lengths together."""

    unit = "texts"

    def __init__(self, task: Judging, corpus: Corpus, tokens: int, seed: int = 0):
        self.task, self.corpus, self.seed = task, corpus, seed
        self.plan, self.lengths = Padding(tokens), corpus.texts.lengths
        self.weights = np.ones_like(self.lengths)
        if task.kind == "labelling":
            tagged = np.cumsum(np.append(0, corpus.wanted != NOTHING))
            self.weights = np.diff(tagged[corpus.texts.ends], prepend=0)

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    def epoch(self, number: int) -> list[list[Row]]:
        return self.plan.batches(self.lengths[:, None], seed=self.seed, epoch=number)

    def count(self, rows: Sequence[Row]) -> int:
        """Texts, or words that have a tag."""
        return int(self.weights[[row[0] for row in rows]].sum())

    def area(self, rows: Sequence[Row]) -> int:
        return len(rows) * int(self.lengths[[row[0] for row in rows]].max())

    def share(self, rows: list[Row], part: int, parts: int) -> list[Row]:
        return rows[part::parts]

    def batch(self, rows: Sequence[Row]) -> Batch:
        """No rows are one of which nothing is wanted."""
        task, corpus, chosen = self.task, self.corpus, [row[0] for row in rows]
        if not chosen:
            none = math.nan if task.kind == "regression" else NOTHING
            wanted = torch.full((1, 1) if task.kind == "labelling" else (1,), none)
            return Batch(task.laid_out([[task.codec.signs.stop]], [1]), wanted)
        ids = [corpus.texts[i].astype(np.int64) for i in chosen]
        tokens = task.laid_out(ids, corpus.turns[chosen].tolist())
        if task.kind != "labelling":
            return Batch(tokens, torch.from_numpy(corpus.wanted[chosen]))
        ends = corpus.texts.ends[chosen]
        tags = [corpus.wanted[e - len(row) : e].tolist() for e, row in zip(ends, ids, strict=True)]
        return Batch(tokens, Tokens.padded(tags, NOTHING).ids)
