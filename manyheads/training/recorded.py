"""Record a training step once as a CUDA graph and replay it for every batch of its shape.

A small network computes faster than the host can launch its kernels; a graph is launched once. What
differs between batches is copied to where the graph reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from manyheads.attention.kernels.short import TILE
from manyheads.attention.patterns import Segments
from manyheads.tasks.task import sum_terms
from manyheads.training.optimizers import FROM_ZERO

WARM = 3  # runs before recording: a first call compiles code and chooses kernels
SAME = 1e-2  # tolerance of loss and gradient norm: rounding in bfloat16 is far below
DRAWN = 1e-5  # share of the loss: dropout moves it far more, rounding in 32 bits far less


class RecordedStep:
    """Two CUDA graphs, one for the gradients of a batch and one for the update of the weights, so
    that the first can be tried without changing anything.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizers: list[Optimizer],
        terms_of: Callable[[Any], dict[str, Tensor]],
        batch: Any,
        clip_norm: float,
    ):
        self.network, self.optimizers, self.terms_of = network, optimizers, terms_of
        self.clip_norm, self.batch, self.shape = clip_norm, copy_of(batch, {}), shape_of(batch)
        self.inputs = tensors_of(self.batch)
        device = next(network.parameters()).device
        self.share = torch.ones((), device=device)  # 1 / number of tokens
        self.rates = [
            [torch.zeros((), device=device) for _ in one.param_groups] for one in optimizers
        ]
        self.record()

    def record(self) -> None:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM):
                self.learn()
                self.network.zero_grad()
        torch.cuda.current_stream().wait_stream(aside)
        self.gradients, self.move = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.gradients, capture_error_mode="thread_local"):
            self.terms = self.learn()
        # The graph writes to these gradients; the network drops them, so that a step that is not
        # replayed begins with none.
        self.held = [p.grad for p in self.network.parameters()]
        pool = self.gradients.pool()
        with (
            rates_of(self.optimizers, self.rates),
            torch.cuda.graph(self.move, pool=pool, capture_error_mode="thread_local"),
        ):
            if self.clip_norm:
                nn.utils.clip_grad_norm_(self.network.parameters(), self.clip_norm)
            for optimizer in self.optimizers:
                optimizer.step()
        self.network.zero_grad()

    def learn(self) -> dict[str, Tensor]:
        terms = {name: term * self.share for name, term in self.terms_of(self.batch).items()}
        sum_terms(terms).backward()
        return {name: term.detach() for name, term in terms.items()}

    def fits(self, batch: Any) -> bool:
        return shape_of(batch) == self.shape

    def play(self, batch: Any, count: int) -> dict[str, Tensor]:
        """Compute the gradients of a batch; return its terms per token, which the next call
        overwrites.
        """
        for mine, given in zip(self.inputs, tensors_of(batch), strict=True):
            mine.copy_(given)
        self.share.fill_(1 / count)
        self.gradients.replay()
        return self.terms

    def step(self, rate: float) -> None:
        """Update the weights by the last gradients, with `rate` times each group's initial rate."""
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            for group, mine in zip(optimizer.param_groups, rates, strict=True):
                mine.fill_(group["initial_lr"] * rate)
        self.move.replay()

    def play_with(self, seed: int, batch: Any, count: int) -> float:
        """Return the loss of a batch, replayed."""
        torch.manual_seed(seed)
        return sum(float(term) for term in self.play(batch, count).values())

    def compute_with(self, seed: int, batch: Any, count: int) -> float:
        """Return the loss of a batch without the graph, and compute its gradients anew."""
        self.network.zero_grad()
        torch.manual_seed(seed)
        loss = sum_terms(self.terms_of(batch)) / count
        loss.backward()
        return float(loss.detach())

    def refuse(self, batch: Any, count: int) -> str:
        """Return why the graph does not compute what the network does; empty where it does.

        Try it on a batch that was not recorded: what the recording took from the host by mistake,
        such as where documents end, is wrong for another batch.
        """
        other, played = (self.play_with(seed, batch, count) for seed in (1, 0))
        norm = norm_of(self.held)
        drawn, computed = (self.compute_with(seed, batch, count) for seed in (1, 0))
        wanted = norm_of([p.grad for p in self.network.parameters()])
        self.network.zero_grad()
        if other == played and abs(drawn - computed) > DRAWN * abs(computed):
            return "it drops the same at every step"
        for what, one, other in (("loss", played, computed), ("gradient", norm, wanted)):
            if not abs(one - other) <= SAME * max(abs(other), 1e-6):
                return f"its {what} is {one:.4g} and not {other:.4g}"
        return ""


