"""Compress sequences of tokens with the probabilities of a model.

The model reads its start tokens before each row. Rows are read in batches, the longest first, so
that the rows that have ended are the last ones.

R rows, T tokens.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from manyheads.data.packed import PackedPart
from manyheads.decoding.step import CachedStep, to_log_probs
from manyheads.devices import use_threads
from manyheads.tasks.model import Model
from manyheads.tasks.packing import (
    CodeSymbols,
    SymbolReader,
    SymbolWriter,
    Told,
    describe_machine,
    explain_damage,
    map_parts,
)

LANES = 16  # rows in a batch
Row = Sequence[int]


def compress_rows(
    model: Any, rows: Sequence[Row], told: Told
) -> tuple[dict[str, Any], list[PackedPart]]:
    """Return a header and parts for `write_packed`; no row may be longer than the context."""
    if not model.task.codec.special_tokens.bos:
        raise ValueError("a model with a start sign compresses, and this one has none")
    lengths = [*map(len, rows)]
    head = {**describe_machine(model), "lanes": min(LANES, len(rows)), "lengths": lengths}
    order = sort_rows(lengths)

    def compress_part(begin: int, told: Told) -> PackedPart:
        some = [rows[i] for i in order[begin : begin + LANES]]
        writer = SymbolWriter(fill_rows(some).to(model.device))
        read_rows(model, head["lanes"], [*map(len, some)], writer, told)
        return PackedPart(writer.coder.finish(), check_rows(some))

    return head, map_parts(model, compress_part, range(0, len(rows), LANES), told)


def decompress_rows(
    model: Any, head: dict[str, Any], parts: Sequence[PackedPart], told: Told
) -> list[list[int]]:
    lengths: list[int] = head["lengths"]
    order = sort_rows(lengths)

    def decompress_part(number: int, told: Told) -> list[list[int]]:
        some = [lengths[i] for i in order[number * LANES : (number + 1) * LANES]]
        part = parts[number]
        table = read_rows(model, head["lanes"], some, SymbolReader(part.data), told).tolist()
        rows = [row[:length] for row, length in zip(table, some, strict=True)]
        if check_rows(rows) != part.checksum:
            raise ValueError(explain_damage(head, f"part {number + 1}"))
        return rows

    rows = chain(*map_parts(model, decompress_part, range(len(parts)), told))
    found = dict(zip(order, rows, strict=True))
    return [found[i] for i in range(len(lengths))]


def sort_rows(lengths: Sequence[int]) -> list[int]:
    """Return the row numbers, the longest row first: [3, 5, 3] -> [1, 0, 2]"""
    return sorted(range(len(lengths)), key=lambda i: -lengths[i])


def fill_rows(rows: Sequence[Row]) -> Tensor:
    table = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for i, row in enumerate(rows):
        table[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return table


def check_rows(rows: Sequence[Row]) -> int:
    return zlib.crc32(b"".join(torch.tensor(row).numpy().astype("<i8").tobytes() for row in rows))


@torch.no_grad()
def read_rows(
    model: Model, lanes: int, lengths: Sequence[int], code: CodeSymbols, told: Told
) -> Tensor:
    """Code rows token by token, return them (R, T); free and ended lanes repeat the first row."""
    task: Any = model.task
    signs = torch.tensor(task.codec.special_tokens.bos, device=model.device)
    new, written = signs.expand(lanes, -1), torch.zeros(len(lengths), lengths[0], dtype=torch.long)
    step = CachedStep(model.network.eval())
    with use_threads(1):
        for place in range(lengths[0]):
            going = sum(length > place for length in lengths)
            symbols = code(to_log_probs(step(new))[:going])
            written[:going, place] = symbols.cpu()
            new = torch.cat([symbols, symbols[:1].expand(lanes - going)])[:, None]
            told(going)
    return written
