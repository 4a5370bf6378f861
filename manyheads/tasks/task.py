"""The interface of a task: all that the rest of the program knows of a family of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, get_type_hints

import torch
from torch import Tensor, nn

from manyheads.devices import send
from manyheads.tasks.model import Model, Predictor
from manyheads.training.distributed import World

Found = TypeVar("Found")
SHOWN = 5  # samples that a validation shows


class Corpus(Protocol):
    """The training data as it was read; its text says how much there is."""

    @property
    def tokens(self) -> int:
        """The approximate number of tokens in an epoch: the vocabulary is not known yet."""


class Batches(Protocol):
    """Plans which examples form a batch, and makes the batches."""

    @property
    def longest(self) -> int:
        """The number of tokens of the longest example, on its longer side."""

    def epoch(self, number: int) -> list[Any]:
        """Plan the batches of an epoch, without tensors: a pure function of its number."""

    def count(self, rows: Any) -> int:
        """Return the number of tokens that the size of a batch is measured by."""

    def area(self, rows: Any) -> int:
        """Return how much room a batch takes in memory."""

    def share(self, rows: Any, part: int, parts: int) -> Any:
        """Return one part of a batch, shaped like the others; `rows[part::parts]` of a list."""

    def batch(self, rows: Any) -> Any:
        """Make the tensors of a planned batch: a tensor, what has `to(device)`, or a named tuple
        of these.
        """


class Sample(NamedTuple):
    """The input, the reference and the output of one example."""

    source: str
    reference: str
    output: str


class Validation(NamedTuple):
    """The result of a validation: the main score first (higher is better), others, and a loss."""

    scores: dict[str, float]
    samples: list[Sample]


class Task(ABC):
    """A family of models, with the recipe and the folder of a run."""

    Recipe: ClassVar[Any]  # its settings and commands
    world = World()  # the processes that share its validations
    at_once = 16384  # tokens in a validation batch

    def __init__(self, recipe: Any, folder: Path | None = None):
        self.recipe, self.folder = recipe, folder

    @property
    def kind(self) -> Any:
        """The name of the task: a class may serve several, as translation and summarization."""
        return self.recipe.task

    def smoothing(self, network: nn.Module) -> float:
        """Return the label smoothing in training mode, else 0."""
        return self.recipe.training.label_smoothing if network.training else 0.0

    def held_in(self) -> Path:
        """Return the folder of the run."""
        if self.folder is None:
            raise ValueError("this task was made without the folder of a run to learn from")
        return self.folder

    # ---- from files to a folder ----------------------------------------------------------------

    @classmethod
    def settle(cls, recipe: Any, corpus: Any) -> Any:
        """Return the recipe with those settings that only the corpus can decide."""
        return recipe

    @classmethod
    def shorten(cls, recipe: Any) -> Any:
        """Return a recipe that trains as long but is prepared sooner, for an estimate."""
        return recipe

    @classmethod
    @abstractmethod
    def gather(cls, recipe: Any) -> Corpus:
        """Read and check the training data."""

    @classmethod
    @abstractmethod
    def prepare(cls, corpus: Any, recipe: Any, folder: Path) -> None:
        """Write everything into the folder that a run reads: the original files may disappear."""

    @classmethod
    def adopt(cls, model: Any, source: Path, folder: Path) -> Any:
        """Return the recipe of an imported Portable; write what else it needs into the folder."""
        types = get_type_hints(cls.Recipe)
        data = types["data"](imported=source, context=model.context)
        codec = types["codec"]("given", model.codecs[0].size)
        return cls.Recipe(task=model.kind, data=data, codec=codec, network=model.design)

    @classmethod
    def open(cls, recipe: Any, folder: Path) -> Self:
        """Open the task of a run or a model, from the recipe and .json files of its folder."""
        return cls(recipe, folder)

    # ---- from a folder to a model --------------------------------------------------------------

    @abstractmethod
    def network(self) -> nn.Module:
        """Return the network with its initial weights."""

    @abstractmethod
    def batches(self) -> Batches:
        """Return the batches of the training data."""

    @abstractmethod
    def loss(self, network: Any, batch: Any) -> dict[str, Tensor]:
        """Return named loss terms, each summed over the batch; training minimizes their sum."""

    @abstractmethod
    def validate(self, network: Any) -> Validation:
        """Validate on the held-out data; all processes take part and get the same result."""

    def model(self, network: Any, name: str = "") -> Model:
        """Return the model that a user works with."""
        return Predictor(self, network, name)

    # ---- from a model to what it says ----------------------------------------------------------

    def predict(self, network: Any, lines: Sequence[str]) -> list[str]:
        """Return the network's output for each line, for a task that is used that way."""
        raise ValueError(f"{self.recipe.task} does not predict; `{self.Recipe.use}` uses it")

    def compare_ways(self, network: Any, lines: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Yield ways to compute the same, each with its error: for `verify`, where a model has no
        Portable.
        """
        yield from ()

    def evaluate(self, network: Any, path: Path) -> dict[str, float]:
        """Return the scores of a network on a test set in one file."""
        raise ValueError(f"{self.recipe.task} is not evaluated on one file of examples")

    def mean_loss(self, network: nn.Module, batches: Batches) -> float:
        """Return the mean loss per token, over all batches of an epoch."""
        device, planned = next(network.parameters()).device, batches.epoch(0)

        def lose(rows: Any) -> float:
            terms = self.loss(network, send(batches.batch(rows), device))
            return sum(term.item() for term in terms.values())

        return sum(self.world.map(lose, planned)) / sum(map(batches.count, planned))

    def halve_until_it_fits(self, validate: Callable[[], Found], least: int) -> Found:
        """Call `validate`; where it runs out of memory, halve `at_once` and call it again, but
        never with fewer tokens than `least`.
        """
        while True:
            try:
                return validate()
            except torch.OutOfMemoryError:
                if self.at_once // 2 < least:
                    raise
                self.at_once //= 2


def pick_evenly(count: int) -> range:
    """Return the examples, of this many, that a validation shows as samples: 12 -> 0, 2, 4, 6, 8"""
    return range(0, count, max(1, count // SHOWN))[:SHOWN]


def sum_terms(terms: dict[str, Tensor]) -> Tensor:
    """Return the loss that is trained: the sum of its terms."""
    first, *others = terms.values()
    return sum(others, start=first)


class Examples(list[Any]):
    """A corpus that is a list of sequences."""

    @property
    def tokens(self) -> int:
        return sum(map(len, self))

    def __str__(self) -> str:
        return f"{len(self):,} examples"
