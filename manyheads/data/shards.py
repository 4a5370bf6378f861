"""Token ids on disk, read as if they were in memory.

A shard is two .npy files: all sequences end to end, and where each ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

BUFFER = 1 << 20  # tokens, or sequences, held before they are written
S = TypeVar("S", bound=Sequence[Any])

Ids = NDArray[np.uint16] | NDArray[np.uint32]


def shard_files(path: Path) -> tuple[Path, Path]:
    """corpus/train -> corpus/train.tokens.npy and corpus/train.ends.npy"""
    return path.with_name(f"{path.name}.tokens.npy"), path.with_name(f"{path.name}.ends.npy")


# ---- writing ---------------------------------------------------------------------------------


def write_shard(path: Path, sequences: Iterable[Sequence[int]], size: int) -> None:
    """Write any number of sequences of ids below `size`, in constant memory.

    Both files have temporary names until they are complete. The file of ends comes last, and there
    is no shard without it, so that a half-written shard is never read.
    """
    if not 1 <= size <= 2**32:
        raise ValueError(f"a shard's vocabulary has 1 to {2**32} numbers, got {size}")
    kind: Any = np.uint16 if size <= 2**16 else np.uint32
    path.parent.mkdir(parents=True, exist_ok=True)
    final = shard_files(path)
    partial = [file.with_name(f"{file.name}.{os.getpid()}.part") for file in final]
    try:
        with open_growing(partial[0], kind) as tokens, open_growing(partial[1], np.int64) as ends:
            last, number = 0, 0
            for some in in_chunks(sequences):
                lengths = np.fromiter(map(len, some), np.int64, len(some))
                ids = np.fromiter(chain.from_iterable(some), np.int64, int(lengths.sum()))
                stops = np.cumsum(lengths)
                check_range(ids, stops, size, number)
                tokens.write(ids.astype(kind).tobytes())
                ends.write((last + stops).tobytes())
                last, number = last + len(ids), number + len(some)
        final[1].unlink(missing_ok=True)
        for done, file in zip(partial, final, strict=True):
            os.replace(done, file)
    finally:
        for file in partial:
            file.unlink(missing_ok=True)


@contextmanager
def open_growing(path: Path, kind: type[np.generic]) -> Iterator[BinaryIO]:
    """Open a .npy file of one row, whose length is written into its header at the end.

    numpy leaves room in the header for the largest length.
    """
    with path.open("wb") as file:
        write_head(file, kind, 0)
        start = file.tell()
        yield file
        count = (file.tell() - start) // np.dtype(kind).itemsize
        file.seek(0)
        write_head(file, kind, count)
        assert file.tell() == start
        file.flush()
        os.fsync(file.fileno())


def write_head(file: BinaryIO, kind: type[np.generic], count: int) -> None:
    description = npy.dtype_to_descr(np.dtype(kind))
    npy.write_array_header_1_0(
        file, {"descr": description, "fortran_order": False, "shape": (count,)}
    )


def in_chunks(sequences: Iterable[S]) -> Iterator[list[S]]:
    """Yield many sequences or texts at a time: one by one would be slow."""
    some, size = list[S](), 0
    for sequence in sequences:
        some.append(sequence)
        size += len(sequence)
        if size >= BUFFER or len(some) >= BUFFER:
            yield some
            some, size = [], 0
    if some:
        yield some


def check_range(ids: NDArray[np.int64], stops: NDArray[np.int64], size: int, number: int) -> None:
    wrong = np.flatnonzero((ids < 0) | (ids >= size))
    if len(wrong):
        sequence = number + int(np.searchsorted(stops, wrong[0], side="right"))
        raise ValueError(
            f"sequence {sequence} holds {ids[wrong[0]]}, a vocabulary of {size} has 0 to {size - 1}"
        )


# ---- reading ---------------------------------------------------------------------------------


class Shard:
    """Sequences of ids: `shard[i]` is a view into the file, read from disk when it is used."""

    def __init__(self, path: Path):
        tokens, ends = shard_files(path)
        for file in (ends, tokens):
            if not file.is_file():
                raise ValueError(f"there is no shard {path}: {file.name} is missing; write it")
        self.ends = map_file(ends, [np.int64])
        self.tokens: Ids = map_file(tokens, [np.uint16, np.uint32])
        total = int(self.ends[-1]) if len(self.ends) else 0
        if total != len(self.tokens):
            raise ValueError(
                f"{ends.name} ends at {total} but {tokens.name} has {len(self.tokens)} numbers: "
                "they are not of one shard; write it again"
            )

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, i: int) -> Ids:
        if not -len(self) <= i < len(self):
            raise IndexError(f"a shard of {len(self)} sequences has no {i}")
        i %= len(self)
        start = self.ends[i - 1] if i else 0
        return self.tokens[start : self.ends[i]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.ends, prepend=0)


def map_file(path: Path, kinds: Sequence[type[np.generic]]) -> NDArray[Any]:
    """Return a row of numbers that stays on disk; refuse anything else."""
    names = " or ".join(np.dtype(kind).name for kind in kinds)
    try:
        array = npy.open_memmap(path, mode="r")
    except Exception:  # a wrong header can fail in many ways
        raise ValueError(
            f"{path} is cut short or is not a file of {names} numbers; write it again"
        ) from None
    if array.ndim != 1 or array.dtype not in kinds:
        raise ValueError(
            f"{path} must be a row of {names}, it holds {array.dtype} of shape {array.shape}; "
            "write it again"
        )
    return np.asarray(array)  # a plain view: memmap's own slices are slow
