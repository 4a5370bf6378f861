"""BERT: an encoder, and what stands on it for hidden words, for a text, for each word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from manyheads.interop.huggingface.family import ACTIVATIONS, JUDGING, Kind, activation, attention
from manyheads.interop.huggingface.folders import Config
from manyheads.interop.huggingface.gpt2 import apart
from manyheads.interop.huggingface.names import (
    TensorNames,
    Tensors,
    both,
    given,
    one_of,
    own_head,
    unscaled,
    without_known,
)
from manyheads.modules.config import Network

TABLE, HEAD = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
TYPES = "bert.embeddings.token_type_embeddings.weight"
BIAS, BIAS_TOO = "cls.predictions.bias", "cls.predictions.decoder.bias"


class Bert:
    name = "bert"
    kinds: Mapping[str, Kind] = {
        "BertForMaskedLM": "masked",
        "BertForPreTraining": "masked",
        "BertModel": "embedding",
        "BertForSequenceClassification": "classification",
        "BertForTokenClassification": "labelling",
    }
    prefix = "bert."
    heads: tuple[str, ...] = ("cls.", "classifier.")
    unread = re.compile(r"^cls\.seq_relationship\.")  # whether a text follows: not asked here

    def holds(self, kind: Kind) -> Mapping[str, tuple[Any, ...]]:
        # The layer that guesses hidden words bends as all others do, and here always by gelu.
        bends = ("gelu",) if kind == "masked" else tuple(ACTIVATIONS.values())
        return {
            "kind": ("transformer",),
            "position": ("learned",),
            "order": ("post",),
            "norm": ("layer",),
            "embedding_norm": (True,),
            "feed_forward": bends,
            "bias": (True,),
            "key_heads": (None,),
            "relative": ("none",),
            "residual": (True,),
            "window": (0,),
        }

    def network(self, config: Config, held: Tensors, kind: Kind) -> tuple[Network, Tensors]:
        held = without_known(held, r"embeddings\.position_ids$", counted)
        if kind == "masked":
            config.only("hidden_act", "gelu")
            held = one_of(held, (BIAS, BIAS_TOO))
            if config.get("tie_word_embeddings", True):
                held = one_of(held, (TABLE, HEAD))
            else:
                own_head(held, HEAD)
        held, tied, scaled = unscaled(held, TABLE, HEAD)
        if kind == "masked" and not tied:
            raise ValueError(f"{HEAD} is not {TABLE}; hidden words are guessed by one table here")
        if kind not in ("classification", "regression"):  # only a verdict on a text asks it
            held = {n: tensor for n, tensor in held.items() if not n.startswith("bert.pooler.")}
        return Network(
            width=config.whole("hidden_size", 768),
            depth=config.whole("num_hidden_layers", 12),
            heads=config.whole("num_attention_heads", 12),
            inner=config.whole("intermediate_size", 3072),
            feed_forward=config.named("hidden_act", ACTIVATIONS, "gelu"),
            norm_epsilon=config.number("layer_norm_eps", 1e-12),
            embedding_norm=True,
            order="post",
            position="learned",
            longest=self.context(config),
            types=config.whole("type_vocab_size", 2),
            dropout=config.number("hidden_dropout_prob", 0.1),
            attention_dropout=config.number("attention_probs_dropout_prob", 0.1),
            scaled=scaled,
        ), held

    def pairs(self, network: Network, kind: Kind, joint: bool) -> list[TensorNames]:
        body = "encoder." if kind in JUDGING else ""
        pairs = [
            TensorNames(f"{body}embedding.table.weight", (TABLE,)),
            TensorNames(
                f"{body}stack.position.tables.0.weight",
                ("bert.embeddings.position_embeddings.weight",),
            ),
            *both(f"{body}stack.entry", "bert.embeddings.LayerNorm"),
        ]
        if network.types:
            pairs.append(TensorNames(f"{body}embedding.types.weight", (TYPES,)))
        for i in range(network.depth):
            look = f"{body}stack.blocks.{i}.self_attention"
            think = f"{body}stack.blocks.{i}.feed_forward"
            theirs = f"bert.encoder.layer.{i}"
            names = "self.query self.key self.value output.dense"
            pairs += [
                *attention(look, f"{theirs}.attention", names, network),
                *both(f"{look}.norm", f"{theirs}.attention.output.LayerNorm"),
                *both(f"{think}.part.inward", f"{theirs}.intermediate.dense"),
                *both(f"{think}.part.out", f"{theirs}.output.dense"),
                *both(f"{think}.norm", f"{theirs}.output.LayerNorm"),
            ]
        return pairs + head_pairs(kind)

    def config(self, network: Network, kind: Kind, joint: bool, context: int) -> dict[str, Any]:
        of_kind = "classification" if kind == "regression" else kind
        return {
            "architectures": [next(n for n, each in self.kinds.items() if each == of_kind)],
            "hidden_size": network.width,
            "num_hidden_layers": network.depth,
            "num_attention_heads": network.heads,
            "intermediate_size": network.inner,
            "hidden_act": activation(network),
            "layer_norm_eps": network.norm_epsilon,
            "max_position_embeddings": network.longest,
            "position_embedding_type": "absolute",
            "type_vocab_size": max(1, network.types),
            "hidden_dropout_prob": network.dropout,
            "attention_probs_dropout_prob": network.attention_dropout,
            "tie_word_embeddings": not network.scaled,
        }

    def tensors(
        self, weights: Tensors, network: Network, kind: Kind, joint: bool, context: int
    ) -> Tensors:
        held = given(weights, self.pairs(network, kind, joint))
        if not network.types:  # BERT always adds the vector of a type
            held[TYPES] = torch.zeros(1, network.width)
        if network.scaled and kind == "masked":
            held[BIAS_TOO] = held[BIAS]
        # Hidden words are guessed by the one table, whatever `tied` says; all else scores no words.
        return apart(held, replace(network, tied=kind == "masked"), TABLE, HEAD)

    def context(self, config: Config) -> int:
        return config.whole("max_position_embeddings", 512)


def counted(numbers: Tensor) -> bool:
    """Whether they are 0, 1, 2, ..."""
    return torch.equal(numbers.flatten(), torch.arange(numbers.numel(), dtype=numbers.dtype))


def head_pairs(kind: Kind) -> list[TensorNames]:
    if kind == "masked":
        above = "cls.predictions.transform"
        return [
            *both("head.dense", f"{above}.dense"),
            *both("head.norm", f"{above}.LayerNorm"),
            TensorNames("head.words.bias", (BIAS,)),
        ]
    verdict = both("head", "classifier") if kind in JUDGING else []
    asked = kind in ("classification", "regression")
    return [*verdict, *(both("pooler", "bert.pooler.dense") if asked else [])]
