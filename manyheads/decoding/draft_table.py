"""A table of the tokens that a model most often writes next, counted once in its own output.

An entry says which token followed after the same last token and one or two neighbouring tokens of
the source; or, without a source, after the same last two to four tokens. Only entries that guess
right often enough are kept.

T tokens, K keys by which each is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LEAST, LIKELY = 2, 0.3  # the smallest count of an entry, and the smallest share of its token
DOUBT = 2  # added to the count, as if other tokens had followed
MOST = 110_000  # entries that are kept: 7 bytes each
WRONG = 0.5  # the cost of a wrong guess, where a right one gains 1
BEFORE, BEHIND = -2, -3  # stand for a token before the first, and after the last
ORDERS = 2, 3, 4
# A key is a hash, a sum of products: collisions are rare, and a wrong guess changes no text.
FACTORS = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F
MASK = 0xFFFFFFFF

Ids = Sequence[int]
Entry = tuple[int, float]  # a token and its probability


class DraftTable:
    """Entries (a token and its probability) by their keys."""

    def __init__(self, entries: dict[int, Entry], reads: bool = False):
        """`reads`: whether the keys also depend on a source."""
        self.entries, self.reads = entries, reads

    def prepare(self, source: Ids) -> list[int]:
        """Return the parts of the keys that come from the source."""
        return source_parts(source) if self.reads and self.entries else []

    def look_up(self, parts: Sequence[int], ids: Ids) -> Iterator[Entry]:
        """Yield the entries for the token after `ids`."""
        if self.entries:
            keys = keys_after(parts, ids, self.reads)
            yield from (found for key in keys if (found := self.entries.get(key)) is not None)

    def tensors(self) -> dict[str, Tensor]:
        keys = np.array([*self.entries], dtype=np.uint32).view(np.int32)
        tokens, sure = zip(*self.entries.values(), strict=True) if self.entries else ((), ())
        small = max(tokens, default=0) < 2**16
        return {
            "keys": torch.from_numpy(keys),
            "tokens": torch.tensor(tokens, dtype=torch.int32).to(
                torch.uint16 if small else torch.int32
            ),
            "sure": torch.tensor([round(255 * x) for x in sure], dtype=torch.uint8),
        }

    @staticmethod
    def of(tensors: dict[str, Tensor], reads: bool) -> DraftTable:
        keys = tensors["keys"].numpy().view(np.uint32).tolist()
        sure = (tensors["sure"].float() / 255).tolist()
        both = zip(tensors["tokens"].tolist(), sure, strict=True)
        return DraftTable(dict(zip(keys, both, strict=True)), reads)


NO_TABLE = DraftTable({})


def source_parts(source: Ids) -> list[int]:
    """Return a part of a key for each token of the source, and for each two neighbours."""
    _, second, third, fourth = FACTORS
    ends = zip([BEFORE, *source], [*source, BEHIND], strict=True)
    return [second * one for one in dict.fromkeys(source)] + [
        third * one + fourth * two for one, two in ends
    ]


def keys_after(parts: Sequence[int], ids: Ids, reads: bool) -> list[int]:
    """Return the keys of the token after `ids`; their number does not depend on `ids`."""
    last = FACTORS[0] * (ids[-1] if ids else BEFORE)
    keys = [part + last & MASK for part in parts]
    for order in ORDERS[:1] if reads else ORDERS:
        before = [*[BEFORE] * (order - len(ids)), *ids[-order:]]
        keys.append(sum(a * b for a, b in zip(before, FACTORS, strict=False)) + order & MASK)
    return keys


def make_table(pairs: Iterable[tuple[Ids, Ids]], most: int = MOST) -> DraftTable:
    """Count a table from pairs of a source, empty if there is none, and its output with stop."""
    every = [(list_keys(*pair), np.array(pair[1], dtype=np.uint32)) for pair in pairs]
    reads = any(keys.shape[1] > len(ORDERS) for keys, _ in every)
    met = [(keys.astype(np.uint64) << np.uint64(32)) + ids[:, None] for keys, ids in every]
    keys, tokens, sure = count_pairs(np.concatenate([one.ravel() for one in met]))
    won = elect(every, keys, tokens, sure) if len(keys) else sure
    best = np.argsort(-won, kind="stable")[:most]
    best = np.sort(best[won[best] >= 1])
    entries = zip(tokens[best].tolist(), sure[best].tolist(), strict=True)
    return DraftTable(dict(zip(keys[best].tolist(), entries, strict=True)), reads)


Numbers = NDArray[np.uint32]
Likely = NDArray[np.float64]


def list_keys(source: Ids, written: Ids) -> Numbers:
    """Return the keys of each token of a sequence: (T, K)"""
    parts = source_parts(source) if source else []
    rows = [keys_after(parts, written[:t], bool(source)) for t in range(len(written))]
    return np.array(rows, dtype=np.uint32)


def count_pairs(met: NDArray[np.uint64]) -> tuple[Numbers, Numbers, Likely]:
    """Count pairs of a key and the token after it, each pair given as one number. Return the sorted
    keys, the most frequent token after each, and its probability.
    """
    pairs, times = np.unique(met, return_counts=True)
    of, follow = (pairs >> np.uint64(32)).astype(np.uint32), pairs.astype(np.uint32)
    keys, first = np.unique(of, return_index=True)
    total = np.add.reduceat(times, first)
    best = np.lexsort((-times, of))[first]  # the most frequent token of each key
    sure = times[best] / (total + DOUBT)
    chosen = (total >= LEAST) & (sure >= LIKELY)
    return keys[chosen], follow[best][chosen], sure[chosen]


def elect(
    every: Sequence[tuple[Numbers, Numbers]], keys: Numbers, tokens: Numbers, sure: Likely
) -> Likely:
    """Score each entry: how often it was the likeliest and right, minus a share for each wrong."""
    won = np.zeros(len(keys))
    for rows, written in every:
        at = np.searchsorted(keys, rows).clip(max=len(keys) - 1)
        likely = np.where(keys[at] == rows, sure[at], 0.0)
        best = np.take_along_axis(at, likely.argmax(1)[:, None], 1)[:, 0]
        points = np.where(tokens[best] == written, 1.0, -WRONG)
        np.add.at(won, best, np.where(likely.max(1) > 0, points, 0.0))
    return won
