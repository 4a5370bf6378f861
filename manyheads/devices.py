"""Choose a device and the number of CPU threads, and send tensors to a device."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from threading import Event
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Item = TypeVar("Item")
Made = TypeVar("Made")
Sent = TypeVar("Sent")


def send(held: Sent, device: torch.device | str) -> Sent:
    """Return a tensor on that device, or a named tuple with all it holds there. The host does not
    wait for a copy to a GPU: pinned memory can be copied later, when the GPU reaches it.
    """
    sent: Any = held
    if isinstance(sent, Tensor) and torch.device(device).type == "cuda" and sent.is_cpu:
        sent = sent.pin_memory().to(device, non_blocking=True)
    elif hasattr(sent, "to"):
        sent = sent.to(device)
    elif isinstance(sent, tuple):
        sent = type(sent)(*(send(one, device) for one in sent))
    return cast(Sent, sent)


# Multiplications of a matrix product that one core computes in less than a millisecond. A second
# thread saves half of that; if its core is busy, each product waits for it for up to 25 ms.
LIGHT = 2**23
SAID = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads_are_set() -> bool:
    """Whether the user set the number of threads in the environment: then it is kept."""
    return any(os.environ.get(name) for name in SAID)


WORK: WeakKeyDictionary[nn.Module, float] = WeakKeyDictionary()  # what `work_of` has computed


def work_of(network: object) -> float:
    """Return the multiplications for one token in a matrix product of this network, on average."""
    if not isinstance(network, nn.Module):
        return 0.0
    if network not in WORK:
        sizes = [weight.numel() for weight in network.parameters() if weight.dim() > 1]
        WORK[network] = sum(sizes) / max(1, len(sizes))
    return WORK[network]


@contextmanager
def use_threads(threads: int) -> Iterator[None]:
    """Compute with this number of threads inside the `with` block."""
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
    """Inside the `with` block, use one thread if the matrix products for these tokens are light,
    and all threads if they are heavy: decided by their size, never by a clock.
    """
    few = tokens.is_cpu and work_of(network) * tokens.numel() < (LIGHT if light is None else light)
    return use_threads(1 if few and not threads_are_set() else torch.get_num_threads())


def map_in_threads(
    work: Callable[[Item], Made],
    items: Sequence[Item],
    at_once: int | None = None,
    stopped: Event | None = None,
) -> list[Made]:
    """Return work(item) for each item, in order; several at once where there are threads, but no
    more than `at_once`. After an error or Ctrl-C, `stopped` tells the work that still runs to end.

    Each item is computed by one thread: two that share every product wait for each other.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items), at_once or threads)
    if workers < 2:
        return [work(item) for item in items]
    dtype, rounded = torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")

    def work_alike(item: Item) -> Made:
        with torch.autocast("cpu", dtype, rounded):  # each thread has its own autocast
            return work(item)

    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        return [*pool.map(work_alike, items)]
    finally:
        if stopped is not None:
            stopped.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # the 1 of the pool holds for later threads too


ON_FREE, ON_REQUEST = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def keep_freed_memory() -> bool:
    """Let glibc keep up to a gigabyte of freed memory for this process. Memory that is returned at
    each step is cleared page by page at the next one, a sixth of the time of small steps.

    Return False without glibc, or if the environment sets MALLOC_ variables: those are kept.
    """
    if not sys.platform.startswith("linux") or any(x.startswith("MALLOC_") for x in os.environ):
        return False
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    # If a gigabyte is refused, only requests of at most 32 MB reuse freed memory.
    return any(choose(ON_REQUEST, most) for most in (2**30, 2**25)) and bool(choose(ON_FREE, 2**30))


def find_fastest_threads(attempt: Callable[[], object]) -> tuple[int, dict[int, float]]:
    """Time one thread against all, twice; return the faster number and the best seconds of each."""
    took: dict[int, float] = {}
    for threads in (1, torch.get_num_threads()) * 2:
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
    if wanted.type == "cuda" and (wanted.index or 0) >= (count := torch.cuda.device_count()):
        raise ValueError(f"{device} was asked for, torch finds {count} here, from cuda:0 on")
    return wanted


def make_current(device: torch.device) -> torch.device:
    """Make the GPU of this number the current one, where streams and recordings are made."""
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    return device


def on_its_gpu(launch: Callable[..., Made]) -> Callable[..., Made]:
    """Let a function that launches Triton programs do it on the GPU of its first argument, which
    has a `device`: Triton launches on the current one."""

    @wraps(launch)
    def run(first: Any, *others: Any, **options: Any) -> Made:
        device = first.device
        if device.type != "cuda" or device.index == torch.cuda.current_device():
            return launch(first, *others, **options)
        with torch.cuda.device(device):
            return launch(first, *others, **options)

    return run
