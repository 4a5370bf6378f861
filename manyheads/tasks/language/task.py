"""Text that goes on.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.codecs.text import Text
from manyheads.data.shards import Shard
from manyheads.data.windows import Batch, Rows, Windows, lost
from manyheads.decoding.detokenize import Detokenizer
from manyheads.modules.build import build_decoder
from manyheads.modules.config import NetworkConfig
from manyheads.tasks.language.chat import CHAT, Chat
from manyheads.tasks.language.corpus import (
    BYTES,
    TextCorpus,
    choose_codec,
    gather_texts,
    prepare_texts,
)
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.language.generate import write_on
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.language.settings import LanguageRecipe
from manyheads.tasks.portable import Portable
from manyheads.tasks.task import Sample, Task, Validation

SHOWN = 3  # places of the held-out text that every validation writes on from
READ, FOLLOWING = 16, 64  # tokens of each that are read, and that are written


class LanguageTask(Task):
    """The task with its vocabulary."""

    Recipe = LanguageRecipe

    def __init__(self, recipe: LanguageRecipe, codec: Text, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.codec = codec

    @property
    def design(self) -> NetworkConfig:
        return self.recipe.network

    @property
    def context(self) -> int:
        """Tokens that the network sees at most."""
        return self.recipe.data.context

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: LanguageRecipe) -> TextCorpus:
        return gather_texts(recipe.data, recipe.codec.kind)

    @classmethod
    def prepare(cls, corpus: TextCorpus, recipe: LanguageRecipe, folder: Path) -> None:
        prepare_texts(corpus, choose_codec(corpus, recipe), folder, framed=True)
        if recipe.start_from is not None and (chat := Chat.load(recipe.start_from / CHAT)):
            chat.save(folder / CHAT)

    @classmethod
    def adopt(cls, model: Portable, source: Path, folder: Path) -> LanguageRecipe:
        if model.chat is not None:
            model.chat.save(folder / CHAT)
        recipe: LanguageRecipe = super().adopt(model, source, folder)
        return recipe

    @classmethod
    def open(cls, recipe: LanguageRecipe, folder: Path) -> Self:
        return cls(recipe, Text.load(folder / "tokenizer.json"), folder)

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> nn.Module:
        return build_decoder(self.design, self.codec.size)

    def batches(self) -> Windows:
        training, pad = self.recipe.training, self.codec.special_tokens.pad
        documents, tokens = Shard(self.held_in() / "data" / "train"), training.tokens_per_batch
        layout = self.recipe.layout
        return Windows(documents, self.context, tokens, layout, seed=training.seed, pad=pad)

    def loss(self, network: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Of all tokens that are wanted; smoothed while it is trained."""
        smoothing = self.recipe.training.label_smoothing if network.training else 0.0
        return {"loss": lost(network(batch.tokens), batch.wanted, smoothing)}

    def model(self, network: nn.Module, name: str = "") -> LanguageModel:
        chat = None if self.folder is None else Chat.load(self.folder / CHAT)
        return LanguageModel(self, network, name, chat)

    # ---- validation ----------------------------------------------------------------------------

    @cached_property
    def held_out(self) -> tuple[Shard, int]:
        """Documents as numbers, and the bytes of their text."""
        data = self.held_in() / "data"
        return Shard(data / "valid"), int((data / BYTES).read_text(encoding="utf-8"))

    def validate(self, network: nn.Module) -> Validation:
        """By windows that do not overlap: bits for a byte of text, which say the same whatever the
        vocabulary is, and perplexity and loss of a token. A document's stop is a token like others.

        A run is not lost because all that is held out does not fit into memory at once.
        """
        network.eval()
        return self.halve_until_it_fits(
            lambda: Validation(self.measure(network), self.samples(network)), self.context
        )

    @torch.no_grad()
    def measure(self, network: nn.Module) -> dict[str, float]:
        device = next(network.parameters()).device
        (documents, size), pad = self.held_out, self.codec.special_tokens.pad
        plan = Windows(documents, self.context, self.at_once, self.recipe.layout, pad=pad)

        def lose(rows: Rows) -> float:
            return self.loss(network, plan.batch(rows).to(device))["loss"].item()

        total, counted = 0.0, int((documents.lengths - 1).clip(min=0).sum())
        for lost_here in self.world.spread(lose, plan.whole()):
            total += lost_here
        loss = total / counted
        bits = total / math.log(2) / size
        # A network that has learned nothing yet may be as perplexed as no number can say.
        return {"bits_per_byte": bits, "perplexity": math.exp(min(loss, 700)), "loss": loss}

    def samples(self, network: nn.Module) -> list[Sample]:
        codec, (documents, _) = self.codec, self.held_out
        read, follows = [], []
        for begin, end in places(documents):
            shown = documents.tokens[begin : min(end, begin + READ + FOLLOWING)].tolist()
            ids = [i for i in shown if i not in codec.special_tokens.skipped]
            if ids:
                cut = min(READ, max(1, len(ids) // 2))  # of a short one something follows, too
                read.append(ids[:cut])
                follows.append(ids[cut:])
        how = LanguageDecoding(max_new_tokens=FOLLOWING, truncate=True)
        (written,) = self.world.spread(
            lambda prompts: write_on(network, codec, prompts, how, self.context), [read]
        )
        return [
            Sample(codec.render(ids), Detokenizer(codec, ids).all(after), best.text)
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
