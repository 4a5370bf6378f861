"""A range coder (arithmetic coding): symbols to bytes and back, about -log2 p bits per symbol.

It computes in integers, so that encoder and decoder agree to the last bit.

B symbols coded at once, V values that each may have.
"""

from __future__ import annotations

from bisect import bisect_right

import torch
import torch.nn.functional as F
from torch import Tensor

WHOLE = 1 << 64  # the full range
LEAST = 1 << 48  # a range below this is widened by two bytes
TOTAL = 1 << 24  # about the sum of the counts of all values


def count_symbols(logs: Tensor) -> Tensor:
    """Turn log-probabilities (B, V) into cumulative integer counts, the last is the sum (B, V + 1).

    Each value has a count of 1 or more, so that every symbol can be encoded.
    """
    shares = logs.double().exp() * (TOTAL - logs.shape[1])
    return F.pad((shares.long() + 1).cumsum(1), (1, 0))


class RangeEncoder:
    """Each symbol narrows the range to its share; bytes that are certain are written."""

    def __init__(self) -> None:
        self.low, self.range, self.written = 0, WHOLE - 1, bytearray()

    def encode(self, below: Tensor, symbols: Tensor) -> None:
        """Encode these symbols (B,), one after another."""
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
        """Add 1 to the written bytes, as 0.1999 + 0.0001 = 0.2000"""
        last = len(self.written) - 1
        while self.written[last] == 255:
            self.written[last] = 0
            last -= 1
        self.written[last] += 1

    def finish(self) -> bytes:
        """End with the fewest bytes that name a number in the range; the decoder adds zeros."""
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
    """Decode what a `RangeEncoder` wrote, given the same counts."""

    def __init__(self, written: bytes):
        self.written, self.place = written, 8
        self.code = int.from_bytes(written[:8].ljust(8, b"\0"), "big")
        self.range = WHOLE - 1

    def decode(self, below: Tensor) -> Tensor:
        """Decode one symbol for each row of counts."""
        wide, found = below.shape[1], []
        # Indexing a memoryview makes no arrays.
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
