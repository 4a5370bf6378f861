"""What a network says about a text, and how right it is.

C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyheads.data.labelled import Tagged
from manyheads.data.layout import alike
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
from manyheads.modules.heads import Reader
from manyheads.tasks.classification.batches import Batches, Corpus, wanted_of
from manyheads.tasks.classification.labels import Example, Kind, tags_of
from manyheads.tasks.classification.task import Batch, Frame, Judging, Readable, readable
from manyheads.tasks.task import Sample
from manyheads.threads import sharing, using, work_of

SHOWN = 5  # texts of which every validation leaves a sample
AT_ONCE = 16384  # tokens


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
    device, work = next(network.parameters()).device, work_of(network)
    found: dict[int, Tensor] = {}
    for rows in alike([frame.ids for frame in frames], tokens):
        some = [frames[i] for i in rows]
        batch = task.laid_out([f.ids for f in some], [f.turn for f in some]).to(device)
        with using(sharing(work, batch.ids)):
            judged = network(batch).float().cpu()
        for i, scores in zip(rows, judged, strict=True):
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
