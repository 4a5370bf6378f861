"""BERT: an encoder with heads for masked words, texts, or single words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from manyheads.interop.huggingface.family import LEARNED, Family, Kind, put_below
from manyheads.interop.huggingface.keys import Config
from manyheads.interop.huggingface.tensors import TensorNames, Tensors, merge_tables
from manyheads.modules.config import TransformerConfig

TYPES = "bert.embeddings.token_type_embeddings.weight"
BIAS, BIAS_TOO = "cls.predictions.bias", "cls.predictions.decoder.bias"

BLOCK = {
    "self_attention.part.inward": "attention.self.query attention.self.key attention.self.value",
    "self_attention.part.out": "attention.output.dense",
    "self_attention.norm": "attention.output.LayerNorm",
    "feed_forward.part.inward": "intermediate.dense",
    "feed_forward.part.out": "output.dense",
    "feed_forward.norm": "output.LayerNorm",
}
NAMES = {
    "embedding.table": "bert.embeddings.word_embeddings",
    "embedding.types": "bert.embeddings.token_type_embeddings",
    "stack.position.tables.0": "bert.embeddings.position_embeddings",
    "stack.entry": "bert.embeddings.LayerNorm",
    **put_below("stack.blocks.#", "bert.encoder.layer.#", BLOCK),
    "head.dense": "cls.predictions.transform.dense",
    "head.norm": "cls.predictions.transform.LayerNorm",
    "head.words": "cls.predictions",
    "head": "classifier",
    "pooler": "bert.pooler.dense",
}


def is_counting(numbers: Tensor, network: TransformerConfig, context: int) -> bool:
    """Whether the numbers are 0, 1, 2, ..."""
    return torch.equal(numbers.flatten(), torch.arange(numbers.numel(), dtype=numbers.dtype))


class Bert(Family):
    name = "bert"
    prefix = "bert."
    heads = ("cls.", "classifier.")
    names = NAMES
    table = "bert.embeddings.word_embeddings.weight"
    head = "cls.predictions.decoder.weight"
    free = ("head_bias",)  # the masked-LM head always has one
    context_key = ("max_position_embeddings", 512)
    unread = r"^cls\.seq_relationship\."  # next sentence prediction: not used
    computed = (r"embeddings\.position_ids$", is_counting)

    def __init__(self) -> None:
        self.kinds = {
            "BertForMaskedLM": "masked",
            "BertForPreTraining": "masked",
            "BertModel": "embedding",
            "BertForSequenceClassification": "classification",
            "BertForTokenClassification": "labelling",
        }
        self.fixed = {"position": LEARNED, "norm_position": "post", "embedding_norm": True}

    def holds(self, kind: Kind) -> dict[str, tuple[Any, ...]]:
        # The masked-LM head has the activation of all layers, and ours is always gelu.
        bends = {"feed_forward": ("gelu",)} if kind == "masked" else {}
        return super().holds(kind) | bends

    def read_tables(
        self, held: Tensors, config: Config, kind: Kind
    ) -> tuple[Tensors, dict[str, Any]]:
        if kind not in ("classification", "regression"):  # only text classification uses it
            held = {n: tensor for n, tensor in held.items() if not n.startswith("bert.pooler.")}
        if kind != "masked":
            return held, {"scale_embeddings": False}
        config.require_value("hidden_act", "gelu")
        held, found = super().read_tables(merge_tables(held, (BIAS, BIAS_TOO)), config, kind)
        if not found["tied"]:
            raise ValueError(
                f"{self.head} is not {self.table}; hidden words are guessed by one table here"
            )
        return held, found

    def write_config(
        self, network: TransformerConfig, kind: Kind, joint: bool, context: int
    ) -> dict[str, Any]:
        of_kind = "classification" if kind == "regression" else kind
        return {
            **super().write_config(network, kind, joint, context),
            "architectures": [next(name for name, each in self.kinds.items() if each == of_kind)],
            "position_embedding_type": "absolute",
            "type_vocab_size": max(1, network.token_types),
            "tie_word_embeddings": not network.scale_embeddings,
        }

    def write_tensors(
        self, weights: Tensors, network: TransformerConfig, kind: Kind, context: int
    ) -> Tensors:
        held = super().write_tensors(weights, network, kind, context)
        if not network.token_types:  # BERT always adds a type embedding
            held[TYPES] = torch.zeros(1, network.width)
        if network.scale_embeddings and kind == "masked":
            held[BIAS_TOO] = held[BIAS]
        return held

    def is_tied(self, network: TransformerConfig, kind: Kind) -> bool:
        """The masked-LM head is always tied, for any `tied`; other kinds have no word head."""
        return kind == "masked"

    def pair(self, name: str, network: TransformerConfig) -> TensorNames:
        return replace(super().pair(name.removeprefix("encoder."), network), ours=name)
