"""What is said about a text: its class, a number, or a tag for each of its words.

N examples, B rows, T tokens, C classes, D model width.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from manyheads.attention.positions import Learned
from manyheads.codecs.text import Text
from manyheads.data.batches import Padding, Row
from manyheads.data.labelled import Labelled, Tagged
from manyheads.data.shards import Shard
from manyheads.data.shards import write as write_shard
from manyheads.metrics.labels import (
    accuracy,
    macro_f1,
    marks_spans,
    pearson,
    rmse,
    span_f1,
    spearman,
)
from manyheads.metrics.measured import Measured
from manyheads.model.build import Network, reader
from manyheads.model.heads import Pooling, Reader, mean
from manyheads.model.networks import Encoder, Tokens, embedded
from manyheads.tasks.pairs import NOTHING
from manyheads.tasks.writing import alike
from manyheads.training.course import Sample
from manyheads.training.files import read_tensors, write_tensors, write_text

Kind = Literal["classification", "regression", "labelling"]
Example = Labelled | Tagged
Readable = str | tuple[str, str] | Sequence[str]  # a text, two, or words

SHOWN = 5  # texts of which every validation leaves a sample
AT_ONCE = 16384  # tokens


# ---- labels ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """The names of the classes in sorted order; or, for numbers, their mean and spread."""

    names: tuple[str, ...] = ()
    mean: float = 0.0
    spread: float = 1.0

    @staticmethod
    def of(kind: Kind, examples: Sequence[Example], source: Path | str) -> Labels:
        """What the examples of training are labelled with."""
        suit(kind, examples)
        if kind == "regression":
            values = np.array([number(tags_of(one)[0], f"{source}:{one.line}") for one in examples])
            if np.ptp(values) == 0:
                raise ValueError(
                    f"{source}: every text has the number {values[0]:g}; nothing can be learned "
                    "where nothing changes"
                )
            return Labels(mean=float(values.mean()), spread=float(values.std()))
        names = {tag for one in examples for tag in tags_of(one)}
        if len(names) < 2:
            raise ValueError(
                f"{source}: {', '.join(map(repr, names))} is the only label; two or more are needed"
            )
        return Labels(tuple(sorted(names)))

    def number(self, label: str, where: str) -> int:
        """The class of this name."""
        try:
            return self.names.index(label)
        except ValueError:
            raise ValueError(
                f"{where}: label {label!r} was never seen in training; "
                f"there are {', '.join(self.names)}"
            ) from None

    def scaled(self, label: str, where: str) -> float:
        """A number as the network is to say it."""
        return (number(label, where) - self.mean) / self.spread

    def value(self, scaled: float) -> float:
        """A number as the network says it, in the measure of the texts."""
        return scaled * self.spread + self.mean

    def save(self, path: Path) -> None:
        held = {"names": self.names} if self.names else {"mean": self.mean, "spread": self.spread}
        write_text(path, json.dumps(held, ensure_ascii=False, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Labels:
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            if "names" in held:
                return Labels(tuple(str(name) for name in held["names"]))
            return Labels(mean=float(held["mean"]), spread=float(held["spread"]))
        except FileNotFoundError:
            raise ValueError(f"there is no {path}: it says what the labels are") from None
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} does not say what the labels are") from None


def number(label: str, where: str) -> float:
    try:
        value = float(label)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: a number was asked for, {label!r} is here")
    return value


def tags_of(one: Example) -> list[str]:
    return one.tags if isinstance(one, Tagged) else [one.label]


def suit(kind: Kind, examples: Sequence[Example]) -> None:
    for one in examples:
        if isinstance(one, Tagged) != (kind == "labelling"):
            asked = "words with a tag each" if kind == "labelling" else "texts with one label each"
            raise ValueError(f"{kind} is learned from {asked}, a {type(one).__name__} arrived")


# ---- the task --------------------------------------------------------------------------------


class Frame(NamedTuple):
    """A text as it is read, its signs around it."""

    ids: list[int]
    turn: int  # where the second text begins; the end where there is none
    text: int  # the number of the text it is of, or is a part of
    words: tuple[int, ...] = ()  # where the first token of each word stands, where words are tagged
    cut: int = 0  # tokens that were too many


class Batch(NamedTuple):
    """Texts, and what is to be said about them."""

    tokens: Tokens
    wanted: Tensor  # (B) or (B, T) classes, NOTHING where nothing is; or (B) numbers, then NaN

    def to(self, device: torch.device | str) -> Batch:
        return Batch(self.tokens.to(device), self.wanted.to(device))


@dataclass(frozen=True, eq=False)
class Judging:
    """A task of this kind with its vocabulary, its labels and its network."""

    kind: Kind
    codec: Text
    labels: Labels
    design: Network
    pooling: Pooling = "mean"
    longest: int = 512  # tokens of a text with its signs; of longer ones the end is not read

    def __post_init__(self) -> None:
        if self.room < self.signs + 1:
            raise ValueError(
                f"a text has {self.signs} signs around it and needs a token of its own, "
                f"room for {self.room} is too little"
            )

    @property
    def signs(self) -> int:
        """Those around a text."""
        return len(self.codec.signs.opens) + 1

    @property
    def room(self) -> int:
        learned = self.design.kind == "transformer" and self.design.position == "learned"
        return min(self.longest, self.design.longest) if learned else self.longest

    @property
    def outcomes(self) -> int:
        return 1 if self.kind == "regression" else len(self.labels.names)

    def network(self) -> Reader:
        pooling = None if self.kind == "labelling" else self.pooling
        return reader(self.design, self.codec.size, self.outcomes, pooling)

    def loss(self, network: Any, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Summed over texts, or over words that have a tag."""
        return self.lost(network(batch.tokens), batch.wanted, smoothing)

    def lost(self, scores: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """Scores (..., C) and what is wanted of them (...); for a number, the squared distance."""
        if self.kind != "regression":
            return F.cross_entropy(
                scores.flatten(0, -2).float(),
                wanted.flatten(),
                label_smoothing=smoothing,
                reduction="sum",
            )
        said = scores[..., 0].float()
        return F.mse_loss(said, torch.where(wanted.isnan(), said, wanted), reduction="sum")

    # ---- from text to what is read ------------------------------------------------------------

    def frames(self, read: Sequence[Readable]) -> list[Frame]:
        """One for each text; several for a text of so many words that they do not fit into one."""
        if isinstance(read, str):
            raise ValueError("texts come as a list, got one text; [text] would do")
        if self.kind == "labelling":
            sentences = [one.split() if isinstance(one, str) else list(one) for one in read]
            return list(self.sentences(sentences))
        pairs = [pair_of(one) for one in read]
        firsts = self.codec.encode_all([first for first, _ in pairs])
        seconds = self.codec.encode_all([second for _, second in pairs])
        return [
            self.framed(i, first, second if pairs[i][1] else None)
            for i, (first, second) in enumerate(zip(firsts, seconds, strict=True))
        ]

    def framed(self, i: int, first: list[int], second: list[int] | None) -> Frame:
        """[*opens, first, stop, second, stop]: of two texts too long, the longer gives way."""
        signs = self.codec.signs
        if second is None:
            kept = first[: self.room - self.signs]
            ids = [*signs.opens, *kept, signs.stop]
            return Frame(ids, len(ids), i, cut=len(first) - len(kept))
        room = max(0, self.room - self.signs - 1)
        after = second[: max(room // 2, room - len(first))]
        kept = first[: room - len(after)]
        ids = [*signs.opens, *kept, signs.stop, *after, signs.stop]
        cut = len(first) + len(second) - len(kept) - len(after)
        return Frame(ids, len(ids) - len(after) - 1, i, cut=cut)

    def sentences(self, sentences: Sequence[Sequence[str]]) -> Iterator[Frame]:
        """Words are read as they would be in a text, but each has tokens of its own."""
        signs = self.codec.signs
        spaced = [f" {w}" if i else w for words in sentences for i, w in enumerate(words)]
        pieces = iter(self.codec.encode_all(spaced))
        nothing = signs.stop if signs.unknown is None else signs.unknown
        most = self.room - self.signs
        for i, words in enumerate(sentences):
            ids, starts, cut = list(signs.opens), list[int](), 0
            for _ in words:
                word = next(pieces) or [nothing]  # a word of characters that a codec leaves out
                word, cut = word[:most], cut + len(word[most:])
                if len(ids) + len(word) >= self.room:  # the stop takes room too
                    yield Frame([*ids, signs.stop], len(ids) + 1, i, tuple(starts), cut)
                    ids, starts, cut = list(signs.opens), [], 0
                starts.append(len(ids))
                ids += word
            yield Frame([*ids, signs.stop], len(ids) + 1, i, tuple(starts), cut)

    def laid_out(self, rows: Sequence[Any], turns: Sequence[int]) -> Tokens:
        """Framed texts as a batch; which tokens are of a second text only if the network asks."""
        tokens = Tokens.padded(rows, self.codec.signs.pad)
        if self.design.types < 2:
            return tokens
        step = torch.arange(tokens.ids.shape[1])
        ends = torch.tensor([len(row) for row in rows])[:, None]
        second = (step >= torch.tensor(turns)[:, None]) & (step < ends)
        return replace(tokens, types=second.long())


def pair_of(one: Readable) -> tuple[str, str]:
    if isinstance(one, str):
        return one, ""
    if isinstance(one, tuple) and len(one) == 2:
        return one
    raise ValueError(f"a text or a pair of texts (text, second) is judged, got {one!r}")


def readable(one: Example) -> Readable:
    return one.words if isinstance(one, Tagged) else (one.text, one.second)


# ---- a corpus on disk, and its batches -------------------------------------------------------


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

    return [torch.tensor([number_of(tag, one.line) for tag in tags_of(one)]) for one in examples]


def places(frames: Sequence[Frame]) -> NDArray[np.int64]:
    """Where the words of all frames begin, if the frames lie end to end."""
    ends = np.cumsum([len(frame.ids) for frame in frames])
    starts = [
        ends[i] - len(frame.ids) + np.array(frame.words, int) for i, frame in enumerate(frames)
    ]
    return np.concatenate(starts)


class Batches:
    """Which texts make which batch, and the batches: a text a row, like lengths together."""

    def __init__(self, task: Judging, corpus: Corpus, tokens: int, seed: int = 0):
        self.task, self.corpus, self.seed = task, corpus, seed
        self.plan, self.lengths = Padding(tokens), corpus.texts.lengths
        self.weights = np.ones_like(self.lengths)
        if task.kind == "labelling":
            tagged = np.cumsum(np.append(0, corpus.wanted != NOTHING))
            self.weights = np.diff(tagged[corpus.texts.ends], prepend=0)

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


# ---- verdicts --------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """The likeliest class of a text."""

    label: str
    probability: float
    probabilities: dict[str, float]
    cut: int = 0  # tokens of the text that were not read

    def __str__(self) -> str:
        return f"{self.label} ({self.probability:.0%})"


class Value(NamedTuple):
    """The number that a text is given."""

    value: float
    cut: int = 0

    def __str__(self) -> str:
        return f"{self.value:.4g}"


class Tags(NamedTuple):
    """The likeliest tag of each word."""

    tags: list[str]
    probabilities: list[float]
    cut: int = 0

    def __str__(self) -> str:
        return " ".join(self.tags)


Judged = Verdict | Value | Tags


def judge_texts(
    task: Judging, network: Any, read: Sequence[Readable], tokens: int = AT_ONCE
) -> list[Judged]:
    """What the network says about each, in their order; about so many `tokens` at once.

    A text, or two as (text, second); where words are tagged, a list of words or a text to split.
    """
    frames = task.frames(read)
    return verdicts(task, frames, scores_of(task, network, frames, tokens))


@torch.no_grad()
def scores_of(
    task: Judging, network: Any, frames: Sequence[Frame], tokens: int = AT_ONCE
) -> list[Tensor]:
    """Of each frame (1, C), or (words, C)."""
    network.eval()
    device = next(network.parameters()).device
    found: dict[int, Tensor] = {}
    for rows in alike([frame.ids for frame in frames], tokens):
        some = [frames[i] for i in rows]
        batch = task.laid_out([f.ids for f in some], [f.turn for f in some]).to(device)
        for i, scores in zip(rows, network(batch).float().cpu(), strict=True):
            tagged = task.kind == "labelling"
            found[i] = scores[list(frames[i].words)] if tagged else scores[None]
    return [found[i] for i in range(len(frames))]


def verdicts(task: Judging, frames: Sequence[Frame], scores: Sequence[Tensor]) -> list[Judged]:
    """One for each text; the parts of a text that was too long for one frame are put together."""
    names, found = task.labels.names, list[Judged]()
    for frame, score in zip(frames, scores, strict=True):
        if task.kind == "regression":
            found.append(Value(task.labels.value(score.item()), frame.cut))
            continue
        chances = score.softmax(-1)
        if task.kind == "classification":
            each = dict(zip(names, chances[0].tolist(), strict=True))
            best = int(chances[0].argmax())
            found.append(Verdict(names[best], each[names[best]], each, frame.cut))
            continue
        most = chances.max(-1)
        tags = Tags([names[i] for i in most.indices.tolist()], most.values.tolist(), frame.cut)
        if frame.text == len(found) - 1:
            before = found.pop()
            assert isinstance(before, Tags)
            tags = Tags(
                before.tags + tags.tags,
                before.probabilities + tags.probabilities,
                before.cut + tags.cut,
            )
        found.append(tags)
    return found


# ---- learning --------------------------------------------------------------------------------


class Learning:
    """The task as a run learns it."""

    def __init__(
        self, task: Judging, corpus: Corpus, held_out: Sequence[Example], tokens: int, seed: int
    ):
        self.task, self.held_out = task, held_out
        self.plan = Batches(task, corpus, tokens, seed)
        self.wanted = wanted_of(task, held_out, "the texts to validate on")
        self.frames = task.frames([readable(one) for one in held_out])
        self.shown = range(0, len(held_out), max(1, len(held_out) // SHOWN))[:SHOWN]

    def network(self) -> Reader:
        return self.task.network()

    def loss(self, network: Any, batch: Batch, smoothing: float) -> Tensor:
        return self.task.loss(network, batch, smoothing)

    def judge(self, network: Any) -> tuple[dict[str, float], list[Sample]]:
        scores = scores_of(self.task, network, self.frames)
        given = verdicts(self.task, self.frames, scores)
        said, wanted = torch.cat(scores), torch.cat(self.wanted)
        measured = measures(self.task.kind, given, self.held_out)
        samples = [sample(self.held_out[i], given[i]) for i in self.shown]
        loss = self.task.lost(said, wanted).item() / len(wanted)
        return {
            **{name: round(one.value, 4) for name, one in measured.items()},
            "loss": loss,
        }, samples


def measures(
    kind: Kind, given: Sequence[Judged], examples: Sequence[Example]
) -> dict[str, Measured]:
    """The one that counts first."""
    if kind == "regression":
        said = [one.value for one in given if isinstance(one, Value)]
        meant = [float(tags_of(one)[0]) for one in examples]
        numeric = {"spearman": spearman, "pearson": pearson, "rmse": rmse}
        return {name: of(said, meant) for name, of in numeric.items()}
    outputs = [one.tags if isinstance(one, Tags) else [str(one[0])] for one in given]
    references = [tags_of(one) for one in examples]
    flat = [tag for tags in outputs for tag in tags], [tag for tags in references for tag in tags]
    if kind == "labelling" and marks_spans(flat[1]):
        return {"f1": span_f1(outputs, references), "accuracy": accuracy(*flat)}
    return {"accuracy": accuracy(*flat), "f1": macro_f1(*flat)}


def sample(one: Example, given: Judged) -> Sample:
    if isinstance(one, Tagged):
        return Sample(" ".join(one.words), " ".join(one.tags), str(given))
    return Sample(" | ".join(filter(None, (one.text, one.second))), one.label, str(given))


# ---- vectors ---------------------------------------------------------------------------------


@torch.no_grad()
def embed(
    encoder: nn.Module,
    codec: Text,
    read: Sequence[str],
    pooling: Pooling = "mean",
    normalise: bool = True,
    tokens: int = AT_ONCE,
) -> NDArray[np.float32]:
    """A vector for each text, (N, D), in their order: alike where the texts are.

    Of any network that reads: what stands on its encoder is not asked. The end of a text that is
    longer than a learned position reaches is not read, and a warning says of how many.
    """
    if isinstance(read, str):
        raise ValueError("texts come as a list, got one text; [text] would do")
    if pooling not in ("first", "mean"):
        raise ValueError(f"a text is pooled by first or mean, got {pooling!r}")
    encoder = encoder.encoder if isinstance(encoder, Reader) else encoder
    encoder.eval()
    signs, device = codec.signs, next(encoder.parameters()).device
    encoded, room = codec.encode_all(list(read)), reach(encoder) - len(signs.opens) - 1
    if over := sum(len(ids) > room for ids in encoded):
        warnings.warn(
            f"{over} of {len(read)} texts are longer than the {reach(encoder)} tokens this encoder "
            "reaches; their ends were not read",
            stacklevel=2,
        )
    framed = [[*signs.opens, *ids[:room], signs.stop] for ids in encoded]
    found: dict[int, Tensor] = {}
    for rows in alike(framed, tokens):
        batch = Tokens.padded([framed[i] for i in rows], signs.pad).to(device)
        states = states_of(encoder, batch)
        vectors = states[:, 0] if pooling == "first" else mean(states, batch)
        vectors = F.normalize(vectors, dim=-1) if normalise else vectors
        found |= dict(zip(rows, vectors.float().cpu(), strict=True))
    if not found:
        return np.zeros((0, 0), np.float32)
    return torch.stack([found[i] for i in range(len(framed))]).numpy()


def reach(encoder: nn.Module) -> int:
    """How many tokens it can read: a learned position knows only so many places."""
    position = getattr(getattr(encoder, "stack", None), "position", None)
    return position.sizes[0] if isinstance(position, Learned) else sys.maxsize


def states_of(encoder: nn.Module, tokens: Tokens) -> Tensor:
    """(B, T, D), whatever head stands on the encoder."""
    if not isinstance(encoder, Encoder):
        return encoder(tokens)
    x = embedded(encoder.embedding, tokens)
    return encoder.stack(x, tokens.at, tokens.seen)
