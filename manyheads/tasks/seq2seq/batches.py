"""Make batches of pairs of sequences.

N examples, B rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import (
    NOTHING,
    SHORT,
    WIDTH,
    Ints,
    Packing,
    Padding,
    PlannedBatches,
    Row,
    lay_out,
    within_rows,
)
from manyheads.data.shards import Shard
from manyheads.modules.config import Layout
from manyheads.modules.transformer import Tokens

CAPITALS = 1  # in a seed: drawing capitals and ordering pairs are independent
SLACK = 1.03  # room for the shorter side beyond its share of all tokens


class PairBatch(NamedTuple):
    """Sources, targets that begin with the start token, and the next token wanted at each place."""

    source: Tokens
    target: Tokens
    wanted: Tensor  # (B, T), NOTHING where there is none


@dataclass(frozen=True)
class PairShards:
    """Pairs as ids, without special tokens."""

    source: Shard
    target: Shard
    special_tokens: tuple[SpecialTokens, SpecialTokens] = (SpecialTokens(), SpecialTokens())
    # (N,), the index of each pair's copy in ALL CAPS; its own index where it has none.
    capitals: Ints | None = None

    def __len__(self) -> int:
        return len(self.source) if self.capitals is None else len(self.capitals)

    def lengths(self) -> Ints:
        """Return the lengths of all stored pairs, (N or more, 2), with their special tokens."""
        return np.stack([self.source.lengths, self.target.lengths], 1) + self.around

    @property
    def around(self) -> Ints:
        """The number of special tokens of a source (start and end) and of a target (start)."""
        reads, writes = self.special_tokens
        return np.array([len(reads.encoder_bos) + 1, len(writes.bos)])


class PairBatches(PlannedBatches):
    """Plans which pairs form a batch, and makes the batches."""

    def __init__(
        self, pairs: PairShards, layout: Layout, tokens: int, seed: int = 0, capitals: float = 0.0
    ):
        lengths = pairs.lengths()
        plan = choose_packing(lengths, tokens) if layout == "packed" else Padding(tokens)
        super().__init__(lengths, lengths[:, 1], plan, seed)
        self.pairs, self.tokens, self.capitals = pairs, tokens, capitals

    def epoch(self, number: int) -> list[list[Row]]:
        """Return the rows of each batch of an epoch; every pair once, as it is or in ALL CAPS."""
        drawn = self.draw_pairs(number)
        planned = self.plan.batches(self.lengths[drawn], seed=self.seed, epoch=number)
        where = drawn.tolist()
        return [[[where[i] for i in row] for row in rows] for rows in planned]

    def draw_pairs(self, epoch: int) -> Ints:
        """Return the index of each pair in this epoch: a pure function of seed and epoch."""
        plain, capitals = np.arange(len(self.pairs)), self.pairs.capitals
        if capitals is None or not self.capitals:
            return plain
        chance = np.random.default_rng([self.seed, epoch, CAPITALS]).random(len(plain))
        fit = (self.lengths[capitals] <= self.tokens).all(1)
        return np.where(fit & (chance < self.capitals), capitals, plain)

    def batch(self, rows: Sequence[Row]) -> PairBatch:
        """Make the tensors of a batch; without rows, one row in which nothing is wanted."""
        rows, pairs = rows or [[]], self.pairs
        sizes = [len(row) for row in rows]
        examples = np.asarray(list(chain.from_iterable(rows)), dtype=np.int64)
        row_of = np.repeat(np.arange(len(rows)), sizes)
        widths = self.plan.widths if isinstance(self.plan, Packing) else None
        sides, counts = list[Side](), list[Ints]()
        for i, shard in enumerate((pairs.source, pairs.target)):
            counts.append(spans(shard, examples)[1] + pairs.around[i])
            width = widths[i] if widths else int(counts[i].max(initial=1))
            starts = within_rows(counts[i], row_of) + row_of * width
            sides.append((shard, starts, (len(rows), width)))
        *both, wanted = lay_out_pairs(sides[0], sides[1], examples, pairs.special_tokens)
        source, target = (
            lay_out(ids, count, sizes if widths else None, longest)
            for ids, count, longest in zip(both, counts, self.lengths.max(0).tolist(), strict=True)
        )
        return PairBatch(source, target, wanted)


def choose_packing(lengths: Ints, tokens: int) -> Packing:
    """Pack rows as full as possible on the longer side; the other gets its share of all tokens."""
    longest, total = lengths.max(0), lengths.sum(0)
    width = max(min(SHORT if longest.max() <= SHORT else WIDTH, tokens), int(longest.max()))
    shares = np.minimum(1.0, SLACK * total / total.max())
    widths = tuple(
        max(int(most), int(np.ceil(width * share / 32)) * 32)
        for most, share in zip(longest, shares, strict=True)
    )
    return Packing(rows=max(1, tokens // max(widths)), widths=widths)


Side = tuple[Shard, Ints, tuple[int, int]]  # with the start of each example, and the shape of all


def lay_out_pairs(
    reading: Side, writing: Side, examples: Ints, special: tuple[SpecialTokens, SpecialTokens]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return sources with their end, targets after their start, and targets one step ahead."""
    reads, writes = special
    shard, starts, shape = reading
    read = np.full(shape, reads.pad)
    for i, sign in enumerate(reads.encoder_bos):
        read.flat[starts + i] = sign
    read.flat[copy_examples(read, shard, starts + len(reads.encoder_bos), examples)] = reads.eos
    shard, starts, shape = writing
    write, want = np.full(shape, writes.pad), np.full(shape, NOTHING)
    for i, sign in enumerate(writes.bos):
        write.flat[starts + i] = sign
    last = len(writes.bos) - 1
    copy_examples(write, shard, starts + last + 1, examples)
    want.flat[copy_examples(want, shard, starts + last, examples)] = writes.eos
    return torch.from_numpy(read), torch.from_numpy(write), torch.from_numpy(want)


def copy_examples(out: NDArray[Any], shard: Shard, starts: Ints, examples: Ints) -> Ints:
    """Copy each example to its start, all at once; return where each ends."""
    begins, counts = spans(shard, examples)
    step = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    taken = np.repeat(begins, counts) + step
    out.flat[np.repeat(starts, counts) + step] = shard.tokens[taken]
    return starts + counts


def spans(shard: Shard, examples: Ints) -> tuple[Ints, Ints]:
    """Return where some examples begin and how long they are, without reading the others."""
    begins = np.where(examples > 0, shard.ends[examples - 1], 0)
    return begins, shard.ends[examples] - begins
