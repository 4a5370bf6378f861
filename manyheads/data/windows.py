"""Make batches of windows from documents.

N documents, P pieces of them, R rows of a batch, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from manyheads.attention.places import line
from manyheads.codecs.text import PAD, Text
from manyheads.data.batches import NOTHING, WIDTH, Ints, Packing, Padding, lay_out, within_rows
from manyheads.data.shards import Shard, in_chunks
from manyheads.modules.config import Layout
from manyheads.modules.transformer import Tokens

SHARED = 8  # smallest number of rows to keep: several devices may share a batch
Read: TypeAlias = Callable[[Ints, Ints], Ints]  # places in a shard and tables -> ids


def frame_documents(texts: Iterable[str], codec: Text) -> Iterator[list[int]]:
    """Yield the ids of each document, with its start and end tokens, as a shard holds them."""
    special = codec.special_tokens
    for some in in_chunks(texts):
        for ids in codec.encode_all(some):
            yield [*special.bos, *ids, special.eos]


class Batch(NamedTuple):
    """The tokens that are read, and the next token wanted at each place."""

    tokens: Tokens
    wanted: Tensor  # (R, T), NOTHING where there is none


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a planned batch: the pieces that lie end to end in each."""

    begins: Ints  # (P,) in the shard
    lengths: Ints  # (P,) tokens read; the tokens wanted are one step ahead
    counts: Ints  # (R,) pieces of each row
    tables: Ints  # (P,) which table maps the ids of each piece, where there are tables

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, some: slice) -> Rows:
        """rows[1::2]: every other row."""
        chosen = np.zeros(len(self), bool)
        chosen[some] = True
        pieces = chosen[self.row_of()]
        return Rows(
            self.begins[pieces], self.lengths[pieces], self.counts[chosen], self.tables[pieces]
        )

    def row_of(self) -> Ints:
        return np.repeat(np.arange(len(self)), self.counts)

    def filled(self, rows: int) -> Rows:
        """Add empty rows, up to this number."""
        more = max(0, rows - len(self))
        return replace(self, counts=np.pad(self.counts, (0, more)))

    def plain(self, context: int) -> bool:
        """Whether each row is one full window."""
        return bool(len(self) and (self.counts == 1).all() and (self.lengths == context).all())


