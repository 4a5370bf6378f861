"""The masked language modelling task.

B rows, T tokens, M hidden tokens, V vocabulary, D model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.codecs.text import Text
from manyheads.data.shards import Shard
from manyheads.devices import send
from manyheads.modules.build import build_masked_lm
from manyheads.modules.losses import sum_losses
from manyheads.modules.transformer import Encoder
from manyheads.tasks.language.corpus import TextCorpus, cut_lines, gather_texts, prepare_texts
from manyheads.tasks.masked.batches import Hiding, MaskedBatch, MaskedBatches, MaskedWindows
from manyheads.tasks.masked.model import MaskedLM
from manyheads.tasks.masked.settings import MaskedRecipe
from manyheads.tasks.task import Sample, Validation, pick_evenly
from manyheads.tasks.vocabulary import CodecTask, choose_codec

SHOWN_TOKENS = 48  # of a window that validation shows as a sample
HELD_OUT = 1  # the seed for hiding tokens in every validation


class MaskedTask(CodecTask):
    """The masked task with its tokenizer, which has a mask token."""

    Recipe = MaskedRecipe
    codec: Text

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def gather(cls, recipe: MaskedRecipe) -> TextCorpus:
        return gather_texts(recipe.data, recipe.codec.kind)

    @classmethod
    def prepare(cls, corpus: TextCorpus, recipe: MaskedRecipe, folder: Path) -> None:
        codec = choose_codec(recipe, cut_lines(corpus.train))
        prepare_texts(corpus, codec, folder, framed=False)
        # Raise now if validation would fail later.
        MaskedWindows(Shard(folder / "data" / "valid"), codec.special_tokens, recipe.data.context)

    # ---- from a folder to a model --------------------------------------------------------------

    def network(self) -> Encoder:
        return build_masked_lm(self.recipe.network, self.codec.size)

    @cached_property
    def hiding(self) -> Hiding:
        return Hiding(self.codec, self.recipe.masking)

    def read_split(self, split: str, tokens: int, seed: int) -> MaskedBatches:
        documents = Shard(self.held_in() / "data" / split)
        windows = MaskedWindows(documents, self.codec.special_tokens, self.recipe.data.context)
        return MaskedBatches(windows, self.hiding, tokens, seed)

    def batches(self) -> MaskedBatches:
        training = self.recipe.training
        return self.read_split("train", training.tokens_per_batch, training.seed)

    def loss(self, network: Any, batch: MaskedBatch) -> dict[str, Tensor]:
        """Return the summed loss of all hidden tokens, with label smoothing in training."""
        scores = score_hidden(network, batch)
        return {"loss": sum_losses(scores, batch.wanted, self.smoothing(network))}

    def model(self, network: Encoder, name: str = "") -> MaskedLM:
        return MaskedLM(self, network, name)

    # ---- validation ----------------------------------------------------------------------------

    @cached_property
    def held_out(self) -> MaskedBatches:
        return self.read_split("valid", max(self.at_once, self.recipe.data.context), HELD_OUT)

    @torch.no_grad()
    def validate(self, network: Any) -> Validation:
        """Validate on the same hidden words every time."""
        network.eval()
        device = next(network.parameters()).device

        def guess(rows: Any) -> tuple[int, float, int]:
            batch = send(self.held_out.batch(rows), device)
            scores = score_hidden(network, batch)
            loss = sum_losses(scores, batch.wanted).item()
            return int((scores.argmax(-1) == batch.wanted).sum()), loss, len(batch.wanted)

        each = self.world.map(guess, self.held_out.epoch(0))
        right, lost, count = map(sum, zip(*each, strict=True))
        if not count:
            raise ValueError("nothing can be hidden in the texts to validate on: all are signs")
        shown = pick_evenly(len(self.held_out.windows))
        return Validation(
            {"accuracy": round(100 * right / count, 4), "loss": lost / count},
            self.world.map(lambda window: self.sample(network, window, device), shown),
        )

    def sample(self, network: Any, window: int, device: torch.device) -> Sample:
        """Return the beginning of a window, its hidden tokens, and the predicted tokens."""
        batch = self.held_out.batch([(window, 0)])
        guessed = score_hidden(network, send(batch, device)).argmax(-1).tolist()
        ids, hidden = batch.tokens.ids[0].clone(), batch.hidden.tolist()
        shown = [i for i in hidden if i < SHOWN_TOKENS]
        ids[hidden] = self.hiding.mask
        return Sample(
            show_holes(self.codec, ids[:SHOWN_TOKENS].tolist()),
            list_tokens(self.codec, batch.wanted.tolist()[: len(shown)]),
            list_tokens(self.codec, guessed[: len(shown)]),
        )


def score_hidden(network: Any, batch: MaskedBatch) -> Tensor:
    """Return logits (M, V) of only the hidden tokens: all tokens would be several times the work.

    A hook gives the head only their states. The network itself is still called, because wrappers
    such as DistributedDataParallel need that call.
    """

    def only_hidden(_: Any, given: tuple[Tensor]) -> tuple[Tensor]:
        return (given[0].flatten(0, 1)[batch.hidden],)  # (B, T, D) -> (M, D)

    encoder = getattr(network, "module", network)
    with encoder.head.register_forward_pre_hook(only_hidden):
        return network(batch.tokens)


def show_holes(codec: Text, ids: Sequence[int]) -> str:
    """Return a text with masks for hidden words: "the ‹mask› sleeps"."""
    mask = codec.special_tokens.mask
    assert mask is not None
    kept = [i for i in ids if i not in codec.special_tokens.skipped]
    text = str(codec.tokenizer.decode(kept, skip_special_tokens=False))
    # If spaces belong to tokens, a mask has replaced the space before it.
    return " ".join(text.replace(str(codec.tokenizer.id_to_token(mask)), " ‹mask›").split())


def list_tokens(codec: Text, ids: Sequence[int]) -> str:
    return " | ".join(piece.strip() for piece in codec.pieces(ids))
