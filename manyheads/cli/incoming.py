"""Lines as they come, and whether the next has come already."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Iterator
from io import BufferedIOBase

CHUNK_BYTES = 1 << 16
PATIENCE_SECONDS = 0.01  # for the next line of one who is still writing


class Incoming:
    """The lines of a stream, without their ends.

    It reads by itself: a buffer of Python's does not tell what it holds without waiting for more.
    """

    def __init__(self, stream: BufferedIOBase, blank: bool = True):
        self.stream, self.blank = stream, blank
        self.lines: deque[bytes] = deque()
        self.begun: list[bytes] = []  # of a line whose end has not come
        self.over = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while not self.lines and not self.over:
                self.read()
            if not self.lines:
                return
            yield self.lines.popleft().removesuffix(b"\r")

    def ready(self) -> bool:
        """Whether the next line, or the end, can be had at once; blank ones count if they are read.

        Who sends a line and waits for the answer sends no second one before.
        """
        while not self.known() and comes(self.stream):
            self.read()
        return self.known()

    def known(self) -> bool:
        return self.over or any(self.blank or line.strip() for line in self.lines)

    def read(self) -> None:
        chunk = self.stream.read1(CHUNK_BYTES)
        self.over = not chunk
        end, *others = chunk.split(b"\n")
        self.begun.append(end)
        for line in others:
            self.lines.append(b"".join(self.begun))
            self.begun = [line]
        if self.over and any(self.begun):
            self.lines.append(b"".join(self.begun))


def comes(stream: BufferedIOBase) -> bool:
    """Whether reading would not wait; where that cannot be asked, as of a file, it does not."""
    try:
        return bool(select.select([stream], [], [], PATIENCE_SECONDS)[0])
    except (OSError, ValueError):  # not a descriptor, or a system where only sockets can be asked
        return True
