"""Marian, BART, mBART and Pegasus: encoder-decoders that differ in norms and positions."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from manyheads.attention.places import line
from manyheads.attention.positions import Sinusoidal
from manyheads.interop.huggingface.family import LEARNED, Family, Kind, put_below
from manyheads.interop.huggingface.keys import Config
from manyheads.interop.huggingface.tensors import (
    TensorNames,
    Tensors,
    give_tensors,
    merge_tables,
    require_head,
)
from manyheads.modules.config import NormPosition, TransformerConfig

SHARED, HEAD, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
READ, WRITTEN = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
NEAR = 5e-3  # tolerance for sinusoids that were saved in 16 bits

BLOCK = {
    "self_attention.part.inward": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
    "self_attention.part.out": "self_attn.out_proj",
    "self_attention.norm": "self_attn_layer_norm",
    "cross_attention.part.inward": "encoder_attn.q_proj encoder_attn.k_proj encoder_attn.v_proj",
    "cross_attention.part.out": "encoder_attn.out_proj",
    "cross_attention.norm": "encoder_attn_layer_norm",
    "feed_forward.part.inward": "fc1",
    "feed_forward.part.out": "fc2",
    "feed_forward.norm": "final_layer_norm",
}
SIDE = {
    "embedding.table": "embed_tokens",
    "stack.position.tables.0": "embed_positions",
    "stack.entry": "layernorm_embedding",
    "stack.norm": "layer_norm",
    **put_below("stack.blocks.#", "layers.#", BLOCK),
}
NAMES = {
    **put_below("encoder", "model.encoder", SIDE),
    **put_below("decoder", "model.decoder", SIDE),
    "decoder.head": "lm_head",
    "decoder.head.bias": BIAS,
}


def make_waves(width: int, places: int) -> Tensor:
    return Sinusoidal().waves(width, line(places), torch.float32)


def is_waves(table: Tensor, network: TransformerConfig, context: int) -> bool:
    """Whether a position table holds the family's sinusoids, up to rounding to 16 bits."""
    if table.dim() != 2 or table.shape[0] != context or table.shape[1] < 2:
        return False
    return bool((table - make_waves(table.shape[1], context)).abs().amax() <= NEAR)


class Bart(Family):
    prefix = "model."
    heads = ("lm_head.", BIAS)
    names = NAMES
    free = ("head_bias",)
    context_key = ("max_position_embeddings", 1024)
    ahead = 2
    unread = r"\.version$"

    def __init__(
        self,
        name: str,
        class_name: str,
        *,
        norm_position: NormPosition,
        position: Literal["Sinusoidal()", "Learned()"],
        separate: bool = False,
    ):
        """`separate`: encoder and decoder may have separate embeddings."""
        self.name, self.separate = name, separate
        self.kinds = {class_name: "translation"}
        self.learned = position == LEARNED  # these have an embedding norm, too
        self.fixed = {
            "position": position,
            "norm_position": norm_position,
            "norm_epsilon": 1e-5,
            "embedding_norm": self.learned,
        }
        if not self.learned:
            self.computed = (r"\.embed_positions\.weight$", is_waves)

    def read_settings(self, config: Config, settings: dict[str, Any]) -> dict[str, Any]:
        depths = config.get_whole("encoder_layers"), config.get_whole("decoder_layers")
        return {"depth": depths if depths[0] != depths[1] else depths[0]}

    def read_tables(
        self, held: Tensors, config: Config, kind: Kind
    ) -> tuple[Tensors, dict[str, Any]]:
        held = self.merge_sides(held, config)
        head_bias = BIAS in held and bool(held[BIAS].any())
        if not head_bias:
            held.pop(BIAS, None)
        return held, {"tied": HEAD not in held, "head_bias": head_bias}

    def merge_sides(self, held: Tensors, config: Config) -> Tensors:
        """Keep each word table once: SHARED if both sides share it, HEAD if it is not tied."""
        held = dict(held)
        apart = self.separate and not config.get("share_encoder_decoder_embeddings", True)
        if apart and SHARED in held:
            raise ValueError(f"share_encoder_decoder_embeddings is false, and there is a {SHARED}")
        if config.get("tie_word_embeddings", True):
            return merge_tables(held, (WRITTEN, HEAD) if apart else (SHARED, READ, WRITTEN, HEAD))
        require_head(held, HEAD)
        shared = held.pop(SHARED, None)
        if shared is not None:
            held = {READ: shared, WRITTEN: shared, **held}
        if are_equal(held, WRITTEN, HEAD):
            del held[HEAD]
        if not apart and are_equal(held, READ, WRITTEN):
            held[SHARED] = held.pop(READ)
            del held[WRITTEN]
        return held

    def pairs(self, ours: Tensors, network: TransformerConfig) -> list[TensorNames]:
        """Return the names of tensors; a table shared by both sides has its own name."""
        pairs = super().pairs(ours, network)
        if "decoder.embedding.table.weight" in ours:
            return pairs
        shared = TensorNames("encoder.embedding.table.weight", (SHARED,))
        return [shared if pair.ours == shared.ours else pair for pair in pairs]

    def write_config(
        self, network: TransformerConfig, kind: Kind, joint: bool, context: int
    ) -> dict[str, Any]:
        return {
            **super().write_config(network, kind, joint, context),
            "is_encoder_decoder": True,
            "encoder_layers": network.depths[0],
            "decoder_layers": network.depths[1],
            **{f"{side}_layerdrop": 0.0 for side in ("encoder", "decoder")},
            "activation_dropout": network.dropout,
            "tie_word_embeddings": network.tied,
            **({"share_encoder_decoder_embeddings": joint} if self.separate else {}),
        }

    def write_tensors(
        self, weights: Tensors, network: TransformerConfig, kind: Kind, context: int
    ) -> Tensors:
        held = give_tensors(weights, self.pairs(weights, network))
        if not self.learned:  # not learned, but some versions require it
            places = make_waves(network.width, context)
            held |= {
                f"model.{side}.embed_positions.weight": places for side in ("encoder", "decoder")
            }
        if SHARED in held and not network.tied:  # untied: each place has its own copy
            held |= {READ: held[SHARED], WRITTEN: held[SHARED]}
        if not network.head_bias:
            held[BIAS] = torch.zeros(1, held[SHARED if SHARED in held else WRITTEN].shape[0])
        return held


def are_equal(held: Tensors, name: str, other: str) -> bool:
    return name in held and other in held and torch.equal(held[name], held[other])
