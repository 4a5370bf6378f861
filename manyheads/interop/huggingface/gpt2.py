"""GPT-2: learned positions, pre-norm, transposed weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manyheads.interop.huggingface.family import LEARNED, Family, Kind, put_below
from manyheads.interop.huggingface.keys import Config
from manyheads.modules.config import TransformerConfig

BLOCK = {
    "self_attention.norm": "ln_1",
    "self_attention.part.inward": "attn.c_attn",
    "self_attention.part.out": "attn.c_proj",
    "feed_forward.norm": "ln_2",
    "feed_forward.part.inward": "mlp.c_fc",
    "feed_forward.part.out": "mlp.c_proj",
}
NAMES = {
    "embedding.table": "transformer.wte",
    "stack.position.tables.0": "transformer.wpe",
    "stack.norm": "transformer.ln_f",
    **put_below("stack.blocks.#", "transformer.h.#", BLOCK),
    "head": "lm_head",
}


def is_triangle(seen: Tensor, network: TransformerConfig, context: int) -> bool:
    """Whether a saved mask is causal."""
    square = seen.squeeze()
    return square.dim() < 2 or torch.equal(square, torch.ones_like(square).tril())


class Gpt2(Family):
    name = "gpt2"
    prefix = "transformer."
    names = NAMES
    table = "transformer.wte.weight"
    context_key = ("n_positions", 1024)
    turned = True
    unread = r"\.attn\.masked_bias$"
    computed = (r"\.attn\.bias$", is_triangle)

    def __init__(self) -> None:
        self.kinds = {"GPT2LMHeadModel": "language"}
        self.fixed = {"position": LEARNED}

    def read_settings(self, config: Config, settings: dict[str, Any]) -> dict[str, Any]:
        return {"ffn_width": config.get_whole("n_inner", 4 * settings["width"])}

    def write_config(
        self, network: TransformerConfig, kind: Kind, joint: bool, context: int
    ) -> dict[str, Any]:
        held = super().write_config(network, kind, joint, context)
        return {**held, "n_inner": network.ffn_width, "embd_pdrop": network.dropout}
