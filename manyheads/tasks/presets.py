"""What presets of several tasks share."""

from __future__ import annotations

from manyheads.modules.config import NetworkConfig
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


def check_layout(network: NetworkConfig, layout: str) -> None:
    if layout == "packed" and not network.packs:
        raise ValueError(
            f"a {network.kind} network reads one sequence a row; layout: padded would do"
        )


def check_room(
    network: NetworkConfig, longest: int, what: str = "windows", field: str = "data.context"
) -> None:
    """Refuse what is longer than a learned position reaches."""
    room = network.places
    if room is not None and room < longest:
        raise ValueError(
            f"a learned position for {room} places meets {what} of {longest} tokens; "
            f"network.position: Learned({longest}) or {field}: {room} would do"
        )
