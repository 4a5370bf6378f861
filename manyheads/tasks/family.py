"""What the commands ask of a task, whatever it learns.

Each family is a module of this folder that has these names; table.py says which task is of which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from manyheads.modules.build import Network
from manyheads.training.learner import Training
from manyheads.training.run import Run
from manyheads.training.trainer import Job


class Asked(NamedTuple):
    """What a command line says beside the files and the settings."""

    device: str = "cpu"
    network: str | None = None
    preset: str | None = None
    start: Any = None  # the recipe of the run to start from


class Trained(Protocol):
    """A model as it is loaded; what else it offers is its family's own."""

    network: Any
    name: str

    @property
    def kind(self) -> str: ...


class Family(Protocol):
    """From files to a recipe, a corpus, a job and a model."""

    FILES: tuple[str, ...]  # the options that say what to learn from, as fields of its data
    USE: str  # the command that a trained model is for
    PRESETS: dict[str, Any]  # good settings by name; none where nothing is trained

    @property
    def Recipe(self) -> Any: ...  # noqa: N802 - it is a class

    def data_of(self, files: Mapping[str, Any]) -> Any:
        """Where to learn from, of the options that were given."""

    def recipe_for(self, task: Any, data: Any, tokens: int, asked: Asked) -> Any:
        """Every choice made for a corpus of about so many tokens."""

    def gather(self, recipe: Any) -> Any:
        """Read and look through what is to be learned from."""

    def tokens(self, gathered: Any, recipe: Any) -> int:
        """Of an epoch, about: before the vocabulary is known."""

    def counted(self, gathered: Any) -> str:
        """How much there is, in words: 28,995 pairs to train on, 1,014 to validate on"""

    def prepare(self, gathered: Any, recipe: Any, run: Run) -> None:
        """Put all into the run's folder that it will read: vocabulary, numbers, a report."""

    def job(self, recipe: Any, run: Run) -> Job:
        """What a run learns, from its folder alone: the files it was read from may be gone."""

    def model(self, recipe: Any, folder: Path, name: str) -> Trained:
        """A model with weights as they were before training."""


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


def chosen_preset(presets: Mapping[str, Any], name: str) -> Any:
    if name not in presets:
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(presets)}")
    return presets[name]


def no_other_network(name: str, kinds: Sequence[str]) -> None:
    if name not in kinds:
        raise ValueError(f"there is no network {name!r} for this; there are {', '.join(kinds)}")
