"""The extractive question answering task: an encoder predicts the start and end of the answer.

B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from manyheads.codecs.text import Text
from manyheads.data.batches import Padding, PlannedBatches, Row, map_by_length
from manyheads.data.shards import Shard, write_shard
from manyheads.devices import use_threads_for
from manyheads.modules.build import build_classifier
from manyheads.modules.heads import EncoderHead
from manyheads.modules.transformer import Tokens
from manyheads.tasks.pointing.model import Pointer
from manyheads.tasks.pointing.questions import (
    END,
    START,
    Question,
    QuestionCorpus,
    QuestionFrame,
    frame_question,
    mark_spans,
    read_questions,
)
from manyheads.tasks.pointing.settings import TYPES, PointingRecipe
from manyheads.tasks.seq2seq.corpus import hold_out, text_asked_about
from manyheads.tasks.seq2seq.kinds import (
    HeldOut,
    judge_outputs,
    metrics_of,
    read_held_out,
    write_held_out,
)
from manyheads.tasks.task import Validation
from manyheads.tasks.vocabulary import TOKENIZER, CodecTask, choose_codec
from manyheads.training.files import CORPUS, write_text

SHARDS = ("ids", "types", "marks")
SIDES = (START, END)
ASKED = ("Who wrote it?\nA play by Goethe.", "What?\nA red bus goes down the long road to the sea.")


class PointingBatch(NamedTuple):
    """Questions with their texts, and the marks of their answers."""

    tokens: Tokens
    text: Tensor  # (B, T) True for tokens of the text, which an answer may have
    marks: Tensor  # (B, T)


class PointingBatches(PlannedBatches):
    """Batches of questions, one per row, with similar lengths together."""

    unit = "questions"

    def __init__(self, task: PointingTask, path: Path, tokens: int, seed: int = 0):
        self.task = task
        self.ids, self.types, self.marks = (Shard(path / name) for name in SHARDS)
        lengths = self.ids.lengths
        super().__init__(lengths[:, None], np.ones_like(lengths), Padding(tokens), seed)

    def batch(self, rows: Sequence[Row]) -> PointingBatch:
        """Make a batch; without rows, it is one row without an answer."""
        chosen = [row[0] for row in rows]
        held: list[Any] = [
            [shard[i].astype(np.int64) for i in chosen] or [np.zeros(1, np.int64)]
            for shard in (self.ids, self.types, self.marks)
        ]
        ids, types, marks = held
        tokens, text = self.task.lay_out(ids, types)
        return PointingBatch(tokens, text, Tokens.padded(marks).ids)


class PointingTask(CodecTask):
    """The extractive question answering task with its tokenizer."""

    Recipe = PointingRecipe
    kind = "answering"  # reads and scores answers like the task "answering"

    codec: Text

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: PointingRecipe) -> QuestionCorpus:
        data = recipe.data
        if recipe.training.label_smoothing:
            raise ValueError(
                "an answer is pointed at without label smoothing; "
                "training.label_smoothing: 0 would do"
            )
        found = [*read_questions(cast(Path, data.pairs))]
        train = [one for one in found if one.spans]
        left = len(found) - len(train)
        held = [] if data.valid_pairs is None else [*read_questions(data.valid_pairs)]
        valid = [one for one in held if any(one.references)]
        unanswered = len(held) - len(valid)
        if data.valid_pairs is None:
            texts = [text_asked_about(one.source) for one in train]
            train, valid = hold_out(train, texts, data.held_out, recipe.training.seed)
        if not train or not valid:
            raise ValueError(
                f"{data.pairs} has {len(found) - left:,} questions with an answer in their text "
                f"and {left:,} without; 10 with one, or --valid-pairs too, would do"
            )
        return QuestionCorpus(train, valid, left + unanswered)

    @classmethod
    def prepare(cls, corpus: QuestionCorpus, recipe: PointingRecipe, folder: Path) -> None:
        """Write the run folder, with the tokenizer of the run in `start_from` if there is one."""
        codec = choose_codec(recipe, (one.source for one in corpus.train))
        codec.save(folder / TOKENIZER)
        task, told = cls(recipe, codec, folder), [str(corpus)]
        for name, questions in (("train", corpus.train), ("valid", corpus.valid)):
            if missed := task.lay_down(questions, folder / "data" / name, name):
                told.append(f"  {missed:,} to {name}: no answer in the first {task.room} tokens")
        write_held_out(folder, corpus.valid)
        write_text(folder / CORPUS, "\n".join(told) + "\n")

    def lay_down(self, questions: Sequence[Question], path: Path, name: str) -> int:
        """Encode questions to disk; leave out those whose answers were cut, and count them."""
        frames = [self.frame(one.source) for one in questions]
        marks = [mark_spans(f, one.spans) for f, one in zip(frames, questions, strict=True)]
        reached = [any(each) for each in marks]
        if not any(reached):
            raise ValueError(
                f"no answer of the questions to {name} stands in the first {self.room} tokens; "
                "a larger data.longest_tokens would do"
            )
        path.mkdir(parents=True, exist_ok=True)
        rows = ([f.ids for f in frames], [f.types for f in frames], marks)
        sizes = (self.codec.size, TYPES, 1 + sum(SIDES))
        for shard, each, size in zip(SHARDS, rows, sizes, strict=True):
            write_shard(path / shard, compress(each, reached), size)
        return reached.count(False)

    # ---- from a folder to a model --------------------------------------------------------------

    @property
    def room(self) -> int:
        """Maximum number of tokens for question, text and special tokens."""
        longest: int = self.recipe.data.longest_tokens
        return min(longest, self.recipe.network.places or longest)

    def frame(self, source: str) -> QuestionFrame:
        return frame_question(self.codec, source, self.room)

    def lay_out(self, ids: Sequence[Any], types: Sequence[Any]) -> tuple[Tokens, Tensor]:
        """Pad frames to a batch; also return which tokens an answer may have (B, T)."""
        tokens, kinds = Tokens.padded(ids, self.codec.special_tokens.pad), Tokens.padded(types).ids
        if self.recipe.network.token_types:
            tokens = replace(tokens, types=kinds.clamp(max=self.recipe.network.token_types - 1))
        return tokens, kinds > 0

    def network(self) -> EncoderHead:
        return build_classifier(self.recipe.network, self.codec.size, len(SIDES), pooling=None)

    def batches(self) -> PointingBatches:
        training = self.recipe.training
        path = self.held_in() / "data" / "train"
        return PointingBatches(self, path, training.tokens_per_batch, training.seed)

    def loss(self, network: Any, batch: PointingBatch) -> dict[str, Tensor]:
        """Return start and end losses: minus the log-probability of pointing at any answer."""
        logs = point(network, batch.tokens, batch.text)  # (B, T, 2)
        terms = dict[str, Tensor]()
        for side, (name, mark) in enumerate(zip(("start", "end"), SIDES, strict=True)):
            wanted = (batch.marks & mark).bool()
            found = logs[..., side].masked_fill(~wanted, -torch.inf).logsumexp(1)
            terms[name] = -torch.where(wanted.any(1), found, 0.0).sum()
        return terms

    def model(self, network: Any, name: str = "") -> Pointer:
        return Pointer(self, network, name)

    @torch.no_grad()
    def decode(self, network: Any, frames: Sequence[QuestionFrame]) -> list[Tensor]:
        """Return for each frame the log-probabilities of start and end at each token, (T, 2)."""
        network.eval()

        def read(rows: list[int]) -> list[Tensor]:
            some = [frames[i] for i in rows]
            with use_threads_for(network, Tokens.padded([frame.ids for frame in some]).ids):
                logs = self.point_at(network, some).cpu()
            return [row[: len(frame.ids)] for frame, row in zip(some, logs, strict=True)]

        return map_by_length(read, [frame.ids for frame in frames], self.at_once, self.world.map)

    def point_at(self, network: Any, frames: Sequence[QuestionFrame]) -> Tensor:
        """Return log-probabilities of start and end for frames (B, T, 2)."""
        device = next(network.parameters()).device
        tokens, text = self.lay_out([one.ids for one in frames], [one.types for one in frames])
        return point(network, tokens.to(device), text.to(device))

    def compare_ways(self, network: Any, lines: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Each question by itself against all of them together: the chances of each token."""
        frames = [self.frame(line) for line in lines or ASKED]
        pairs = zip(frames, self.point_at(network, frames).exp(), strict=True)
        yield (
            "batch of 1 = batch of N",
            max(
                float((self.point_at(network, [one])[0].exp() - row[: len(one.ids)]).abs().max())
                for one, row in pairs
            ),
        )

    # ---- validation ----------------------------------------------------------------------------

    @cached_property
    def held_out(self) -> HeldOut:
        return read_held_out(self.held_in())

    def validate(self, network: Any) -> Validation:
        longest = PointingBatches(self, self.held_in() / "data" / "valid", self.at_once).longest
        return self.halve_until_it_fits(lambda: self.judge_network(network.eval()), longest)

    @torch.no_grad()
    def judge_network(self, network: Any) -> Validation:
        outputs = [best.text for best, *_ in self.model(network).point(self.held_out[0])]
        batches = PointingBatches(self, self.held_in() / "data" / "valid", self.at_once)
        loss = self.mean_loss(network, batches)
        return judge_outputs(metrics_of("answering"), outputs, self.held_out, loss)


def point(network: Any, tokens: Tokens, text: Tensor) -> Tensor:
    """Return log-probabilities of start and end (B, T, 2), only over tokens of the text."""
    logits = network(tokens).float().masked_fill(~text[..., None], -torch.inf)
    return logits.masked_fill(~text.any(1)[:, None, None], 0.0).log_softmax(1)
