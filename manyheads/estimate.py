"""What a run would take, reckoned before it is begun.

Parameters are counted, not built, with the vocabulary that would be learned; memory and time are
rough, and say so.
"""

from __future__ import annotations

import torch

from manyheads.recipe import Recipe
from manyheads.tasks.prepare import Gathered, learned
from manyheads.tasks.texts import Texts

SPEEDS = {"cpu": 5e10, "cuda": 1e14}  # multiplications and additions a second that are reached
ACTIVATIONS = 34  # numbers a layer keeps for each token and channel until the backward pass


def estimate(recipe: Recipe, gathered: Gathered, device: torch.device) -> str:
    """Parameters, tokens, memory and time, in words."""
    task = Texts(recipe.task, learned(recipe.codec, gathered.train), recipe.network)
    parameters = counted(task)
    epoch_tokens = gathered.tokens()
    training = recipe.training
    tokens = training.steps * training.tokens_per_batch
    seconds = 6 * parameters * tokens / SPEEDS[device.type]
    layers = 2 * recipe.network.depth
    width = 2 if training.precision == "bfloat16" else 4
    kept = training.tokens_per_batch * recipe.network.width * layers * ACTIVATIONS * width
    scores = training.tokens_per_batch * task.codecs.target.size * (width + 8)
    memory = 16 * parameters + (kept + scores) / training.accumulate
    return "\n".join(
        [
            f"# {len(gathered.train):,} pairs to train on, {len(gathered.valid):,} to validate on",
            f"# {parameters:,} parameters",
            f"# {training.steps:,} steps, about {tokens / max(1, epoch_tokens):.0f} epochs",
            f"# memory: about {memory / 2**30:.1f} GiB; time: about {minutes(seconds)} on {device}",
        ]
    )


def counted(task: Texts) -> int:
    """The parameters of the network, without the memory for them."""
    with torch.device("meta"):
        network = task.network()
    return sum(parameter.numel() for parameter in network.parameters())


def minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
