"""Read the lines of stdin as they arrive, and know whether the next one has arrived."""

from __future__ import annotations

import select
import sys
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from manyheads.data.batches import gather_texts
from manyheads.data.sources import decode_line

CHUNK_BYTES = 1 << 16
STDIN = Path("stdin")
AT_ONCE = 1024  # texts
PATIENCE_SECONDS = 0.01  # to wait for the next line


class Incoming:
    """The lines of a stream, without their ends and without a byte order mark before the first.

    It has its own buffer: one of Python's does not say what it holds without waiting for more.
    """

    def __init__(self, stream: BufferedIOBase | None = None, blank: bool = True):
        self.stream = cast(BufferedIOBase, sys.stdin.buffer) if stream is None else stream
        self.blank = blank
        self.lines: deque[bytes] = deque()
        self.begun: list[bytes] = []  # parts of a line whose end has not arrived
        self.over = False

    def __iter__(self) -> Iterator[bytes]:
        mark = BOM_UTF8
        while True:
            while not self.lines and not self.over:
                self.read_chunk()
            if not self.lines:
                return
            yield self.lines.popleft().removeprefix(mark).removesuffix(b"\r")
            mark = b""

    def has_next(self) -> bool:
        """Whether the next line, or the end, is there already; blank lines count if they are read.

        A sender who waits for an answer sends no second line before it.
        """
        while not self.knows_next() and is_ready(self.stream):
            self.read_chunk()
        return self.knows_next()

    def knows_next(self) -> bool:
        return self.over or any(self.blank or line.strip() for line in self.lines)

    def read_chunk(self) -> None:
        chunk = self.stream.read1(CHUNK_BYTES)
        self.over = not chunk
        end, *others = chunk.split(b"\n")
        self.begun.append(end)
        for line in others:
            self.lines.append(b"".join(self.begun))
            self.begun = [line]
        if self.over and any(self.begun):
            self.lines.append(b"".join(self.begun))


def is_ready(stream: BufferedIOBase) -> bool:
    """Whether reading would not wait; True where that cannot be asked, as for a file."""
    try:
        return bool(select.select([stream], [], [], PATIENCE_SECONDS)[0])
    except (OSError, ValueError):  # not a descriptor, or a system that asks only sockets
        return True


def decode_lines(coming: Incoming) -> Iterator[str]:
    for number, raw in enumerate(coming, start=1):
        yield decode_line(raw, STDIN, number)


def read_chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the given texts, or lines of stdin as they arrive: a sender who waits is answered."""
    if texts:
        yield list(texts)
        return
    at_once = 1 if is_terminal() else AT_ONCE
    coming = Incoming()
    yield from gather_texts(decode_lines(coming), at_once, coming.has_next)


def is_terminal() -> bool:
    """Whether a person types the input; refuse a closed stdin."""
    if sys.stdin is None:
        raise ValueError("there is nothing to read: stdin is closed; < FILE would do")
    return sys.stdin.isatty()


def read_stdin() -> str:
    """Return all of stdin as text."""
    if is_terminal():
        print("reading from the terminal; Ctrl-D ends", file=sys.stderr)
    raw = sys.stdin.buffer.read().removeprefix(BOM_UTF8).split(b"\n")
    each = (line.removesuffix(b"\r") for line in raw)  # as in a corpus
    return "\n".join(decode_line(line, STDIN, i) for i, line in enumerate(each, start=1))
