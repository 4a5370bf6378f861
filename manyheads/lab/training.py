"""Random data for experiments, and their training loop.

B batch, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.training.config import Training
from manyheads.training.learner import Learner

Batch = tuple[Tensor, Tensor]  # inputs and targets


def fit(
    network: nn.Module,
    loss_of: Callable[[Any, Any], Tensor],
    batches: Sequence[Any],
    learning_rate: float,
    *,
    warmup_part: int = 10,
    every: int = 1,
    look: Callable[[], None] = lambda: None,
) -> list[float]:
    """Train on these batches, one per step, and return the loss of each.

    The learning rate warms up in the first 1 / `warmup_part` of the steps, then falls linearly to
    zero. `look` is called before step 0, then every `every` steps, and after the last.
    """
    steps = len(batches)
    training = Training(steps=steps, learning_rate=learning_rate, warmup_steps=steps // warmup_part)
    learner = Learner(network, lambda each, batch: {"loss": loss_of(each, batch)}, training)
    losses = []
    for step, batch in enumerate(batches):
        if step % every == 0:
            look()
        losses.append(float(learner.step([batch], 1)["loss"]))
    network.eval()
    look()
    return losses


def make_batches(make: Callable[[torch.Generator], Any], count: int, seed: int) -> list[Any]:
    """Make `count` batches that depend only on the seed."""
    generator = torch.Generator().manual_seed(seed)
    return [make(generator) for _ in range(count)]


def random_words(batch: int, length: int, words: int, generator: torch.Generator) -> Tensor:
    """Draw words (B, T) uniformly from 1 to `words`."""
    return torch.randint(1, words + 1, (batch, length), generator=generator)


def word_batches(shape: tuple[int, int], words: int, count: int, seed: int) -> list[Tensor]:
    """Make `count` batches of random words, each of this shape (B, T)."""
    return make_batches(lambda generator: random_words(*shape, words, generator), count, seed)


def mean_of_last(losses: list[float]) -> float:
    """Return the mean of the last tenth of the losses, since one batch says little."""
    last = losses[-max(1, round(0.1 * len(losses))) :]
    return sum(last) / len(last)


def earlier_loss(network: nn.Module, words: Tensor, distances: Sequence[int] = (1,)) -> Tensor:
    """The loss of predicting, at every place, the words at these distances before it."""
    said, meant = align_earlier(network, words, distances)
    return F.cross_entropy(said.flatten(0, -2), meant.flatten())


@torch.no_grad()
def earlier_right(network: nn.Module, words: Tensor, distances: Sequence[int]) -> Tensor:
    """Return 1 for each right prediction, else 0: (B, T - far, number of distances)"""
    said, meant = align_earlier(network, words, distances)
    return (said.argmax(-1) == meant).float()


def align_earlier(network: nn.Module, words: Tensor, distances: Sequence[int]) -> Batch:
    """Return scores and targets of all places that have words at every distance before them."""
    scores = network(words)  # (B, T, distances × words)
    far, length = max(distances), words.shape[1]
    meant = torch.stack([words[:, far - one : length - one] for one in distances], -1)
    return scores[:, far:].unflatten(-1, (len(distances), -1)), meant
