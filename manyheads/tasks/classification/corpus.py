"""Labelled corpora: read labelled texts, hold some out, encode them for a run.

N examples.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.data.batches import NOTHING, split_off
from manyheads.data.filters import tell_seen
from manyheads.data.labelled import (
    ROWS,
    ColumnGuess,
    Columns,
    Tagged,
    guess_file_columns,
    read_labelled_file,
    read_tagged,
)
from manyheads.data.shards import Shard, write_shard
from manyheads.data.sources import kind_of
from manyheads.tasks.classification.frames import Frame, Framer
from manyheads.tasks.classification.labels import (
    LabelledExample,
    Labels,
    check_examples,
    parse_number,
)
from manyheads.tasks.classification.settings import ClassificationRecipe, LabelKind
from manyheads.tasks.vocabulary import CHARACTERS_A_TOKEN
from manyheads.training.files import read_tensors, write_tensors, write_text

COLUMNS = "columns.json"  # in the folder of a run


@dataclass(frozen=True)
class LabelledCorpus:
    """Examples for training and validation, and the files they are from."""

    train: list[LabelledExample]
    valid: list[LabelledExample]
    source: Path
    valid_source: Path
    guess: ColumnGuess | None = None  # of the columns of `source`

    def __str__(self) -> str:
        train, valid = ([tuple(one.texts) for one in part] for part in (self.train, self.valid))
        told = f"{len(train):,} texts to train on, {len(valid):,} to validate on"
        blank = sum(map(is_blank, (*self.train, *self.valid)))
        return told + tell_seen(train, valid) + (f", {blank:,} of both are empty" if blank else "")

    def lines(self) -> Iterator[str]:
        """Yield the texts on which a vocabulary is trained."""
        for one in self.train:
            yield from [" ".join(one.words)] if isinstance(one, Tagged) else one.texts

    @property
    def tokens(self) -> int:
        characters = sum(len(text) for one in self.train for text in one.texts)
        spaces = sum(len(one.words) for one in self.train if isinstance(one, Tagged))
        return (characters + spaces) // CHARACTERS_A_TOKEN + 2 * len(self.train)


def read_examples(
    kind: LabelKind, path: Path, columns: Columns = Columns(), guess: ColumnGuess | None = None
) -> list[LabelledExample]:
    """Read all examples of a file; for regression, refuse a label that is no number.

    A file without names is read as the one that the `guess` was made for.
    """
    if kind == "labelling":
        return [*read_tagged(path, columns)]
    found = list[LabelledExample](read_labelled_file(path, columns, guess))
    if kind == "regression":
        for one in found:
            parse_number(one.tags[0], f"{path}:{one.line}")
    return found


def gather(recipe: ClassificationRecipe) -> LabelledCorpus:
    data, source = recipe.data, recipe.data.data
    if source is None:
        raise ValueError(f"nothing to learn from: {data.imported} is a model, not labelled texts")
    if recipe.task == "regression" and recipe.training.label_smoothing:
        raise ValueError(
            "label smoothing is for classes, and regression learns a number; "
            "training.label_smoothing: 0 would do"
        )
    train = read_examples(recipe.task, source, data.columns)
    if all(map(is_blank, train)):
        raise ValueError(f"{source}: all texts are empty; the name of another column would do")
    if recipe.task == "classification" and kind_of(source) in ROWS:
        refuse_names(train, source, data.columns)
    guess = None if recipe.task == "labelling" else guess_file_columns(source, data.columns)
    if data.valid_data is not None:
        valid = read_examples(recipe.task, data.valid_data, data.columns, guess)
        return LabelledCorpus(train, valid, source, data.valid_data, guess)
    count = min(data.held_out, len(train) // 10)
    if not count:
        texts = "1 text" if len(train) == 1 else f"{len(train)} texts"
        ends = " (a blank line ends one)" if recipe.task == "labelling" else ""
        raise ValueError(
            f"{source} has {texts}{ends}, too few to hold some out for validation; "
            "give --valid-data, or 10 texts at least"
        )
    order = np.random.default_rng([recipe.training.seed, 1]).permutation(len(train)).tolist()
    may = order if recipe.task == "regression" else find_spare(train, order)
    held = {*islice(may, count)}
    if not held:
        raise ValueError(
            f"{source}: no label is met twice, none can be held out for validation; "
            "give --valid-data"
        )
    return LabelledCorpus(*split_off(train, held), source, source, guess)


def is_blank(example: LabelledExample) -> bool:
    return not "".join(example.texts).strip()


def refuse_names(examples: Sequence[LabelledExample], source: Path, columns: Columns) -> None:
    """Refuse a first line that looks like column names: its label is met only once, and no other
    one is; or, unless columns are given by number, its text is one word and most others are not.
    """
    first, often = examples[0], Counter(label for one in examples for label in one.tags)
    alone = [label for label in often if often[label] == 1]
    words = sum(len(one.texts[0].split()) > 1 for one in examples) > len(examples) / 2
    numbered = (columns.text + columns.label).isdigit()
    short = words and len(first.texts[0].split()) == 1 and not numbered
    if first.line == 1 and first.tags[0] in alone and (alone == first.tags or short):
        text, (label,) = first.texts[0], first.tags
        raise ValueError(
            f"{source}:1: no other line has the label {label!r}; if it names a column, "
            f"data.columns.text={shlex.quote(text)} data.columns.label={shlex.quote(label)} "
            "says so, else leave that line out"
        )


def find_spare(examples: Sequence[LabelledExample], order: Sequence[int]) -> Iterator[int]:
    """Yield examples that may be held out: the training set keeps each of their labels."""
    left = Counter(tag for one in examples for tag in set(one.tags))
    for i in order:
        tags = set(examples[i].tags)
        if all(left[tag] > 1 for tag in tags):
            left.subtract(tags)
            yield i


def write_guess(folder: Path, guess: ColumnGuess | None) -> None:
    """Keep in a run which columns were guessed, if any."""
    if guess is not None:
        write_text(folder / COLUMNS, json.dumps(guess._asdict()) + "\n")


def read_guess(folder: Path) -> ColumnGuess | None:
    path = folder / COLUMNS
    return ColumnGuess(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


# ---- encoded ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelledShard:
    """Encoded texts, and the label of each text; for tagging, of all tokens end to end."""

    texts: Shard
    turns: NDArray[np.int64]  # (N)
    wanted: NDArray[Any]  # (N), or of every token: NOTHING if it does not begin a word

    @staticmethod
    def load(path: Path) -> LabelledShard:
        held, _ = read_tensors(labels_beside(path))
        found = LabelledShard(Shard(path), held["turns"].numpy(), held["wanted"].numpy())
        if len(found.turns) != len(found.texts):
            raise ValueError(
                f"{path} has {len(found.texts)} texts and labels for {len(found.turns)}; "
                "they are not of one corpus"
            )
        return found


def labels_beside(path: Path) -> Path:
    """data/train -> data/train.labels.safetensors"""
    return path.with_name(f"{path.name}.labels.safetensors")


def write_labelled(
    path: Path,
    examples: Sequence[LabelledExample],
    source: Path | str,
    framer: Framer,
    labels: Labels,
) -> int:
    """Encode examples read from `source` to disk; return how many were too long and cut."""
    wanted = torch.cat(encode_labels(framer.kind, labels, examples, source))
    frames = framer.frames([one.texts for one in examples])
    write_shard(path, (frame.ids for frame in frames), framer.codec.size)
    if framer.kind == "labelling":
        tags = wanted
        wanted = torch.full((sum(len(frame.ids) for frame in frames),), NOTHING)
        wanted[torch.from_numpy(word_starts(frames))] = tags
    turns = torch.tensor([frame.turn for frame in frames])
    write_tensors(labels_beside(path), {"turns": turns, "wanted": wanted}, {"kind": framer.kind})
    return len({frame.text for frame in frames if frame.cut})


def encode_labels(
    kind: LabelKind, labels: Labels, examples: Sequence[LabelledExample], source: Path | str
) -> list[Tensor]:
    """Return one number for each example, or one for each of its words."""
    check_examples(kind, examples)
    number = labels.scale_number if kind == "regression" else labels.number
    dtype = torch.float32 if kind == "regression" else torch.long
    return [
        torch.tensor([number(tag, f"{source}:{one.line}") for tag in one.tags], dtype=dtype)
        for one in examples
    ]


def word_starts(frames: Sequence[Frame]) -> NDArray[np.int64]:
    """Return where the words of all frames begin, with the frames end to end."""
    ends = np.cumsum([len(frame.ids) for frame in frames])
    starts = [
        ends[i] - len(frame.ids) + np.array(frame.words, int) for i, frame in enumerate(frames)
    ]
    return np.concatenate(starts)
