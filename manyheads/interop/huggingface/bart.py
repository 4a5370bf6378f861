"""Marian, BART, mBART and Pegasus: one network that reads and writes, its norms set four ways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from manyheads.attention.places import line
from manyheads.attention.positions import Sinusoidal
from manyheads.interop.huggingface.config_keys import SIDES
from manyheads.interop.huggingface.family import ACTIVATIONS, Kind, activation, attention
from manyheads.interop.huggingface.folders import Config
from manyheads.interop.huggingface.names import (
    TensorNames,
    Tensors,
    both,
    given,
    one_of,
    own_head,
    without_known,
)
from manyheads.modules.config import Network, NormOrder

SHARED, HEAD, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
READ, WRITTEN = (f"model.{side}.embed_tokens.weight" for side in SIDES)

NEAR = 5e-3  # what is kept in 16 bits of a wave


class Bart:
    prefix = "model."
    heads: tuple[str, ...] = ("lm_head.", BIAS)

    def __init__(
        self,
        name: str,
        class_name: str,
        *,
        order: NormOrder,
        position: Literal["sinusoidal", "learned"],
        separate: bool = False,
    ):
        """`separate`: it has a form with one table for each side."""
        self.name, self.order, self.position, self.separate = name, order, position, separate
        self.normed = position == "learned"  # those that learn their positions norm them, too
        self.kinds: Mapping[str, Kind] = {class_name: "translation"}
        self.unread = re.compile(r"\.version$")

    def holds(self, kind: Kind) -> Mapping[str, tuple[Any, ...]]:
        return {
            "kind": ("transformer",),
            "position": (self.position,),
            "order": (self.order,),
            "norm": ("layer",),
            "norm_epsilon": (1e-5,),
            "embedding_norm": (self.normed,),
            "feed_forward": tuple(ACTIVATIONS.values()),
            "bias": (True,),
            "key_heads": (None,),
            "relative": ("none",),
            "residual": (True,),
            "types": (0,),
            "window": (0,),
            **({} if self.normed else {"longest_wave": (10_000.0,)}),
        }

    def network(self, config: Config, held: Tensors, kind: Kind) -> tuple[Network, Tensors]:
        held = one_table_each(held, config, separate=self.separate)
        if not self.normed:
            longest = self.context(config)
            places = r"\.embed_positions\.weight$"
            held = without_known(held, places, lambda kept: waves(kept, longest))
        head_bias = BIAS in held and bool(held[BIAS].any())
        if not head_bias:
            held.pop(BIAS, None)
        return Network(
            width=config.whole("d_model"),
            depth=config.same("encoder_layers", "decoder_layers"),
            heads=config.same("encoder_attention_heads", "decoder_attention_heads"),
            inner=config.same("encoder_ffn_dim", "decoder_ffn_dim"),
            feed_forward=config.named("activation_function", ACTIVATIONS, "gelu"),
            norm_epsilon=1e-5,
            embedding_norm=self.normed,
            order=self.order,
            position=self.position,
            longest=self.context(config) if self.normed else Network.longest,
            dropout=config.number("dropout", 0.1),
            attention_dropout=config.number("attention_dropout", 0.0),
            tied=HEAD not in held,
            scaled=bool(config.get("scale_embedding", False)),
            head_bias=head_bias,
        ), held

    def pairs(self, network: Network, kind: Kind, joint: bool) -> list[TensorNames]:
        pairs = [TensorNames("encoder.embedding.table.weight", (SHARED if joint else READ,))]
        if not joint:
            pairs.append(TensorNames("decoder.embedding.table.weight", (WRITTEN,)))
        for side in SIDES:
            pairs += self.side_pairs(side, network)
        if not network.tied:
            pairs.append(TensorNames("decoder.head.weight", (HEAD,)))
        if network.head_bias:
            pairs.append(TensorNames("decoder.head.bias", (BIAS,), lifted=True))
        return pairs

    def side_pairs(self, side: str, network: Network) -> list[TensorNames]:
        names = "q_proj k_proj v_proj out_proj"
        stack, body = f"{side}.stack", f"model.{side}"
        pairs: list[TensorNames] = []
        if self.normed:
            places = (f"{body}.embed_positions.weight",)
            pairs.append(TensorNames(f"{stack}.position.tables.0.weight", places, ahead=2))
            pairs += both(f"{stack}.entry", f"{body}.layernorm_embedding")
        if self.order == "pre":
            pairs += both(f"{stack}.norm", f"{body}.layer_norm")
        looks = {"self_attention": "self_attn"}
        if side == "decoder":
            looks["cross_attention"] = "encoder_attn"
        for i in range(network.depth):
            ours, theirs = f"{stack}.blocks.{i}", f"{body}.layers.{i}"
            for here, there in looks.items():
                pairs += attention(f"{ours}.{here}", f"{theirs}.{there}", names, network)
                pairs += both(f"{ours}.{here}.norm", f"{theirs}.{there}_layer_norm")
            pairs += both(f"{ours}.feed_forward.part.inward", f"{theirs}.fc1")
            pairs += both(f"{ours}.feed_forward.part.out", f"{theirs}.fc2")
            pairs += both(f"{ours}.feed_forward.norm", f"{theirs}.final_layer_norm")
        return pairs

    def config(self, network: Network, kind: Kind, joint: bool, context: int) -> dict[str, Any]:
        sides = {
            f"{side}_{what}": value
            for side in SIDES
            for what, value in (
                ("layers", network.depth),
                ("attention_heads", network.heads),
                ("ffn_dim", network.inner),
                ("layerdrop", 0.0),
            )
        }
        return {
            "architectures": list(self.kinds),
            "is_encoder_decoder": True,
            "d_model": network.width,
            **sides,
            "activation_function": activation(network),
            "max_position_embeddings": network.longest if self.normed else context,
            "dropout": network.dropout,
            "attention_dropout": network.attention_dropout,
            "activation_dropout": network.dropout,
            "scale_embedding": network.scaled,
            "tie_word_embeddings": network.tied,
            **({"share_encoder_decoder_embeddings": joint} if self.separate else {}),
        }

    def tensors(
        self, weights: Tensors, network: Network, kind: Kind, joint: bool, context: int
    ) -> Tensors:
        held = given(weights, self.pairs(network, kind, joint))
        if not self.normed:  # nothing learned, and yet looked for by some versions
            places = Sinusoidal().waves(network.width, line(context), torch.float32)
            held |= {f"model.{side}.embed_positions.weight": places for side in SIDES}
        if joint and not network.tied:  # without ties each place has its own copy
            held |= {READ: held[SHARED], WRITTEN: held[SHARED]}
        if not network.head_bias:
            held[BIAS] = torch.zeros(1, held[SHARED if joint else WRITTEN].shape[0])
        return held

    def context(self, config: Config) -> int:
        return config.whole("max_position_embeddings", 1024)


def one_table_each(held: Tensors, config: Config, *, separate: bool) -> Tensors:
    """The words' tables, each once: SHARED where both sides have one, HEAD where it is another."""
    held = dict(held)
    tied = bool(config.get("tie_word_embeddings", True))
    apart = separate and not config.get("share_encoder_decoder_embeddings", True)
    if apart and SHARED in held:
        raise ValueError(f"share_encoder_decoder_embeddings is false, and there is a {SHARED}")
    if tied:
        return one_of(held, (WRITTEN, HEAD) if apart else (SHARED, READ, WRITTEN, HEAD))
    own_head(held, HEAD)
    shared = held.pop(SHARED, None)
    if shared is not None:
        held = {READ: shared, WRITTEN: shared, **held}
    if alike(held, WRITTEN, HEAD):
        del held[HEAD]
    if not apart and alike(held, READ, WRITTEN):
        held[SHARED] = held.pop(READ)
        del held[WRITTEN]
    return held


def alike(held: Tensors, name: str, other: str) -> bool:
    return name in held and other in held and torch.equal(held[name], held[other])


def waves(table: Tensor, longest: int) -> bool:
    """Whether places are the sine waves that such a family computes, in as few bits as they are."""
    if table.dim() != 2 or table.shape[0] != longest or table.shape[1] < 2:
        return False
    wanted = Sinusoidal().waves(table.shape[1], line(table.shape[0]), torch.float32)
    return bool((table - wanted).abs().amax() <= NEAR)
