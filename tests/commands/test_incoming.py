"""Lines as they come, and whether the next has come already."""

import io
import os
from collections.abc import Iterator

import pytest

from manyheads.cli.incoming import CHUNK_BYTES, Incoming, read_stdin


class Pipe:
    """Both ends of one."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.stream = os.fdopen(reading, "rb")

    def send(self, text: bytes) -> None:
        os.write(self.writing, text)

    def end(self) -> None:
        os.close(self.writing)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.stream.close()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a",
        b"a\n",
        b"a\r\n\r\nb\rc\n",
        b"\n\n",
        b"a\n" + 3 * CHUNK_BYTES * b"b" + b"\nc\n",
        b"x" * CHUNK_BYTES + b"\n" + b"y" * (CHUNK_BYTES - 1) + b"\n",
    ],
)
def test_lines_are_those_of_the_file(text: bytes) -> None:
    file = [line.removesuffix(b"\n").removesuffix(b"\r") for line in io.BytesIO(text)]
    assert list(Incoming(io.BytesIO(text))) == file


def test_a_byte_order_mark_is_no_part_of_the_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    marked = "\ufeff{}\n\ufeffb\n".encode()
    assert list(Incoming(io.BytesIO(marked))) == [b"{}", "\ufeffb".encode()]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(marked)))
    assert read_stdin() == "{}\n\ufeffb\n"


def test_a_line_is_ready_once_its_end_has_come(pipe: Pipe) -> None:
    coming = Incoming(pipe.stream)
    assert not coming.has_next()
    pipe.send(b"a\nb")
    assert coming.has_next()
    lines = iter(coming)
    assert next(lines) == b"a"
    assert not coming.has_next(), "half a line is not ready"
    pipe.send(b"c\n\n")
    assert coming.has_next()
    assert next(lines) == b"bc"
    assert coming.has_next()
    assert next(lines) == b""
    assert not coming.has_next()
    pipe.end()
    assert coming.has_next(), "nothing more comes, and that is known"
    assert list(lines) == []


def test_blank_lines_are_not_waited_with_where_they_are_passed_over(pipe: Pipe) -> None:
    coming = Incoming(pipe.stream, blank=False)
    pipe.send(b"\n \n")
    assert not coming.has_next()
    pipe.send(b"a\n")
    assert coming.has_next()
    pipe.end()


def test_all_lines_of_a_file_are_ready(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "lines")
    with open(path, "wb") as file:
        file.write(b"a\n" * CHUNK_BYTES)
    with open(path, "rb") as file:
        coming = Incoming(file)
        assert all(coming.has_next() for _ in coming)
