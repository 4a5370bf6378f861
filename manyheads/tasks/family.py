"""A module of functions as a task: those that have no class of their own yet."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from torch import Tensor, nn

from manyheads.tasks.task import Batches, Choice, Task, Validation
from manyheads.training.run import Run


class Read(NamedTuple):
    """What a family read."""

    held: Any
    tokens: int
    told: str

    def __str__(self) -> str:
        return self.told

    @property
    def notes(self) -> Any:
        return getattr(self.held, "notes", ())


class FamilyTask(Task):
    """What the functions of a module do."""

    family: Any

    def __init__(self, recipe: Any, folder: Path | None = None):
        super().__init__(recipe, folder)
        self.jobs: list[Any] = []

    @property
    def job(self) -> Any:
        if not self.jobs:
            self.jobs.append(self.family.job(self.recipe, Run(self.held_in())))
        return self.jobs[0]

    @classmethod
    def data_of(cls, files: Any) -> Any:
        return cls.family.data_of(files)

    @classmethod
    def choose(cls, task: Any, data: Any, tokens: int, choice: Choice) -> Any:
        return cls.family.recipe_for(task, data, tokens, choice)

    @classmethod
    def settle(cls, recipe: Any, corpus: Any) -> Any:
        settle = getattr(cls.family, "with_tokenizer", None)
        return recipe if settle is None else settle(recipe, corpus.held)

    @classmethod
    def gather(cls, recipe: Any) -> Read:
        held = cls.family.gather(recipe)
        return Read(held, cls.family.tokens(held, recipe), cls.family.counted(held))

    @classmethod
    def prepare(cls, corpus: Any, recipe: Any, folder: Path) -> None:
        cls.family.prepare(corpus.held, recipe, Run(folder))

    @classmethod
    def adopt(cls, model: Any, source: Path, folder: Path) -> Any:
        adopt = getattr(cls.family, "adopt", super().adopt)
        return adopt(model, source, folder)

    def network(self) -> nn.Module:
        return self.family.model(self.recipe, self.held_in(), "").network

    def batches(self) -> Batches:
        return self.job.plan

    def loss(self, network: Any, batch: Any) -> dict[str, Tensor]:
        smoothing = self.recipe.training.label_smoothing if network.training else 0.0
        return {"loss": self.job.loss(network, batch, smoothing)}

    def validate(self, network: Any) -> Validation:
        return Validation(*self.job.judge(network))

    def model(self, network: Any, name: str = "") -> Any:
        made = self.family.model(self.recipe, self.held_in(), name)
        made.network = network.eval()
        return made


def task_of(family: ModuleType) -> type[Task]:
    own: Any = family
    held = {
        "family": family,
        "Recipe": own.Recipe,
        "files": own.FILES,
        "use": own.USE,
        "presets": getattr(own, "PRESETS", {}),
    }
    return type(f"{family.__name__.split('.')[-2].title()}Task", (FamilyTask,), held)
