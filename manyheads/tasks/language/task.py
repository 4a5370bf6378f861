"""The language modelling task.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from torch import nn

from manyheads.codecs.text import Text
from manyheads.data.shards import Shard
from manyheads.data.windows import Windows
from manyheads.decoding.detokenize import Detokenizer
from manyheads.modules.build import build_decoder
from manyheads.tasks.continuation import ContinuationTask, score_tokens
from manyheads.tasks.language.chat import CHAT, Chat
from manyheads.tasks.language.corpus import (
    BYTES,
    TextCorpus,
    cut_lines,
    gather_texts,
    prepare_texts,
)
from manyheads.tasks.language.decoding import LanguageDecoding
from manyheads.tasks.language.generate import write_on
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.language.settings import LanguageRecipe
from manyheads.tasks.portable import Portable
from manyheads.tasks.task import Sample
from manyheads.tasks.vocabulary import choose_codec

SHOWN = 3  # places of the validation set that every validation continues from
READ, FOLLOWING = 16, 64  # prompt tokens and new tokens of each place


class LanguageTask(ContinuationTask):
    """The language modelling task with its tokenizer."""

    Recipe = LanguageRecipe
    codec: Text

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: LanguageRecipe) -> TextCorpus:
        return gather_texts(recipe.data, recipe.codec.kind)

    @classmethod
    def prepare(cls, corpus: TextCorpus, recipe: LanguageRecipe, folder: Path) -> None:
        codec = choose_codec(recipe, cut_lines(corpus.train), masked=False)
        prepare_texts(corpus, codec, folder, framed=True)
        if recipe.start_from is not None and (chat := Chat.load(recipe.start_from / CHAT)):
            chat.save(folder / CHAT)

    @classmethod
    def adopt(cls, model: Portable, source: Path, folder: Path) -> LanguageRecipe:
        if model.chat is not None:
            model.chat.save(folder / CHAT)
        recipe: LanguageRecipe = super().adopt(model, source, folder)
        return recipe

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> nn.Module:
        return build_decoder(self.recipe.network, self.codec.size)

    def batches(self) -> Windows:
        training, pad = self.recipe.training, self.codec.special_tokens.pad
        documents, tokens = Shard(self.held_in() / "data" / "train"), training.tokens_per_batch
        layout = self.recipe.layout
        return Windows(documents, self.context, tokens, layout, seed=training.seed, pad=pad)

    def model(self, network: nn.Module, name: str = "") -> LanguageModel:
        chat = None if self.folder is None else Chat.load(self.folder / CHAT)
        return LanguageModel(self, network, name, chat)

    # ---- validation ----------------------------------------------------------------------------

    def measure(self, network: nn.Module) -> dict[str, float]:
        """Return bits per byte of text, which do not depend on the vocabulary, and perplexity and
        loss per token. The end token of a document counts like any other token.
        """
        (total,) = self.add_up(network, lambda batch: (self.loss(network, batch)["loss"].item(),))
        size = int((self.held_in() / "data" / BYTES).read_text(encoding="utf-8"))
        tokens = int((self.held_out.lengths - 1).clip(min=0).sum())
        return {"bits_per_byte": total / math.log(2) / size, **score_tokens(total, tokens)}

    def samples(self, network: nn.Module) -> list[Sample]:
        codec, documents = self.codec, self.held_out
        read, follows = [], []
        for begin, end in sample_places(documents):
            shown = documents.tokens[begin : min(end, begin + READ + FOLLOWING)].tolist()
            ids = [i for i in shown if i not in codec.special_tokens.skipped]
            if ids:
                cut = min(READ, max(1, len(ids) // 2))  # leave something to continue in a short one
                read.append(ids[:cut])
                follows.append(ids[cut:])
        how = LanguageDecoding(max_new_tokens=FOLLOWING, truncate=True)
        author = self.author(network)
        (written,) = self.world.map(lambda prompts: write_on(author, prompts, how), [read])
        return [
            Sample(codec.render(ids), Detokenizer(codec, ids).all(after), best.text)
            for ids, after, (best, *_) in zip(read, follows, written, strict=True)
        ]


def sample_places(documents: Shard) -> list[tuple[int, int]]:
    """Return (begin of a sample, end of its document) at even distances over all tokens.

    A sample begins where its document begins, unless the document is very long.
    """
    total, ends = len(documents.tokens), documents.ends
    found = []
    for place in (total * i // SHOWN for i in range(SHOWN)):
        number = int(np.searchsorted(ends, place, side="right"))
        begin = int(ends[number - 1]) if number else 0
        long = int(ends[number]) - begin > total // SHOWN
        found.append((place if long else begin, int(ends[number])))
    return [*dict.fromkeys(found)]
