"""What presets of several tasks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from manyheads.modules.config import Network
from manyheads.training.config import Training


def fine_tuned(training: Training, network: Network, rate: float | None = None) -> Training:
    """What was learned before is changed little: by rates far below those for learning anew, the
    lower the wider the network is (5.2e-5 for 768, 2e-5 for 2,048), and without strong decay.
    """
    rate = rate or min(3e-4, 0.04 / network.width)
    return replace(
        training,
        learning_rate=float(f"{rate:.1e}"),
        weight_decay=min(training.weight_decay, 0.01),
    )


def check_layout(network: Network, layout: str) -> None:
    if layout == "packed" and not network.packs:
        raise ValueError(
            f"a {network.kind} network reads one sequence a row; layout: padded would do"
        )


def check_room(network: Network, context: int) -> None:
    """Refuse windows that a learned position does not reach."""
    room = network.longest
    if network.position == "learned" and room < context:
        raise ValueError(
            f"a learned position for {room} places meets windows of {context} tokens; "
            f"network.longest: {context} or data.context: {room} would do"
        )


def chosen_preset(presets: Mapping[str, Any], name: str) -> Any:
    if name not in presets:
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(presets)}")
    return presets[name]


def no_other_network(name: str, kinds: Sequence[str]) -> None:
    if name not in kinds:
        raise ValueError(f"there is no network {name!r} for this; there are {', '.join(kinds)}")


def fitting_preset(tokens: int, cuda: bool) -> str:
    """For what writes on."""
    if not cuda:
        return "tiny"
    return "small" if tokens < 100_000_000 else "base"


def scale_training(
    tokens: int, cuda: bool, *, epochs: int, batch: int, learning_rate: float
) -> Training:
    """For what writes on: so many epochs, validated some twenty times."""
    steps = max(200, epochs * tokens // batch)
    every = max(50, steps // 20)
    return Training(
        steps=steps,
        tokens_per_batch=batch,
        learning_rate=learning_rate,
        schedule="cosine",
        warmup_steps=max(20, min(2000, steps // 20)),
        weight_decay=0.1,
        betas=(0.9, 0.99),
        precision="bfloat16" if cuda else "float32",
        best_by="loss",
        validate_every=every,
        checkpoint_every=every,
        log_every=max(1, min(50, every // 2)),
        ema=0.99,
    )
