"""Compress sequences of tokens with the probabilities of a model.

The model reads its start tokens before each row. Rows are read in batches, the longest first, so
that the rows that have ended are the last ones.

R rows, T tokens.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
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
    refuse_another,
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
    parts, order = [], sort_rows(lengths)
    for begin in range(0, len(rows), LANES):
        some = [rows[i] for i in order[begin : begin + LANES]]
        table = fill_rows(some).to(model.device)
        writer = SymbolWriter(table)
        read_rows(model, head["lanes"], [*map(len, some)], writer, told)
        parts.append(PackedPart(writer.coder.finish(), check_rows(some)))
    return head, parts


def decompress_rows(
    model: Any, head: dict[str, Any], parts: Sequence[PackedPart], told: Told
) -> list[list[int]]:
    refuse_another(model, head)
    lengths: list[int] = head["lengths"]
    found: dict[int, list[int]] = {}
    order = sort_rows(lengths)
    for number, part in enumerate(parts):
        which = order[number * LANES : (number + 1) * LANES]
        some = [lengths[i] for i in which]
        table = read_rows(model, head["lanes"], some, SymbolReader(part.data), told).tolist()
        rows = [row[:length] for row, length in zip(table, some, strict=True)]
        if check_rows(rows) != part.checksum:
            raise ValueError(explain_damage(head, f"part {number + 1}"))
        found.update(zip(which, rows, strict=True))
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