class Windows:
    """Plans which tokens form a batch of a language model, and makes the batches.

    Documents longer than the context are cut into windows, from another offset in every epoch. Full
    windows form batches that need no mask. Shorter pieces are packed into rows or, with the padded
    layout, have a row each. Every token of a document except the first is predicted once per epoch.
    """

    def __init__(
        self,
        documents: Shard,
        context: int,
        tokens: int,
        layout: Layout = "packed",
        *,
        seed: int = 0,
        pad: int = PAD,
    ):
        if context < 1:
            raise ValueError(f"a window has 1 token or more, a context of {context} was asked for")
        if not (documents.lengths > 1).any():
            raise ValueError("there is nothing to learn: no document has two tokens")
        self.documents, self.context, self.seed, self.pad = documents, context, seed, pad
        self.rows = max(1, tokens // context)
        # Rows hold several windows if those are short: packing then leaves less room unused.
        wide = max(1, min(self.rows // SHARED, WIDTH // context))
        self.plan: Packing | Padding = (
            Packing(rows=self.rows // wide, widths=(wide * context,))
            if layout == "packed"
            else Padding(max(tokens, context))
        )

    @property
    def longest(self) -> int:
        return min(self.context, int(self.documents.lengths.max()) - 1)

    def epoch(self, number: int) -> list[Rows]:
        """Return the batches of an epoch, in random order."""
        random = np.random.default_rng([self.seed, number])
        offsets = random.integers(self.context, size=len(self.documents))
        batches = self.planned(offsets, number)
        return [batches[i] for i in random.permutation(len(batches))]

    def planned(self, offsets: Ints, epoch: int) -> list[Rows]:
        cut = cut_pieces(self.documents.ends, self.context, offsets)
        return self.batched(*cut, np.zeros(len(cut[0]), np.int64), epoch)

    def whole(self) -> list[Rows]:
        """Return windows that do not overlap, with every token of each document once, for
        evaluation.
        """
        return self.planned(np.zeros(len(self.documents), np.int64), 0)

    def batched(self, begins: Ints, lengths: Ints, tables: Ints, epoch: int) -> list[Rows]:
        random = np.random.default_rng([self.seed, epoch, 1])
        full = random.permutation(np.flatnonzero(lengths == self.context))
        some = len(full) // self.rows * self.rows
        once = np.ones(self.rows, np.int64)
        batches = [
            Rows(begins[one], lengths[one], once, tables[one])
            for one in full[:some].reshape(-1, self.rows)
        ]
        # Full windows that are left over go with the short pieces.
        others = np.concatenate([np.flatnonzero(lengths < self.context), full[some:]])
        rest = self.plan.batches(lengths[others, None], seed=self.seed, epoch=epoch)
        for rows in rest:
            flat = others[np.concatenate([np.asarray(row, np.int64) for row in rows])]
            counts = np.array([len(row) for row in rows], np.int64)
            batches.append(Rows(begins[flat], lengths[flat], counts, tables[flat]))
        return batches

    def read(self, places: Ints, tables: Ints) -> Ints:
        """Return the ids at these places of the shard, mapped by their table where there are
        tables.
        """
        return self.documents.tokens[places].astype(np.int64)

    def count(self, rows: Rows) -> int:
        """Return the number of tokens to predict in these rows."""
        return int(rows.lengths.sum())

    def area(self, rows: Rows) -> int:
        """Return the number of tokens in a batch, with padding."""
        if rows.plain(self.context):
            return len(rows) * self.context
        if isinstance(self.plan, Packing):
            return self.plan.rows * self.plan.widths[0]
        return len(rows) * int(rows.lengths.max(initial=1))

    def share(self, rows: Rows, part: int, parts: int) -> Rows:
        """Return one part of a batch, with the shape of the others: every `parts`-th row."""
        if isinstance(self.plan, Packing) and not rows.plain(self.context):
            rows = rows.filled(self.plan.rows)
        return rows[part::parts]

    def batch(self, rows: Rows) -> Batch:
        """Make the tensors of a batch; without rows, one row in which nothing is wanted."""
        if rows.plain(self.context):
            return side_by_side(self.read, rows, self.context)
        rows = rows.filled(1)
        width, sizes = int(rows.lengths.max(initial=1)), None
        if isinstance(self.plan, Packing):
            (width,), sizes = self.plan.widths, rows.counts.tolist()
        ids, wanted = place_pieces(self.read, rows, width, self.pad)
        return Batch(lay_out(ids, rows.lengths, sizes, self.longest), wanted)


def cut_pieces(ends: Ints, context: int, offsets: Ints) -> tuple[Ints, Ints]:
    """Return where the pieces of documents begin, and how many tokens of each are read.

    A document longer than the context begins with a piece as long as its offset, if that is not 0.
    Documents that end at [4, 12], context 3, offsets [2, 2] -> [0, 4, 6, 9] and [3, 2, 3, 2]
    """
    lengths = np.diff(ends, prepend=0)
    reads = np.maximum(lengths - 1, 0)  # nothing follows the last token
    heads = np.where(reads > context, offsets, 0)
    first = heads - np.where(heads > 0, context, 0)  # where a full first piece would begin
    counts = -(-(reads - first) // context)
    number = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    starts = np.repeat(first, counts) + number * context
    stops = np.minimum(starts + context, np.repeat(reads, counts))
    starts = np.maximum(starts, 0)
    return np.repeat(ends - lengths, counts) + starts, stops - starts


def side_by_side(read: Read, rows: Rows, context: int) -> Batch:
    """Make a batch with a full window in each row."""
    held = read(rows.begins[:, None] + np.arange(context + 1), rows.tables[:, None])
    ids, wanted = (torch.from_numpy(held[:, i : i + context].copy()) for i in range(2))
    return Batch(Tokens(ids, line(context)), wanted)


def place_pieces(read: Read, rows: Rows, width: int, pad: int) -> tuple[Tensor, Tensor]:
    """Return the tokens read and wanted, each (R, width); all pieces are copied at once."""
    row_of, lengths = rows.row_of(), rows.lengths
    starts = within_rows(lengths, row_of) + row_of * width
    step = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
    there, here = np.repeat(rows.begins, lengths) + step, np.repeat(starts, lengths) + step
    tables = np.repeat(rows.tables, lengths)
    ids, wanted = (np.full((len(rows), width), fill, np.int64) for fill in (pad, NOTHING))
    ids.flat[here], wanted.flat[here] = read(there, tables), read(there + 1, tables)
    return torch.from_numpy(ids), torch.from_numpy(wanted)
