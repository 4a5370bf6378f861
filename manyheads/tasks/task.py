"""The one contract: all that the rest of the program knows of a family of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, get_type_hints

import torch
from torch import Tensor, nn

from manyheads.tasks.model import Model, Predictor
from manyheads.training.distributed import World

Found = TypeVar("Found")
SHOWN = 5  # samples that a validation leaves


class Corpus(Protocol):
    """What was read to learn from; as text it says how much there is."""

    @property
    def tokens(self) -> int:
        """Of an epoch, about: before the vocabulary is known."""


class Batches(Protocol):
    """Which examples make which batch, and the batches."""

    @property
    def longest(self) -> int:
        """The tokens of the longest example, on its larger side."""

    def epoch(self, number: int) -> list[Any]:
        """The batches of an epoch, not yet laid out: a pure function of its number."""

    def count(self, rows: Any) -> int:
        """The tokens a batch is measured by."""

    def area(self, rows: Any) -> int:
        """The room a batch takes."""

    def share(self, rows: Any, part: int, parts: int) -> Any:
        """One part of a batch, of the same shape as the others; `rows[part::parts]` of a list."""

    def batch(self, rows: Any) -> Any:
        """Laid out; it has `to(device)`."""


class Sample(NamedTuple):
    """What was read, what was wanted and what was written."""

    source: str
    reference: str
    output: str


class Validation(NamedTuple):
    """What a network is worth: scores, the one that counts first (more is better), and a loss."""

    scores: dict[str, float]
    samples: list[Sample]


class Task(ABC):
    """A family of models: what is done with a run's recipe and folder."""

    Recipe: ClassVar[Any]  # what it says of itself
    world = World()  # the processes that share its validations
    at_once = 16384  # tokens of a batch to validate on

    def __init__(self, recipe: Any, folder: Path | None = None):
        self.recipe, self.folder = recipe, folder

    @property
    def kind(self) -> Any:
        """Which of those that the class is for."""
        return self.recipe.task

    def smoothing(self, network: nn.Module) -> float:
        """Of what is wanted, while it is trained."""
        return self.recipe.training.label_smoothing if network.training else 0.0

    def held_in(self) -> Path:
        """The folder of the run."""
        if self.folder is None:
            raise ValueError("this task was made without the folder of a run to learn from")
        return self.folder

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def settle(cls, recipe: Any, corpus: Any) -> Any:
        """The recipe with what only the corpus can say."""
        return recipe

    @classmethod
    def shorten(cls, recipe: Any) -> Any:
        """The recipe of a run that takes as long and is sooner prepared: for an estimate."""
        return recipe

    @classmethod
    @abstractmethod
    def gather(cls, recipe: Any) -> Corpus:
        """Read and look through what is to be learned from."""

    @classmethod
    @abstractmethod
    def prepare(cls, corpus: Any, recipe: Any, folder: Path) -> None:
        """Put all into the folder that a run reads: the files it came from may be gone."""

    @classmethod
    def adopt(cls, model: Any, source: Path, folder: Path) -> Any:
        """The recipe of a Portable from elsewhere; what else it needs is put into the folder."""
        types = get_type_hints(cls.Recipe)
        data = types["data"](imported=source, context=model.context)
        codec = types["codec"]("given", model.codecs[0].size)
        return cls.Recipe(task=model.kind, data=data, codec=codec, network=model.design)

    @classmethod
    def open(cls, recipe: Any, folder: Path) -> Self:
        """The task of a run, or of a model: from its folder's recipe and .json files alone."""
        return cls(recipe, folder)

    # ---- from a folder to a model --------------------------------------------------------------

    @abstractmethod
    def network(self) -> nn.Module:
        """With weights as they are before training."""

    @abstractmethod
    def batches(self) -> Batches:
        """Of what is trained on."""

    @abstractmethod
    def loss(self, network: Any, batch: Any) -> dict[str, Tensor]:
        """Named terms, each summed over the batch; what is trained is their sum."""

    @abstractmethod
    def validate(self, network: Any) -> Validation:
        """On what was held out; where several train, all do it, and all come to the same."""

    def model(self, network: Any, name: str = "") -> Model:
        """What a user gets of a network."""
        return Predictor(self, network, name)

    # ---- from a model to what it says ----------------------------------------------------------

    def predict(self, network: Any, lines: Sequence[str]) -> list[str]:
        """What the network makes of each line, for a task that is used that way."""
        raise ValueError(f"{self.recipe.task} does not predict; `{self.Recipe.use}` uses it")

    def compare_ways(self, network: Any, lines: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Ways to say the same, each with how far it is off: what `verify` looks at where models do
        not say what they are elsewhere."""
        yield from ()

    def evaluate(self, network: Any, path: Path) -> dict[str, float]:
        """What a network is worth on a test set in one file."""
        raise ValueError(f"{self.recipe.task} is not evaluated on one file of examples")

    def mean_loss(self, network: nn.Module, batches: Batches) -> float:
        """Of a token, over all batches of an epoch."""
        device, planned = next(network.parameters()).device, batches.epoch(0)

        def lose(rows: Any) -> float:
            terms = self.loss(network, batches.batch(rows).to(device))
            return sum(term.item() for term in terms.values())

        total = 0.0
        for loss in self.world.map(lose, planned):
            total += loss
        return total / sum(map(batches.count, planned))

    def halve_until_it_fits(self, validate: Callable[[], Found], least: int) -> Found:
        """What is found with `at_once` tokens, with half as many from then on where those do not
        fit into memory, and never with fewer than the least.
        """
        while True:
            try:
                return validate()
            except torch.OutOfMemoryError:
                if self.at_once // 2 < least:
                    raise
                self.at_once //= 2


def pick_evenly(count: int) -> range:
    """Those of so many examples of which a validation leaves a sample: 12 -> 0, 2, 4, 6, 8"""
    return range(0, count, max(1, count // SHOWN))[:SHOWN]


def sum_terms(terms: dict[str, Tensor]) -> Tensor:
    """What is trained: one term as it is, of several their sum."""
    first, *others = terms.values()
    return sum(others, start=first)


class Examples(list[Any]):
    """A corpus that is a list of sequences."""

    @property
    def tokens(self) -> int:
        return sum(map(len, self))

    def __str__(self) -> str:
        return f"{len(self):,} examples"
