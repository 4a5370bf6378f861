"""What the settings of several tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from manyheads.config.declare import setting
from manyheads.modules.config import Layout, NetworkConfig, TransformerConfig
from manyheads.tasks.recipe import START_FROM, Recipe, TrainingPlan
from manyheads.training.config import Training


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


@dataclass(frozen=True)
class ContinuationRecipe(Recipe):
    """Of what goes on from what is there."""

    use = "generate"
    networks = ("transformer", "recurrent")
    plan = TrainingPlan(
        {
            "schedule": "cosine",
            "weight_decay": 0.1,
            "betas": (0.9, 0.99),
            "best_by": "loss",
            "ema": 0.99,
        }
    )
    many_tokens = 100_000_000
    judged: ClassVar[str]  # who is, in the sentences that refuse
    written: ClassVar[str]  # what is, by which networks

    task: Any = setting(about="What is learned.")
    data: Any = setting(about="Where it is learned from.")
    codec: Any = setting(None, "How it becomes numbers.")
    network: Any = setting(TransformerConfig(), "What learns it.")
    training: Training = setting(
        Training(best_by="loss"), "How long, how fast and on how much at a time."
    )
    layout: Layout = setting(
        "packed", "Sequences behind each other in full rows (packed), or one a row (padded)."
    )
    start_from: Path | None = setting(None, START_FROM)

    def __post_init__(self) -> None:
        if self.training.best_by != "loss":
            raise ValueError(f"{self.judged} is judged by its loss; training.best_by: loss")
        if self.network.kind == "convolutional":
            raise ValueError(
                f"{self.written} a transformer or a recurrent network; "
                "network.kind: recurrent would do"
            )
        check_layout(self.network, self.layout)
        check_room(self.network, self.data.context)
        self.network.one_depth()
