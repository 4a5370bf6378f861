"""Attention over documents packed end to end, one short problem each.

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

from manyheads.attention.kernels.base import Plan, Work, lacking, shared
from manyheads.attention.patterns import Causal, Segments
from manyheads.attention.positions import Bias, Feature
from manyheads.attention.scores import Score

ABLE: frozenset[Feature] = frozenset({"gradient"})
PAIRS_A_DOCUMENT = 20_000  # what starting one document costs on a CPU, in pairs of dense attention


@dataclass(frozen=True, eq=False)
class Documents:
    """Where each document begins and ends among all rows laid end to end, on both sides."""

    query_ends: Tensor  # (N + 1,) int32
    key_ends: Tensor  # (N + 1,) int32
    most_queries: int
    most_keys: int
    padding: Tensor | None  # (B, 1, T, 1), None where there is none
    causal: bool


class Varlen:
    """Flash attention over documents on CUDA; on CPU, SDPA document by document."""

    name = "varlen"

    def refuses(self, work: Work) -> str:
        if reason := lacking(work, ABLE):
            return reason
        segments = [part for part in work.pattern.parts() if isinstance(part, Segments)]
        others = [part for part in work.pattern.parts() if not isinstance(part, Segments)]
        if len(segments) != 1 or any(part != Causal() for part in others):
            return "it computes Segments(...), with or without Causal()"
        q, k = work.pairs.queries, work.pairs.keys
        if others and (q.first is None or q.first != k.first or len(q) != len(k)):
            return "causal documents need the queries to be the keys, in order"
        if work.device.type == "cuda" and work.dtype not in (torch.float16, torch.bfloat16):
            return f"on CUDA it computes in 16 bits, {work.dtype} was asked for"
        return ""

    def cost(self, work: Work) -> float:
        if work.device.type == "cuda":
            return 0.3
        batch, _, queries, keys = work.pairs.shape
        documents = batch * (int(segments_of(work).ids.max()) + 1)
        return 0.3 + documents * PAIRS_A_DOCUMENT / (batch * queries * keys)

    def prepare(self, work: Work) -> Documents:
        segments = segments_of(work)
        keys = segments.ids if segments.keys is None else segments.keys
        sides = [segments.ids] if keys is segments.ids else [segments.ids, keys]
        # Two short transfers from the device answer all that must be known on the host.
        known = torch.stack([fact for ids in sides for fact in facts(ids)]).view(-1, 3).tolist()
        if not all(in_turn for _, in_turn, _ in known):
            raise ValueError(
                "the varlen kernel reads documents numbered 0, 1, 2 ... end to end, padding last"
            )
        count = max(highest for highest, _, _ in known) + 2  # the last one is the row's padding
        ends, longest = zip(*(ends_and_longest(ids, count) for ids in sides), strict=True)
        most = torch.stack(longest).tolist()
        padding = (segments.ids == Segments.PADDING)[:, None, :, None] if known[0][2] else None
        causal = Causal() in work.pattern.parts()
        return Documents(ends[0], ends[-1], most[0], most[-1], padding, causal)

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: Plan,
        *,
        score: Score,
        biases: tuple[Bias, ...],
        dropout: float,
    ) -> Tensor:
        documents, scale = plan.form, score.scale(key.shape[-1])
        run = flash if query.is_cuda else one_by_one
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (score.query(query), key, value))
        out = run(q, k, v, documents, scale, plan.groups)  # (B T, H, C)
        out = out.unflatten(0, (len(query), -1)).transpose(1, 2)
        return out if documents.padding is None else out.masked_fill(documents.padding, 0)


def segments_of(work: Work) -> Segments:
    return next(part for part in work.pattern.parts() if isinstance(part, Segments))


def facts(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The highest document number, whether rows count 0, 1, 2 ... with padding last, whether
    there is padding."""
    hidden, step = ids == Segments.PADDING, ids.diff(dim=1)
    in_turn = hidden[:, 1:] | (~hidden[:, :-1] & (step >= 0) & (step <= 1))
    starts = ids[:, 0] <= 0
    return ids.max(), (in_turn.all() & starts.all()).to(ids.dtype), hidden.any().to(ids.dtype)


def ends_and_longest(ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """[[0, 0, 1, -1]], 3 -> ends [0, 2, 3, 4], longest 2: the last document of a row is its
    padding."""
    rows = torch.arange(len(ids), device=ids.device)[:, None]
    document = torch.where(ids == Segments.PADDING, count - 1, ids) + rows * count
    lengths = torch.zeros(len(ids) * count, dtype=torch.int32, device=ids.device)
    lengths.scatter_add_(
        0, document.flatten(), torch.ones_like(document.flatten(), dtype=torch.int32)
    )
    return F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)), lengths.max()


def flash(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, scale: float, groups: int
) -> Tensor:
    """(B T, H, C), (B T, G, C), (B T, G, C) -> (B T, H, C)"""
    from torch.nn.attention.varlen import varlen_attn

    options: Any = {}
    if groups > 1 and shares_keys():
        options["enable_gqa"] = True
    elif groups > 1:
        key, value = shared(key, groups), shared(value, groups)
    out: Any = varlen_attn(
        query,
        key,
        value,
        documents.query_ends,
        documents.key_ends,
        documents.most_queries,
        documents.most_keys,
        scale=scale,
        window_size=(-1, 0 if documents.causal else -1),
        **options,
    )
    return out


@cache
def shares_keys() -> bool:
    """Whether this torch lets heads share keys in packed attention."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters


def one_by_one(
    query: Tensor, key: Tensor, value: Tensor, documents: Documents, scale: float, groups: int
) -> Tensor:
    """The same on a CPU, where a loop over documents beats a mask over all of them."""
    out = []
    spans = zip(
        pairwise(documents.query_ends.tolist()), pairwise(documents.key_ends.tolist()), strict=True
    )
    for (start, end), (key_start, key_end) in spans:
        if end == start:
            continue
        if key_end == key_start:
            out.append(torch.zeros_like(query[start:end]))
            continue
        q, k, v = query[start:end], key[key_start:key_end], value[key_start:key_end]
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        mixed = F.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=documents.causal,
            scale=scale,
            enable_gqa=groups > 1,
        )
        out.append(mixed[0].transpose(0, 1))
    return torch.cat(out)
