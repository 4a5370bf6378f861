"""Text that goes on.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.codecs.text import Text
from manyheads.data.layout import Layout
from manyheads.data.shards import Shard
from manyheads.data.windows import Batch, Windows, lost, whole
from manyheads.decoding.detokenize import Telling
from manyheads.modules.build import Network, decoder
from manyheads.tasks.language.generate import Generation, write_on
from manyheads.tasks.task import Sample
from manyheads.training.oom_retry import in_parts

SHOWN = 3  # places of the held-out text that every validation writes on from
READ, FOLLOWING = 16, 64  # tokens of each that are read, and that are written
VALIDATED_AT_ONCE = 16384  # tokens


@dataclass(frozen=True, eq=False)
class Language:
    """The task with its vocabulary and its network, which sees `context` tokens at most."""

    codec: Text
    design: Network
    context: int

    def __post_init__(self) -> None:
        if self.context < 2:
            raise ValueError(f"a context has 2 tokens or more, got {self.context}")
        learned = self.design.kind == "transformer" and self.design.position == "learned"
        if learned and self.design.longest < self.context:
            raise ValueError(
                f"a learned position knows {self.design.longest} places and the context has "
                f"{self.context} tokens; network.longest={self.context} would do"
            )

    def network(self) -> nn.Module:
        return decoder(self.design, self.codec.size)

    def loss(self, network: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Summed over all tokens that are wanted."""
        return lost(network(batch.tokens), batch.wanted, smoothing)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a network is judged on: documents as numbers, and the bytes of their text."""

    documents: Shard
    bytes: int  # as UTF-8

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise ValueError("there is nothing to validate on: the held-out text has no bytes")


class Learning:
    """The task as a run learns it."""

    def __init__(
        self,
        task: Language,
        documents: Shard,
        held_out: HeldOut,
        layout: Layout,
        tokens: int,
        seed: int,
    ):
        self.task, self.held_out, self.layout = task, held_out, layout
        pad = task.codec.signs.pad
        self.plan = Windows(documents, task.context, tokens, layout, seed=seed, pad=pad)
        self.at_once = VALIDATED_AT_ONCE

    def network(self) -> nn.Module:
        return self.task.network()

    def loss(self, network: nn.Module, batch: Batch, smoothing: float) -> Tensor:
        return self.task.loss(network, batch, smoothing)

    def judge(self, network: nn.Module) -> tuple[dict[str, float], list[Sample]]:
        """By windows that do not overlap: bits for a byte of text, which say the same whatever the
        vocabulary is, and perplexity and loss of a token. A document's stop is a token like others.

        A run is not lost because all that is held out does not fit into memory at once.
        """
        network.eval()
        return in_parts(
            self, lambda: (self.measured(network), self.samples(network)), self.task.context
        )

    @torch.no_grad()
    def measured(self, network: nn.Module) -> dict[str, float]:
        device = next(network.parameters()).device
        held, task = self.held_out, self.task
        total, counted = 0.0, int((held.documents.lengths - 1).clip(min=0).sum())
        pad = task.codec.signs.pad
        for batch in whole(held.documents, task.context, self.at_once, self.layout, pad=pad):
            total += task.loss(network, batch.to(device)).item()
        loss = total / counted
        bits = total / math.log(2) / held.bytes
        # A network that has learned nothing yet may be as perplexed as no number can say.
        return {"bits_per_byte": bits, "perplexity": math.exp(min(loss, 700)), "loss": loss}

    def samples(self, network: nn.Module) -> list[Sample]:
        codec = self.task.codec
        documents, silent = self.held_out.documents, codec.signs.silent
        read, follows = [], []
        for begin, end in places(documents):
            shown = documents.tokens[begin : min(end, begin + READ + FOLLOWING)].tolist()
            ids = [i for i in shown if i not in silent]
            if ids:
                cut = min(READ, max(1, len(ids) // 2))  # of a short one something follows, too
                read.append(ids[:cut])
                follows.append(ids[cut:])
        how = Generation(max_new_tokens=FOLLOWING, truncate=True)
        written = write_on(network, codec, read, how, self.task.context)
        return [
            Sample(codec.render(ids), Telling(codec, ids).all(after), best.text)
            for ids, after, (best, *_) in zip(read, follows, written, strict=True)
        ]


def places(documents: Shard) -> list[tuple[int, int]]:
    """Where samples begin, evenly over all tokens, and where the document of each ends.

    They begin with a document, unless it is very long.
    """
    total, ends = len(documents.tokens), documents.ends
    found = []
    for place in (total * i // SHOWN for i in range(SHOWN)):
        number = int(np.searchsorted(ends, place, side="right"))
        begin = int(ends[number - 1]) if number else 0
        long = int(ends[number]) - begin > total // SHOWN
        found.append((place if long else begin, int(ends[number])))
    return [*dict.fromkeys(found)]
