"""Llama, and Mistral with its sliding window: rotary positions, gated layers, no biases."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from manyheads.interop.huggingface.config_keys import ROTARY
from manyheads.interop.huggingface.family import WINDOW, Family, Kind, put_below, window_of
from manyheads.interop.huggingface.keys import CONFIG, Config, check_keys, shorten_value
from manyheads.modules.config import EVERYTHING, TransformerConfig
from manyheads.modules.positions import RotaryValue

BLOCK = {
    "self_attention.norm": "input_layernorm",
    "self_attention.part.inward": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
    "self_attention.part.out": "self_attn.o_proj",
    "feed_forward.norm": "post_attention_layernorm",
    "feed_forward.part.inward": "mlp.gate_proj mlp.up_proj",
    "feed_forward.part.out": "mlp.down_proj",
}
NAMES = {
    "embedding.table": "model.embed_tokens",
    "stack.norm": "model.norm",
    **put_below("stack.blocks.#", "model.layers.#", BLOCK),
    "head": "lm_head",
}


def is_turning(kept: Tensor, network: TransformerConfig, context: int) -> bool:
    """Whether a tensor holds the frequencies of plain rotary positions."""
    channels = network.width // network.heads
    wanted = base_of(network) ** -(torch.arange(0, channels, 2) / channels)
    return kept.shape == wanted.shape and torch.allclose(kept, wanted, rtol=1e-2)


class Llama(Family):
    prefix = "model."
    names = NAMES
    table = "model.embed_tokens.weight"
    tied = False
    computed = (r"\.rotary_emb\.inv_freq$", is_turning)

    def __init__(self, name: str, class_name: str, *, windowed: bool):
        self.name, self.windowed = name, windowed
        self.kinds = {class_name: "language"}
        self.fixed = {
            "position": "Rotary()",
            "norm": "rms",
            **({"bias": False} if windowed else {}),
        }
        self.free = ("key_heads",)
        self.context_key = ("max_position_embeddings", 131_072 if windowed else 2048)

    def holds(self, kind: Kind) -> dict[str, tuple[Any, ...]]:
        windows = {"pattern": (EVERYTHING, WINDOW)} if self.windowed else {}
        return super().holds(kind) | windows

    def read_settings(self, config: Config, settings: dict[str, Any]) -> dict[str, Any]:
        heads, window = settings["heads"], 0
        config.require_value("head_dim", settings["width"] // heads)
        key_heads = heads  # if the key is null
        if not self.windowed:
            config.require_value("mlp_bias", settings["bias"])
        else:  # Mistral's defaults are 8 key heads and a window; null means no window
            key_heads = 8 if "num_key_value_heads" not in config.held else heads
            if config.held.get("sliding_window", 4096) is not None:
                window = config.get_whole("sliding_window", 4096)
        return {
            "key_heads": config.get_whole("num_key_value_heads", key_heads),
            "position": f"Rotary({read_wave(config)!r})",
            "pattern": f"Window({window - 1})" if window else EVERYTHING,
            "dropout": 0.0,
        }

    def write_config(
        self, network: TransformerConfig, kind: Kind, joint: bool, context: int
    ) -> dict[str, Any]:
        own = {"sliding_window": window_of(network) or None}
        return {
            **super().write_config(network, kind, joint, context),
            "num_key_value_heads": network.key_heads or network.heads,
            "head_dim": network.width // network.heads,
            # Two keys: one before version 5, one since.
            "rope_theta": base_of(network),
            "rope_parameters": {"rope_type": "default", "rope_theta": base_of(network)},
            **(own if self.windowed else {"mlp_bias": network.bias}),
        }


def base_of(network: TransformerConfig) -> float:
    return cast(RotaryValue, network.position_value).base


def read_wave(config: Config) -> float:
    """Return the base of plain rotary positions; all keys that give it must agree."""
    waves = {}
    for name in ("rope_parameters", "rope_scaling"):
        turning = config.get(name, {})
        kind = turning.get("rope_type", turning.get("type", "default"))
        if kind != "default":
            raise ValueError(
                f"{CONFIG}: {name}: rotary positions of type {shorten_value(kind)} are not "
                "computed here; those of type default are"
            )
        check_keys(turning, ROTARY, f"{CONFIG}: {name}")
        if "rope_theta" in turning:
            waves[f"{name}.rope_theta"] = Config(turning, ROTARY).get_number("rope_theta", 0.0)
    if config.get("rope_theta") is not None:
        waves["rope_theta"] = config.get_number("rope_theta", 0.0)
    if len(set(waves.values())) > 1:
        said = ", ".join(f"{name}: {value:g}" for name, value in waves.items())
        raise ValueError(f"{CONFIG}: {said}; they are one setting and differ")
    return next(iter(waves.values()), 10_000.0)
