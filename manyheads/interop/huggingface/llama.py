"""Llama, and Mistral, which looks back only so far: turned positions, gates, no biases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from manyheads.interop.huggingface.config_keys import ROTARY
from manyheads.interop.huggingface.family import GATES, Kind, activation, attention
from manyheads.interop.huggingface.folders import Config
from manyheads.interop.huggingface.gpt2 import apart
from manyheads.interop.huggingface.keys import brief, check
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

TABLE, HEAD = "model.embed_tokens.weight", "lm_head.weight"


class Llama:
    prefix = "model."
    heads: tuple[str, ...] = ("lm_head.",)
    unread = re.compile(r"(?!)")  # nothing

    def __init__(self, name: str, class_name: str, *, windowed: bool):
        self.name, self.windowed = name, windowed
        self.kinds: Mapping[str, Kind] = {f"{class_name}ForCausalLM": "language"}

    def holds(self, kind: Kind) -> Mapping[str, tuple[Any, ...]]:
        return {
            "kind": ("transformer",),
            "position": ("rotary",),
            "order": ("pre",),
            "norm": ("rms",),
            "feed_forward": tuple(GATES.values()),
            "embedding_norm": (False,),
            "relative": ("none",),
            "residual": (True,),
            "head_bias": (False,),
            "types": (0,),
            **({"bias": (False,)} if self.windowed else {"window": (0,)}),
        }

    def network(self, config: Config, held: Tensors, kind: Kind) -> tuple[Network, Tensors]:
        width, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
        config.only("head_dim", width // heads)
        bias = False
        if not self.windowed:
            bias = bool(config.get("attention_bias", False))
            config.only("mlp_bias", bias)
        longest_wave = wave(config)
        turns = longest_wave ** -(torch.arange(0, width // heads, 2) / (width // heads))
        held = without_known(held, r"\.rotary_emb\.inv_freq$", lambda kept: near(kept, turns))
        if config.get("tie_word_embeddings", False):
            held = one_of(held, (TABLE, HEAD))
        else:
            own_head(held, HEAD)
        held, tied, scaled = unscaled(held, TABLE, HEAD)
        return Network(
            width=width,
            depth=config.whole("num_hidden_layers"),
            heads=heads,
            key_heads=self.key_heads(config, heads),
            inner=config.whole("intermediate_size"),
            feed_forward=config.named("hidden_act", GATES, "silu"),
            bias=bias,
            norm="rms",
            norm_epsilon=config.number("rms_norm_eps", 1e-6),
            position="rotary",
            longest_wave=longest_wave,
            window=self.window(config),
            dropout=0.0,
            attention_dropout=config.number("attention_dropout", 0.0),
            tied=tied,
            scaled=scaled,
        ), held

    def pairs(self, network: Network, kind: Kind, joint: bool) -> list[TensorNames]:
        pairs = [TensorNames("embedding.table.weight", (TABLE,))]
        pairs += both("stack.norm", "model.norm", bias=False)
        gates = (network.inner, network.inner)
        for i in range(network.depth):
            ours, theirs = f"stack.blocks.{i}", f"model.layers.{i}"
            think, mlp = f"{ours}.feed_forward", f"{theirs}.mlp"
            look = f"{ours}.self_attention"
            pairs += [
                *both(f"{look}.norm", f"{theirs}.input_layernorm", bias=False),
                *attention(look, f"{theirs}.self_attn", "q_proj k_proj v_proj o_proj", network),
                *both(f"{think}.norm", f"{theirs}.post_attention_layernorm", bias=False),
                *both(
                    f"{think}.part.inward",
                    f"{mlp}.gate_proj",
                    f"{mlp}.up_proj",
                    bias=network.bias,
                    rows=gates,
                ),
                *both(f"{think}.part.out", f"{mlp}.down_proj", bias=network.bias),
            ]
        return pairs if network.tied else [*pairs, TensorNames("head.weight", (HEAD,))]

    def config(self, network: Network, kind: Kind, joint: bool, context: int) -> dict[str, Any]:
        own: dict[str, Any] = {"attention_bias": network.bias, "mlp_bias": network.bias}
        if self.windowed:
            own = {"sliding_window": network.window or None}
        return {
            "architectures": list(self.kinds)[:1],
            "hidden_size": network.width,
            "num_hidden_layers": network.depth,
            "num_attention_heads": network.heads,
            "num_key_value_heads": network.key_heads or network.heads,
            "head_dim": network.width // network.heads,
            "intermediate_size": network.inner,
            "hidden_act": activation(network),
            "rms_norm_eps": network.norm_epsilon,
            "max_position_embeddings": context,
            # Said twice: before and since version 5.
            "rope_theta": network.longest_wave,
            "rope_parameters": {"rope_type": "default", "rope_theta": network.longest_wave},
            "attention_dropout": network.attention_dropout,
            "tie_word_embeddings": network.tied and not network.scaled,
            **own,
        }

    def tensors(
        self, weights: Tensors, network: Network, kind: Kind, joint: bool, context: int
    ) -> Tensors:
        return apart(given(weights, self.pairs(network, kind, joint)), network, TABLE, HEAD)

    def key_heads(self, config: Config, heads: int) -> int:
        """Where it is not said, Mistral had 8; null says that there are as many as heads."""
        several = self.windowed and "num_key_value_heads" not in config.held
        return config.whole("num_key_value_heads", 8 if several else heads)

    def window(self, config: Config) -> int:
        """Where it is not said, Mistral had one; null says that there is none."""
        if not self.windowed or config.held.get("sliding_window", 4096) is None:
            return 0
        return config.whole("sliding_window", 4096)

    def context(self, config: Config) -> int:
        return config.whole("max_position_embeddings", 131_072 if self.windowed else 2048)


def near(kept: Tensor, wanted: Tensor) -> bool:
    return kept.shape == wanted.shape and torch.allclose(kept, wanted, rtol=1e-2)


def wave(config: Config) -> float:
    """The longest wave, where the turning is the plain one: the same wherever it is said."""
    waves = {}
    for name in ("rope_parameters", "rope_scaling"):
        turning = config.get(name, {})
        kind = turning.get("rope_type", turning.get("type", "default"))
        if kind != "default":
            raise ValueError(
                f"config.json: {name}: rotary positions of type {brief(kind)} are not computed "
                "here; those of type default are"
            )
        check(turning, ROTARY, f"config.json: {name}")
        if "rope_theta" in turning:
            waves[f"{name}.rope_theta"] = Config(turning, ROTARY).number("rope_theta", 0.0)
    if config.get("rope_theta") is not None:
        waves["rope_theta"] = config.number("rope_theta", 0.0)
    if len(set(waves.values())) > 1:
        said = ", ".join(f"{name}: {value:g}" for name, value in waves.items())
        raise ValueError(f"config.json: {said}; they are one setting and differ")
    return next(iter(waves.values()), 10_000.0)
