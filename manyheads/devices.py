"""Which device computes, how a tensor comes there, and how many threads share a product."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Item = TypeVar("Item")
Made = TypeVar("Made")


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on that device. The host does not wait for a copy to a GPU: of memory that stays
    in its place the GPU takes it when it comes to it.
    """
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


# Multiplications of a product that one core has done in less than a millisecond. Two threads gain
# half of that; where others have one of their cores, each product waits up to 25 ms for it.
LIGHT = 2**23
SAID = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads_are_set() -> bool:
    """Whether a person has said how many: that stands."""
    return any(os.environ.get(name) for name in SAID)


WORK: WeakKeyDictionary[nn.Module, float] = WeakKeyDictionary()  # of networks that were asked


def work_of(network: object) -> float:
    """Multiplications for one token in a product of this network, on the average."""
    if not isinstance(network, nn.Module):
        return 0.0
    if network not in WORK:
        sizes = [weight.numel() for weight in network.parameters() if weight.dim() > 1]
        WORK[network] = sum(sizes) / max(1, len(sizes))
    return WORK[network]


@contextmanager
def use_threads(threads: int) -> Iterator[None]:
    """So many for a while."""
    before = torch.get_num_threads()
    if threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def use_threads_for(
    network: object, tokens: Tensor, light: float | None = None
) -> AbstractContextManager[None]:
    """Inside, one thread where the products of a network for so many tokens are light, all where
    they are heavy: by their size, never by a clock.
    """
    few = tokens.is_cpu and work_of(network) * tokens.numel() < (LIGHT if light is None else light)
    return use_threads(1 if few and not threads_are_set() else torch.get_num_threads())


def map_in_threads(work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    """What the work makes of each item, in their order; several at once where there are threads.

    Each computes with one thread. Two that share every product wait for each other at each.
    """
    threads = torch.get_num_threads()
    if min(threads, len(items)) < 2:
        return [work(item) for item in items]
    dtype, rounded = torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")

    def work_alike(item: Item) -> Made:
        with torch.autocast("cpu", dtype, rounded):  # a thread has its own
            return work(item)

    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        return [*pool.map(work_alike, items)]
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a thread says it for all that come after it


ON_FREE, ON_REQUEST = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def keep_freed_memory() -> bool:
    """Let glibc hold what is freed, up to a gigabyte, for this process: what is given back at each
    step is cleared page by page when the next step asks for it, a sixth of the time of small ones.

    False where there is no glibc; what a person has said in the environment stands.
    """
    if not sys.platform.startswith("linux") or any(x.startswith("MALLOC_") for x in os.environ):
        return False
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    # Where a gigabyte is refused, requests of 32 MB at most are taken from what is held.
    return any(choose(ON_REQUEST, most) for most in (2**30, 2**25)) and bool(choose(ON_FREE, 2**30))


def find_fastest_threads(
    attempt: Callable[[], object], rounds: int = 2
) -> tuple[int, dict[int, float]]:
    """Whether one thread or all are done sooner, and the seconds of each at their best."""
    took: dict[int, float] = {}
    for threads in (1, torch.get_num_threads()) * rounds:
        with use_threads(threads):
            began = time.perf_counter()
            attempt()
            took[threads] = min(took.get(threads, float("inf")), time.perf_counter() - began)
    return min(took, key=lambda threads: took[threads]), took


def choose_device(device: str | None) -> torch.device:
    """Return the device with this name; without a name, the GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"a device is cpu or cuda, got {device!r}")
    wanted = torch.device(device)
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("cuda was asked for and torch finds no GPU here; cpu would do")
    return wanted
