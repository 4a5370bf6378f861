"""Music that goes on.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.data.layout import NOTHING, Layout
from manyheads.data.shards import Shard
from manyheads.data.windows import Batch, lost, whole
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.sample import Sampling, sample
from manyheads.decoding.step import CachedStep
from manyheads.modules.build import Network
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.network import music_decoder
from manyheads.tasks.music.windows import Crops, Varied
from manyheads.tasks.task import Sample
from manyheads.training.oom_retry import in_parts

SHOWN = 3  # held-out pieces that every validation plays on from
READ, FOLLOWING = 32, 64  # tokens of each that are read, and that are written
VALIDATED_AT_ONCE = 16384  # tokens


@dataclass(frozen=True, eq=False)
class Music:
    """The task with its codec and its network, which sees `context` tokens at most."""

    codec: MusicCodec
    design: Network
    context: int

    def network(self) -> nn.Module:
        codec = self.codec
        return music_decoder(self.design, codec.size, codec.pitches(), codec.beat)

    def loss(self, network: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Summed over all tokens that are wanted."""
        return lost(network(batch.tokens), batch.wanted, smoothing)


class Learning:
    """The task as a run learns it."""

    def __init__(
        self,
        task: Music,
        documents: Shard,
        varied: Varied,
        held_out: Shard,
        layout: Layout,
        tokens: int,
        seed: int,
    ):
        self.task, self.held_out, self.layout = task, held_out, layout
        self.plan = Crops(documents, varied, task.codec, task.context, tokens, layout, seed=seed)
        self.at_once = VALIDATED_AT_ONCE

    def network(self) -> nn.Module:
        return self.task.network()

    def loss(self, network: nn.Module, batch: Batch, smoothing: float) -> Tensor:
        return self.task.loss(network, batch, smoothing)

    def judge(self, network: nn.Module) -> tuple[dict[str, float], list[Sample]]:
        """By windows that do not overlap: nats for a note, with rests and times among them and
        without the sign that ends a piece; and perplexity and loss of a token, with it.

        A run is not lost because all that is held out does not fit into memory at once.
        """
        network.eval()
        return in_parts(
            self, lambda: (self.measured(network), self.samples(network)), self.task.context
        )

    @torch.no_grad()
    def measured(self, network: nn.Module) -> dict[str, float]:
        device = next(network.parameters()).device
        signs, context = self.task.codec.signs, self.task.context
        total = of_notes = 0.0
        counted = notes = 0
        for batch in whole(self.held_out, context, self.at_once, self.layout, pad=signs.pad):
            tokens, wanted = batch.to(device)
            scores = network(tokens).float()  # (B, T, V)
            each = F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="none")
            known = wanted.flatten() != NOTHING
            sung = known & (wanted.flatten() != signs.stop)
            total += each.sum().item()
            of_notes += each[sung].sum().item()
            counted += int(known.sum())
            notes += int(sung.sum())
        loss = total / counted
        # A network that has learned nothing yet may be as perplexed as no number can say.
        return {
            "notes": of_notes / max(1, notes),
            "perplexity": math.exp(min(loss, 700)),
            "loss": loss,
        }

    def samples(self, network: nn.Module) -> list[Sample]:
        codec, held = self.task.codec, self.held_out
        found = []
        for i in sorted({len(held) * i // SHOWN for i in range(SHOWN)}):
            ids = held[i][:-1].tolist()  # from its start, without its stop
            cut = min(READ + 1, max(1, len(ids) // 2), self.task.context // 2)
            written = self.written(network, ids[:cut], i)
            known = len(codec.signs.starts)
            sides = ids[known:cut], ids[cut : cut + FOLLOWING], written
            found.append(Sample(*(" ".join(codec.pieces(side)) for side in sides)))
        return found

    def written(self, network: Any, ids: list[int], number: int) -> list[int]:
        """What may follow, within the context; each piece has a chance of its own."""
        codec = self.task.codec
        longest = min(FOLLOWING, self.task.context - len(ids))
        bounds = Bounds(codec.signs.stop, longest=longest, never=codec.signs.never)
        start = torch.tensor([ids], device=next(network.parameters()).device)
        (played,) = sample(CachedStep(network), start, bounds, Sampling(0.95), [number])
        return played.ids
