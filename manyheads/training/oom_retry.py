"""What is judged at once, and less of it where memory is short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

Found = TypeVar("Found")


class Batched(Protocol):
    at_once: int  # tokens


def in_parts(job: Batched, judge: Callable[[], Found], least: int) -> Found:
    """What is found with so many tokens at once, with half as many from then on where those do not
    fit into memory, and never with fewer than the least.
    """
    while True:
        try:
            return judge()
        except torch.OutOfMemoryError:
            if job.at_once // 2 < least:
                raise
            job.at_once //= 2
