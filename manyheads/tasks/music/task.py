"""The music task.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import nn

from manyheads.data.batches import NOTHING
from manyheads.data.shards import Shard
from manyheads.data.windows import Batch
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.config import Sampling
from manyheads.decoding.sample import sample
from manyheads.decoding.step import CachedStep
from manyheads.tasks.continuation import ContinuationTask, score_tokens
from manyheads.tasks.music import corpus
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.codec_file import CODEC, load_codec, new_codec
from manyheads.tasks.music.corpus import VARIED, MusicCorpus
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.network import music_decoder
from manyheads.tasks.music.settings import MusicRecipe
from manyheads.tasks.music.windows import Augmentation, MusicWindows
from manyheads.tasks.task import Sample

SHOWN = 3  # held-out pieces that every validation continues
READ, FOLLOWING = 32, 64  # tokens read and tokens written of each


class MusicTask(ContinuationTask):
    """The music task with its codec."""

    Recipe = MusicRecipe
    codec: MusicCodec

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: MusicRecipe) -> MusicCorpus:
        return corpus.gather(recipe.data, codec_for(recipe), recipe.training.seed)

    @classmethod
    def prepare(cls, gathered: MusicCorpus, recipe: MusicRecipe, folder: Path) -> None:
        corpus.prepare(gathered, recipe.data, codec_for(recipe), folder)

    @classmethod
    def open(cls, recipe: MusicRecipe, folder: Path) -> Self:
        return cls(recipe, load_codec(folder / CODEC), folder)

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> nn.Module:
        codec = self.codec
        return music_decoder(self.recipe.network, codec.size, codec.pitches(), codec.beat)

    def batches(self) -> MusicWindows:
        data, training = self.held_in() / "data", self.recipe.training
        return MusicWindows(
            Shard(data / "train"),
            Augmentation.load(data / VARIED),
            self.codec,
            self.context,
            training.tokens_per_batch,
            self.recipe.layout,
            seed=training.seed,
        )

    def model(self, network: nn.Module, name: str = "") -> Musician:
        return Musician(self, network, name)

    # ---- validation ----------------------------------------------------------------------------

    def measure(self, network: nn.Module) -> dict[str, float]:
        """Return nats per note, counting all tokens but the end token, also rests and times; and
        perplexity and loss per token, counting the end token too.
        """

        def lose(batch: Batch) -> tuple[float, float, int, int]:
            """Return the summed loss of all tokens, that of notes only, and the number of each."""
            scores, wanted = network(batch.tokens).float(), batch.wanted.flatten()  # (B, T, V)
            each = F.cross_entropy(scores.flatten(0, 1), wanted, reduction="none")
            known = wanted != NOTHING
            sung = known & (wanted != self.codec.special_tokens.eos)
            return each.sum().item(), each[sung].sum().item(), int(known.sum()), int(sung.sum())

        total, of_notes, tokens, notes = self.add_up(network, lose)
        return {"notes": of_notes / max(1, notes), **score_tokens(total, tokens)}

    def samples(self, network: nn.Module) -> list[Sample]:
        codec, held = self.codec, self.held_out

        def play(i: int) -> Sample:
            ids = held[i][:-1].tolist()  # with the start token, without the end token
            cut = min(READ + 1, max(1, len(ids) // 2), self.context // 2)
            written = self.write_on(network, ids[:cut], i)
            known = len(codec.special_tokens.bos)
            sides = ids[known:cut], ids[cut : cut + FOLLOWING], written
            return Sample(*(" ".join(codec.pieces(side)) for side in sides))

        return self.world.map(play, sorted({len(held) * i // SHOWN for i in range(SHOWN)}))

    def write_on(self, network: Any, ids: list[int], number: int) -> list[int]:
        """Sample a continuation within the context; `number` seeds it."""
        codec = self.codec
        longest = min(FOLLOWING, self.context - len(ids))
        bounds = Bounds(codec.special_tokens.eos, longest=longest, never=codec.special_tokens.never)
        start = torch.tensor([ids], device=next(network.parameters()).device)
        (played,) = sample(CachedStep(network), start, bounds, Sampling(0.95), [number])
        return played.ids


def codec_for(recipe: MusicRecipe) -> MusicCodec:
    """Load the codec of the run in `start_from`, or make a new one."""
    if recipe.start_from is None:
        return new_codec(recipe.codec.kind)
    codec = load_codec(recipe.start_from / CODEC)
    if codec.kind != recipe.codec.kind:
        raise ValueError(
            f"{recipe.start_from} brings the codec {codec.kind} and codec.kind asks for "
            f"{recipe.codec.kind}; codec.kind: {codec.kind} would do"
        )
    return codec
