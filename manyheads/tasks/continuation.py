"""Tasks that continue sequences: trained on windows of them, scored by their likelihood.

R rows, T tokens.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from manyheads.data.shards import Shard
from manyheads.data.windows import Batch, Windows
from manyheads.decoding.draft_table import Ids
from manyheads.devices import send
from manyheads.modules.losses import sum_losses
from manyheads.modules.transformer import Tokens
from manyheads.tasks.draft_file import Pairs, WrittenStates
from manyheads.tasks.drafted import DraftedModel
from manyheads.tasks.task import Sample, Validation
from manyheads.tasks.vocabulary import CodecTask

Codec = TypeVar("Codec")


class Author(NamedTuple, Generic[Codec]):
    """A network with its codec, to generate with; it sees at most `context` tokens."""

    network: Any
    codec: Codec
    context: int


class ContinuationTask(CodecTask):
    """A task whose models continue sequences, with its codec."""

    @property
    def context(self) -> int:
        """Maximum number of tokens that the network sees."""
        context: int = self.recipe.data.context
        return context

    def author(self, network: nn.Module) -> Author[Any]:
        return Author(network, self.codec, self.context)

    def loss(self, network: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Return the summed loss of all target tokens, with label smoothing in training."""
        return {"loss": sum_losses(network(batch.tokens), batch.wanted, self.smoothing(network))}

    @cached_property
    def held_out(self) -> Shard:
        return Shard(self.held_in() / "data" / "valid")

    @torch.no_grad()
    def add_up(self, network: nn.Module, measure: Callable[[Batch], tuple[float, ...]]) -> Any:
        """Sum a measure over the validation set, in windows that do not overlap."""
        device, pad = next(network.parameters()).device, self.codec.special_tokens.pad
        plan = Windows(self.held_out, self.context, self.at_once, self.recipe.layout, pad=pad)
        each = self.world.map(lambda rows: measure(send(plan.batch(rows), device)), plan.whole())
        return tuple(map(sum, zip(*each, strict=True)))

    def validate(self, network: nn.Module) -> Validation:
        """Measure and sample; halve the batch if it does not fit into memory, so no run is lost."""
        network.eval()
        return self.halve_until_it_fits(
            lambda: Validation(self.measure(network), self.samples(network)), self.context
        )

    @abstractmethod
    def measure(self, network: nn.Module) -> dict[str, float]:
        """Return scores on the validation set; the first one counts."""

    @abstractmethod
    def samples(self, network: nn.Module) -> list[Sample]:
        """Return continuations of parts of the validation set."""


class ContinuationModel(DraftedModel):
    """A model that continues a beginning, or writes from nothing."""

    task: Any  # a ContinuationTask

    def stops(self) -> Ids:
        stops: Ids = self.task.codec.special_tokens.all_eos
        return stops

    def read_written(self, pairs: Pairs, spare: int) -> WrittenStates:
        special = self.task.codec.special_tokens
        rows = [[*special.bos, *source, *ids][: self.task.context - spare] for source, ids in pairs]
        read = Tokens.padded([[*row, *[special.eos] * spare] for row in rows], special.pad)
        read = read.to(self.device)
        states = self.decoder.states(read.ids, read.at, read.seen)
        lengths = torch.tensor([*map(len, rows)], device=self.device)
        return WrittenStates(read.ids, lengths, states.float())


def score_tokens(nats: float, tokens: int) -> dict[str, float]:
    """Return perplexity and loss per token, from the nats of all tokens."""
    loss = nats / tokens
    # The perplexity of an untrained network may overflow a float.
    return {"perplexity": math.exp(min(loss, 700)), "loss": loss}
