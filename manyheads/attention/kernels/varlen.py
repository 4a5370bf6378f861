"""Attention over documents packed end to end, each computed on its own.

B batch, H heads, T tokens, C channels of one head, N documents.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.biases import Feature
from manyheads.attention.kernels.base import Plan, Scoring, Work, find_missing_feature, repeat_heads
from manyheads.attention.patterns import Causal, Documents, Segments

ABLE: frozenset[Feature] = frozenset({"gradient"})
TILE = 128  # queries or keys in a tile of flash attention: a smaller bound saves nothing
FEW = 64  # the smallest number of documents that a plan has room for
PAIRS_A_DOCUMENT = 20_000  # cost of a call for one document on a CPU, in pairs of dense attention


@dataclass(frozen=True, eq=False)
class Ends:
    """Where each document begins and ends among all rows end to end, for queries and for keys."""

    queries: Tensor  # (N + 1,) int32
    keys: Tensor  # (N + 1,) int32
    most_queries: int  # an upper bound for one document
    most_keys: int
    padding: Tensor | None  # (B, 1, T, 1), None if there is none
    causal: bool


class Varlen:
    """Flash attention over documents on CUDA; on CPU, SDPA document by document."""

    name = "varlen"

    def refuses(self, work: Work) -> str:
        if reason := find_missing_feature(work, ABLE):
            return reason
        if reason := refuse_pattern(work):
            return reason
        segments = segments_of(work)
        looks_away = segments.keys is not None
        if segments.lengths is None or (looks_away and segments.key_lengths is None):
            return "it needs to know where documents end: Segments.of(lengths, width) does"
        if work.device.type == "cuda" and work.dtype not in (torch.float16, torch.bfloat16):
            return f"on CUDA it computes in 16 bits, {work.dtype} was asked for"
        return ""

    def cost(self, work: Work) -> float:
        if work.device.type == "cuda":
            return 0.3
        batch, _, queries, keys = work.pairs.shape
        documents = sum(map(len, segments_of(work).lengths or ()))
        return 0.3 + documents * PAIRS_A_DOCUMENT / (batch * queries * keys)

    def prepare(self, work: Work) -> Ends:
        segments, pairs = segments_of(work), work.pairs
        mine = segments.lengths or ()
        theirs = mine if segments.keys is None else segments.key_lengths or ()
        counts = [max(map(len, rows)) for rows in zip(mine, theirs, strict=True)]
        room = round_up(sum(counts) + len(counts), FEW)
        ends = [
            lay_out(lengths, counts, len(places), room)
            for lengths, places in ((mine, pairs.queries), (theirs, pairs.keys))
        ]
        # One copy to the device, and no wait for it.
        both = torch.tensor(ends, dtype=torch.int32).to(work.device, non_blocking=True)
        filled = all(sum(row) == len(pairs.queries) for row in mine)
        padding = None if filled else (segments.ids == Segments.PADDING)[:, None, :, None]
        longest = [max(b - a for a, b in pairwise(side)) for side in ends]
        bounds = [TILE * round_up(-(-length // TILE), 1) for length in longest]
        causal = Causal() in work.pattern.parts()
        return Ends(both[0], both[1], bounds[0], bounds[1], padding, causal)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        ends, scale = plan.form, how.score.scale(key.shape[-1])
        run = flash if query.is_cuda else one_by_one
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (how.score.query(query), key, value))
        out = run(q, k, v, ends, scale, plan.groups)  # (B T, H, C)
        out = out.unflatten(0, (len(query), -1)).transpose(1, 2)
        return out if ends.padding is None else out.masked_fill(ends.padding, 0)


def refuse_pattern(work: Work) -> str:
    """Say why this is not attention inside packed documents; empty if it is."""
    # Exactly this class: a subclass may allow something else.
    segments = [part for part in work.pattern.parts() if type(part) is Segments]
    others = [part for part in work.pattern.parts() if type(part) is not Segments]
    if len(segments) != 1 or any(part != Causal() for part in others):
        return "it computes Segments(...), with or without Causal()"
    q, k = work.pairs.queries, work.pairs.keys
    if others and segments[0].keys is not None:
        return "its causal documents look at themselves, not at another tensor"
    if others and (q.first is None or q.first != k.first):
        return "its causal documents lie in their order"
    return "" if len(q) and len(k) else "there are no pairs"


def segments_of(work: Work) -> Segments:
    return next(part for part in work.pattern.parts() if isinstance(part, Segments))


def lay_out(lengths: Documents, counts: list[int], width: int, room: int) -> list[int]:
    """Return where documents end: [[2, 1]], [3], 4, 6 -> [0, 2, 3, 3, 4, 4, 4]. Each row has its
    documents, empty ones up to its count, then its padding; the last row is followed by empty
    documents up to `room`.
    """
    ends = [0]
    for i, (row, count) in enumerate(zip(lengths, counts, strict=True)):
        for length in (*row, *[0] * (count - len(row))):
            ends.append(ends[-1] + length)
        ends.append((i + 1) * width)
    return ends + [ends[-1]] * (room + 1 - len(ends))


def round_up(count: int, least: int) -> int:
    """Round up to `least` or more, with four steps per doubling: 64, 80, 96, 112, 128, 160, ...

    Batches that differ a little then have the same numbers, so that one compiled program runs them
    all; an empty document costs almost nothing.
    """
    if count <= least:
        return least
    step = max(1, (1 << (count - 1).bit_length()) // 8)
    return -(-count // step) * step


def flash(
    query: Tensor, key: Tensor, value: Tensor, ends: Ends, scale: float, groups: int
) -> Tensor:
    """(B T, H, C), (B T, G, C), (B T, G, C) -> (B T, H, C)"""
    from torch.nn.attention.varlen import varlen_attn

    options: Any = {}
    if groups > 1 and shares_keys():
        options["enable_gqa"] = True
    elif groups > 1:
        key, value = repeat_heads(key, groups), repeat_heads(value, groups)
    out: Any = varlen_attn(
        query,
        key,
        value,
        ends.queries,
        ends.keys,
        ends.most_queries,
        ends.most_keys,
        scale=scale,
        window_size=(-1, 0 if ends.causal else -1),
        **options,
    )
    return out


@cache
def shares_keys() -> bool:
    """Whether this version of torch has grouped-query attention for packed documents."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters


def one_by_one(
    query: Tensor, key: Tensor, value: Tensor, ends: Ends, scale: float, groups: int
) -> Tensor:
    """The same as `flash` on a CPU, where a loop over documents is faster than a full mask."""
    out = []
    spans = zip(pairwise(ends.queries.tolist()), pairwise(ends.keys.tolist()), strict=True)
    for (start, end), (key_start, key_end) in spans:
        if end == start:
            continue
        if key_end == key_start:
            out.append(torch.zeros_like(query[start:end]))
            continue
        q, k, v = query[start:end], key[key_start:key_end], value[key_start:key_end]
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        mixed = F.scaled_dot_product_attention(
            q, k, v, is_causal=ends.causal, scale=scale, enable_gqa=groups > 1
        )
        out.append(mixed[0].transpose(0, 1))
    return torch.cat(out)
