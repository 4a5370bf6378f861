"""Several processes that train one network together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from manyheads.devices import choose_device, make_current

Item = TypeVar("Item")
Made = TypeVar("Made")

PATIENCE = timedelta(hours=1)  # the first process alone reads the corpus, the others wait


@dataclass(frozen=True)
class World:
    """This process among all that train together."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")
    limited: bool = False  # whether full memory raises an error, as on a GPU

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def broadcast(self, number: int) -> int:
        """Return the number of the first process, in every process."""
        if self.size == 1:
            return number
        said = torch.tensor([number], device=self.device)
        dist.broadcast(said, 0)
        return int(said)

    def sum_over(self, number: float) -> float:
        """The sum over all processes."""
        if self.size == 1:
            return number
        total = torch.tensor([number], device=self.device, dtype=torch.float64)
        dist.all_reduce(total)
        return float(total)

    def map(self, work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
        """Return work(item) for each item, in order; each process does its share of them.

        All processes must call it. An error in one is raised in all, so that none waits forever.
        """
        if self.size == 1:
            return [work(item) for item in items]
        made: list[Made] = []
        error: Exception | None = None
        try:
            made = [work(item) for item in items[self.rank :: self.size]]
        except Exception as raised:
            error = raised
        shares: list[Any] = [None] * self.size
        dist.all_gather_object(shares, (made, error and describe_error(error)))
        for _, failed in shares:
            if failed:
                kind, words = failed
                raise kind(words) from error
        return [shares[i % self.size][0][i // self.size] for i in range(len(items))]


def describe_error(error: Exception) -> tuple[type[Exception], str]:
    """Return the class and the message of an error, so that other processes can raise it."""
    for kind in (torch.OutOfMemoryError, ValueError):  # callers can handle these
        if isinstance(error, kind):
            return kind, str(error)
    return RuntimeError, f"{type(error).__name__}: {error}"


def join_processes(device: str | None = None) -> World:
    """Return a World of this process alone or, started by torchrun, of all processes."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    at = choose_device(device)
    if size == 1:
        return World(device=make_current(at), limited=at.type == "cuda")
    if at.type == "cuda":
        at = make_current(torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    if not dist.is_initialized():
        dist.init_process_group("nccl" if at.type == "cuda" else "gloo", timeout=PATIENCE)
    return World(dist.get_rank(), size, at, limited=at.type == "cuda")


def leave_processes() -> None:
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