def norm_of(gradients: list[Tensor | None]) -> float:
    return float(nn.utils.get_total_norm([g for g in gradients if g is not None]))


class rates_of:  # noqa: N801
    """While an update is recorded, learning rates are tensors that can be filled anew."""

    def __init__(self, optimizers: list[Optimizer], rates: list[list[Tensor]]):
        self.groups = [group for one in optimizers for group in one.param_groups]
        self.rates = [rate for some in rates for rate in some]

    def __enter__(self) -> None:
        self.before = [(group["lr"], group["capturable"]) for group in self.groups]
        for group, rate in zip(self.groups, self.rates, strict=True):
            group["lr"], group["capturable"] = rate, True

    def __exit__(self, *_: object) -> None:
        for group, (rate, capturable) in zip(self.groups, self.before, strict=True):
            group["lr"], group["capturable"] = rate, capturable


def parts_of(batch: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all tensors and other values of a batch, each with its path.

    Fields with compare=False are left out: they hold what the host knows besides.
    """
    if is_dataclass(batch):
        yield name, type(batch)
        for one in fields(batch):
            if one.compare:
                yield from parts_of(getattr(batch, one.name), f"{name}.{one.name}")
    elif isinstance(batch, list | tuple):
        for i, one in enumerate(batch):
            yield from parts_of(one, f"{name}.{i}")
    else:
        yield name, batch


def can_be_recorded(optimizer: Optimizer, device: torch.device) -> bool:
    """Whether its step is the same kernels each time: all that it keeps is allocated, and on the
    device. Adam counts its steps on the host, unless it is fused.
    """
    held = [value for kept in optimizer.state.values() for value in kept.values()]
    there = all(value.device.type == device.type for value in held)
    able = all("capturable" in group for group in optimizer.param_groups)
    return there and able and type(optimizer) in FROM_ZERO


def reads_lengths(network: nn.Module) -> bool:
    """Whether a pass reads the lengths of rows on the host, as recurrent layers do to pack them."""
    return any(isinstance(part, nn.RNNBase) for part in network.modules())


def planned_by_host(batch: Any) -> bool:
    """Whether attention is planned on the host for each batch, by the lengths of documents: where
    rows of documents are longer than one tile.
    """
    return any(
        name.endswith(".ids") and kind is Segments and ids.shape[1] > TILE
        for (_, kind), (name, ids) in pairwise(parts_of(batch))
    )


def tensors_of(batch: Any) -> list[Tensor]:
    return [part for _, part in parts_of(batch) if isinstance(part, Tensor)]


def shape_of(batch: Any) -> list[tuple[Any, ...]]:
    """Return what two batches must have in common to share a recording."""
    return [
        (name, x.shape, x.dtype) if isinstance(x, Tensor) else (name, x)
        for name, x in parts_of(batch)
    ]


def copy_of(batch: Any, copied: dict[int, Tensor]) -> Any:
    """Copy a batch to memory of its own, without what the host knows besides, so that no plan can
    be made from it.
    """
    if isinstance(batch, Tensor):
        return copied.setdefault(id(batch), batch.clone())
    if is_dataclass(batch):
        given: Any = batch
        made = {
            one.name: copy_of(getattr(batch, one.name), copied) if one.compare else one.default
            for one in fields(batch)
            if one.init
        }
        return replace(given, **made)
    if isinstance(batch, tuple) and hasattr(batch, "_make"):
        return batch._make(copy_of(one, copied) for one in batch)
    if isinstance(batch, list | tuple):
        return type(batch)(copy_of(one, copied) for one in batch)
    return batch
