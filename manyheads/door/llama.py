"""Llama, and Mistral, which looks back only so far: turned positions, gates, no biases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from manyheads.door.family import GATES, Kind, activation, attention
from manyheads.door.folders import Config
from manyheads.door.gpt2 import apart
from manyheads.door.names import Pair, Tensors, both, given, one_of, unscaled
from manyheads.model.build import Network

TABLE, HEAD = "model.embed_tokens.weight", "lm_head.weight"


class Llama:
    prefix = "model."
    heads: tuple[str, ...] = ("lm_head.",)
    unread = re.compile(r"\.rotary_emb\.inv_freq$")

    def __init__(self, name: str, class_name: str, *, windowed: bool):
        self.name, self.windowed = name, windowed
        self.kinds: Mapping[str, Kind] = {
            f"{class_name}ForCausalLM": "language",
            f"{class_name}Model": "language",
        }

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
        if config.get("tie_word_embeddings", False):
            held = one_of(held, (TABLE, HEAD))
        held, tied, scaled = unscaled(held, TABLE, HEAD)
        return Network(
            width=width,
            depth=config.whole("num_hidden_layers"),
            heads=heads,
            key_heads=config.whole("num_key_value_heads", 8 if self.windowed else heads),
            inner=config.whole("intermediate_size"),
            feed_forward=config.named("hidden_act", GATES, "silu"),
            bias=bias,
            norm="rms",
            norm_epsilon=config.number("rms_norm_eps", 1e-6),
            position="rotary",
            longest_wave=wave(config),
            window=self.window(config),
            dropout=0.0,
            attention_dropout=config.number("attention_dropout", 0.0),
            tied=tied,
            scaled=scaled,
        ), held

    def pairs(self, network: Network, kind: Kind, joint: bool) -> list[Pair]:
        pairs = [Pair("embedding.table.weight", (TABLE,))]
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
        return pairs if network.tied else [*pairs, Pair("head.weight", (HEAD,))]

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

    def window(self, config: Config) -> int:
        """Where it is not said, Mistral had one; null says that there is none."""
        if not self.windowed or config.held.get("sliding_window", 4096) is None:
            return 0
        return config.whole("sliding_window", 4096)

    def context(self, config: Config) -> int:
        return config.whole("max_position_embeddings", 131_072 if self.windowed else 2048)


def wave(config: Config) -> float:
    """The longest wave, where the turning is the plain one."""
    said = config.get("rope_parameters") or config.get("rope_scaling") or {}
    said = said if isinstance(said, dict) else {"rope_type": said}
    kind = said.get("rope_type", said.get("type", "default"))
    if kind != "default" or said.get("partial_rotary_factor", 1) != 1:
        raise ValueError(
            f"config.json: rotary positions of type {kind} are not computed here; default ones are"
        )
    return float(said.get("rope_theta", config.number("rope_theta", 10_000.0)))
