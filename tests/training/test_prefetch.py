"""What is made ahead comes in order, with its errors, and its thread ends with the reader."""

import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

from manyheads.training.trainer import AHEAD, prefetch


def test_everything_comes_in_order() -> None:
    assert list(prefetch(iter(range(100)))) == list(range(100))
    assert list(prefetch(iter(()))) == []


def test_no_more_is_made_than_there_is_room_for() -> None:
    made = []

    def making() -> Iterator[int]:
        for i in count():
            made.append(i)
            yield i

    coming = prefetch(making())
    assert next(coming) == 0
    time.sleep(0.05)
    assert len(made) <= AHEAD + 2
    coming.close()


def test_an_error_in_the_thread_is_raised_after_what_came_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError("in the thread")

    coming = prefetch(failing())
    assert next(coming) == 1
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        next(coming)


def test_the_thread_ends_at_once_when_nobody_reads_on() -> None:
    before = threading.active_count()
    coming = prefetch(count())
    assert [next(coming) for _ in range(3)] == [0, 1, 2]
    assert threading.active_count() == before + 1
    coming.close()
    assert threading.active_count() == before
