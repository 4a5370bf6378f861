"""Symbols to bytes and back, each in as many bits as it is unlikely.

A range coder in whole numbers: both sides do the same arithmetic, to the last bit.

B symbols that come at once, V values that each may have.
"""

from __future__ import annotations

from bisect import bisect_right

import torch
import torch.nn.functional as F
from torch import Tensor

WHOLE = 1 << 64  # the range that bytes stand for
LEAST = 1 << 48  # a narrower one is widened by two bytes
TOTAL = 1 << 24  # counts of all values together, about


def count_symbols(logs: Tensor) -> Tensor:
    """Log-probabilities (B, V) -> how many counts are below each value, and of all, (B, V + 1).

    Each value has 1 or more, so that everything can be said.
    """
    shares = logs.double().exp() * (TOTAL - logs.shape[1])
    return F.pad((shares.long() + 1).cumsum(1), (1, 0))


class RangeEncoder:
    """Each symbol narrows a range to its share of it; bytes that are settled are written."""

    def __init__(self) -> None:
        self.low, self.range, self.written = 0, WHOLE - 1, bytearray()

    def encode(self, below: Tensor, symbols: Tensor) -> None:
        """These symbols (B,), one after another."""
        ends = below.gather(1, torch.stack([symbols, symbols + 1], 1))
        for start, end, total in torch.cat([ends, below[:, -1:]], 1).tolist():
            one = self.range // total
            self.low += start * one
            self.range = (end - start) * one
            if self.low >= WHOLE:
                self.low -= WHOLE
                self.carry()
            while self.range < LEAST:
                self.written += (self.low >> 48).to_bytes(2, "big")
                self.low = (self.low << 16) % WHOLE
                self.range <<= 16

    def carry(self) -> None:
        """One more than was written, as 0.1999 + 0.0001 = 0.2000"""
        last = len(self.written) - 1
        while self.written[last] == 255:
            self.written[last] = 0
            last -= 1
        self.written[last] += 1

    def finish(self) -> bytes:
        """The shortest bytes that stand for a number in the range, zeros after them left out."""
        for size in range(1, 9):
            step = 1 << 64 - 8 * size
            value = -(-self.low // step) * step
            if value < self.low + self.range:
                break
        if value >= WHOLE:
            value -= WHOLE
            self.carry()
        self.written += (value // step).to_bytes(size, "big")
        return bytes(self.written)


class RangeDecoder:
    """Reads what a `RangeEncoder` wrote, asked with the same counts."""

    def __init__(self, written: bytes):
        self.written, self.place = written, 8
        self.code = int.from_bytes(written[:8].ljust(8, b"\0"), "big")
        self.range = WHOLE - 1

    def decode(self, below: Tensor) -> Tensor:
        """As many symbols as there are rows of counts."""
        wide, found = below.shape[1], []
        # To look into it makes no arrays.
        counts = memoryview(below.cpu().numpy().reshape(-1))  # type: ignore[arg-type]
        for first in range(0, len(counts), wide):
            last = first + wide - 1
            one = self.range // counts[last]
            place = min(self.code // one, counts[last] - 1)
            at = bisect_right(counts, place, first, last) - 1
            self.code -= counts[at] * one
            self.range = (counts[at + 1] - counts[at]) * one
            while self.range < LEAST:
                more = self.written[self.place : self.place + 2].ljust(2, b"\0")
                self.code = self.code << 16 | int.from_bytes(more, "big")
                self.range <<= 16
                self.place += 2
            found.append(at - first)
        return torch.tensor(found)
