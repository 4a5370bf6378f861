"""What presets of several tasks share."""

from __future__ import annotations

from manyheads.modules.config import Network
from manyheads.tasks.recipe import TrainingPlan

# For what writes on.
WRITES_ON = TrainingPlan(
    {
        "schedule": "cosine",
        "weight_decay": 0.1,
        "betas": (0.9, 0.99),
        "best_by": "loss",
        "ema": 0.99,
    }
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
