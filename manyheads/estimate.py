"""What a run would take, reckoned before it is begun.

Parameters are counted, not built, with the vocabulary that would be learned; memory and time are
rough, and say so.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from manyheads.recipes.table import family_of

SPEEDS = {"cpu": 5e10, "cuda": 1e14}  # multiplications and additions a second that are reached
ACTIVATIONS = 34  # numbers a layer keeps for each token and channel until the backward pass


def estimate(recipe: Any, gathered: Any, device: torch.device) -> str:
    """Parameters, tokens, memory and time, in words."""
    family = family_of(recipe)
    with torch.device("meta"):
        network, words = family.sketch(gathered, recipe)
    parameters = counted(network)
    epoch_tokens = family.tokens(gathered, recipe)
    training = recipe.training
    tokens = training.steps * training.tokens_per_batch
    seconds = 6 * parameters * tokens / SPEEDS[device.type]
    layers = family.SIDES * recipe.network.depth
    width = 2 if training.precision == "bfloat16" else 4
    kept = training.tokens_per_batch * recipe.network.width * layers * ACTIVATIONS * width
    scores = training.tokens_per_batch * words * (width + 8)
    memory = 16 * parameters + (kept + scores) / training.accumulate
    return "\n".join(
        [
            f"# {family.counted(gathered)}",
            f"# {parameters:,} parameters",
            f"# {training.steps:,} steps, about {tokens / max(1, epoch_tokens):.0f} epochs",
            f"# memory: about {memory / 2**30:.1f} GiB; time: about {minutes(seconds)} on {device}",
        ]
    )


def counted(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
