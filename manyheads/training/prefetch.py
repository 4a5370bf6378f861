"""What comes next, made while the device computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

AHEAD = 4


def ahead(made: Iterator[T]) -> Generator[T]:
    """The same things in the same order, made in a thread; its errors are raised here.

    Closed, it ends the thread.
    """
    line: queue.Queue[Any] = queue.Queue(AHEAD)
    over = threading.Event()

    def put(one: object) -> None:
        while not over.is_set():
            try:
                return line.put(one, timeout=0.1)
            except queue.Full:
                continue

    def fill() -> None:
        try:
            for one in made:
                put((one, None))
                if over.is_set():
                    return
            put((None, StopIteration()))
        except BaseException as error:
            put((None, error))

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        while True:
            one, error = line.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield one
    finally:
        over.set()
        with suppress(queue.Empty):  # room, so that the thread need not wait to see that it is over
            while True:
                line.get_nowait()
        thread.join()
