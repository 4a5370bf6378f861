"""GPT-2: learned positions, norms before each part, weights kept the other way round."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from manyheads.interop.huggingface.family import ACTIVATIONS, Kind, activation
from manyheads.interop.huggingface.folders import Config
from manyheads.interop.huggingface.names import (
    TensorNames,
    Tensors,
    both,
    given,
    one_of,
    own_head,
    scaled_up,
    unscaled,
    without_known,
)
from manyheads.modules.config import Network

TABLE, HEAD = "transformer.wte.weight", "lm_head.weight"


class Gpt2:
    name = "gpt2"
    kinds: Mapping[str, Kind] = {"GPT2LMHeadModel": "language"}
    prefix = "transformer."
    heads: tuple[str, ...] = ("lm_head.",)
    unread = re.compile(r"\.attn\.masked_bias$")

    def holds(self, kind: Kind) -> Mapping[str, tuple[Any, ...]]:
        return {
            "kind": ("transformer",),
            "position": ("learned",),
            "order": ("pre",),
            "norm": ("layer",),
            "feed_forward": tuple(ACTIVATIONS.values()),
            "bias": (True,),
            "key_heads": (None,),
            "embedding_norm": (False,),
            "relative": ("none",),
            "residual": (True,),
            "head_bias": (False,),
            "types": (0,),
            "window": (0,),
        }

    def network(self, config: Config, held: Tensors, kind: Kind) -> tuple[Network, Tensors]:
        held = without_known(held, r"\.attn\.bias$", triangle)
        if config.get("tie_word_embeddings", True):
            held = one_of(held, (TABLE, HEAD))
        else:
            own_head(held, HEAD)
        held, tied, scaled = unscaled(held, TABLE, HEAD)
        width = config.whole("n_embd", 768)
        return Network(
            width=width,
            depth=config.whole("n_layer", 12),
            heads=config.whole("n_head", 12),
            inner=config.whole("n_inner", 4 * width),
            feed_forward=config.named("activation_function", ACTIVATIONS, "gelu_new"),
            norm_epsilon=config.number("layer_norm_epsilon", 1e-5),
            position="learned",
            longest=self.context(config),
            dropout=config.number("resid_pdrop", 0.1),
            attention_dropout=config.number("attn_pdrop", 0.1),
            tied=tied,
            scaled=scaled,
        ), held

    def pairs(self, network: Network, kind: Kind, joint: bool) -> list[TensorNames]:
        pairs = [
            TensorNames("embedding.table.weight", (TABLE,)),
            TensorNames("stack.position.tables.0.weight", ("transformer.wpe.weight",)),
            *both("stack.norm", "transformer.ln_f"),
        ]
        for i in range(network.depth):
            ours, theirs = f"stack.blocks.{i}", f"transformer.h.{i}"
            pairs += [
                *both(f"{ours}.self_attention.norm", f"{theirs}.ln_1"),
                *both(f"{ours}.self_attention.part.inward", f"{theirs}.attn.c_attn", turned=True),
                *both(f"{ours}.self_attention.part.out", f"{theirs}.attn.c_proj", turned=True),
                *both(f"{ours}.feed_forward.norm", f"{theirs}.ln_2"),
                *both(f"{ours}.feed_forward.part.inward", f"{theirs}.mlp.c_fc", turned=True),
                *both(f"{ours}.feed_forward.part.out", f"{theirs}.mlp.c_proj", turned=True),
            ]
        return pairs if network.tied else [*pairs, TensorNames("head.weight", (HEAD,))]

    def config(self, network: Network, kind: Kind, joint: bool, context: int) -> dict[str, Any]:
        return {
            "architectures": ["GPT2LMHeadModel"],
            "n_embd": network.width,
            "n_layer": network.depth,
            "n_head": network.heads,
            "n_inner": network.inner,
            "n_positions": network.longest,
            "activation_function": activation(network),
            "layer_norm_epsilon": network.norm_epsilon,
            "resid_pdrop": network.dropout,
            "embd_pdrop": network.dropout,
            "attn_pdrop": network.attention_dropout,
            "tie_word_embeddings": network.tied and not network.scaled,
        }

    def tensors(
        self, weights: Tensors, network: Network, kind: Kind, joint: bool, context: int
    ) -> Tensors:
        return apart(given(weights, self.pairs(network, kind, joint)), network, TABLE, HEAD)

    def context(self, config: Config) -> int:
        return config.whole("n_positions", 1024)


def triangle(seen: Tensor) -> bool:
    """Whether each token sees itself and all before it."""
    square = seen.squeeze()
    return square.dim() < 2 or torch.equal(square, torch.ones_like(square).tril())


def apart(held: Tensors, network: Network, table: str, head: str) -> Tensors:
    """For a family that scales nothing: a scaled table, and the head that scores without it."""
    if not network.scaled:
        return held
    score = {head: held[table]} if network.tied else {}
    return held | score | {table: scaled_up(held[table])}
