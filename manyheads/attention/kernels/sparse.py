"""Attention over a list of pairs: the cost grows with a graph's edges, not with all pairs of nodes.

B batch, H heads, Q queries, K keys, C channels of one head, E pairs, N labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.biases import Bias, ContentBias, Feature, upcast
from manyheads.attention.evaluate import evaluate
from manyheads.attention.kernels.base import (
    Plan,
    Scoring,
    Work,
    find_missing_feature,
    repeat_heads,
    unknown_form,
)
from manyheads.attention.patterns import Window
from manyheads.attention.places import Graph
from manyheads.attention.scores import Score
from manyheads.attention.tables import PairTable

ABLE: frozenset[Feature] = frozenset(
    {"distance bias", "content bias", "value bias", "dropout", "gradient"}
)
PAIR = 60.0  # cost of a listed pair, in pairs of plain attention


@dataclass(frozen=True, eq=False)
class Links:
    """The listed pairs, which of them are allowed, and the label that each bias reads."""

    batch: Tensor  # (E,)
    query: Tensor  # (E,) index among all queries of the batch
    key: Tensor  # (E,) index among all keys of the batch
    allowed: Tensor  # (E, 1 or H)
    labels: tuple[Tensor, ...]  # (E,) each


class Sparse:
    """Gather queries and keys of the listed pairs, and sum over the pairs of each query."""

    name = "sparse"

    def refuses(self, work: Work) -> str:
        if reason := find_missing_feature(work, ABLE):
            return reason
        listed = listed_hops(work)
        if listed is None:
            return "it reads graphs that list their edges"
        near = [part.radius for part in work.pattern.parts() if type(part) is Window]
        if not any(isinstance(radius, int) and radius < listed.other for radius in near):
            return f"pairs that are {listed.other} hops apart or more are not listed; Window is"
        return ""

    def cost(self, work: Work) -> float:
        listed = listed_hops(work)
        assert listed is not None
        return PAIR * len(listed.places) / math.prod(listed.shape)

    def prepare(self, work: Work) -> Links:
        listed, pairs = listed_hops(work), work.pairs
        assert listed is not None
        b, q, k = listed.pairs
        if len(listed) < pairs.batch:  # one graph for all
            b = torch.arange(pairs.batch, device=b.device).repeat_interleave(len(q))
            q, k = q.repeat(pairs.batch), k.repeat(pairs.batch)
        heads = torch.arange(pairs.heads, device=b.device)
        pair = pairs.at(b[:, None], heads, q[:, None], k[:, None])
        labels = (kind.rule.indices(pair)[0].expand(len(b), -1)[:, 0] for kind in work.kinds)
        at = b * len(pairs.queries) + q, b * len(pairs.keys) + k
        return Links(b, *at, evaluate(work.pattern, pair), tuple(labels))

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        score, biases, dropout = how
        weights = F.dropout(self.weights(query, key, plan, score, biases), dropout)
        out = self.mix(weights, repeat_heads(value, plan.groups), plan)
        for bias, label in zip(biases, plan.form.labels, strict=True):
            if isinstance(bias, ContentBias) and bias.value_tables is not None:
                out = out + mix_labels(weights, bias.value_tables[0], plan, label)
        return out.to(query.dtype)

    def weights(
        self, query: Tensor, key: Tensor, plan: Plan, score: Score, biases: tuple[Bias, ...]
    ) -> Tensor:
        """Return the attention weight of each listed pair, (E, H)."""
        links = plan.form
        if not isinstance(links, Links):
            raise unknown_form(self, links)
        key, scale = repeat_heads(key, plan.groups), score.scale(key.shape[-1])
        asked = by_row(score.query(query)).index_select(0, links.query)  # (E, H, C)
        scores = upcast((asked * by_row(key).index_select(0, links.key)).sum(-1)) * scale
        batch, _, queries, _ = query.shape
        for bias, label in zip(biases, links.labels, strict=True):
            scores = scores + look_up_label(bias, scale, links, queries, label)
        return softmax_by_query(scores, links, batch * queries)

    def mix(self, weights: Tensor, value: Tensor, plan: Plan) -> Tensor:
        """(E, H), (B, H, K, C) -> (B, H, Q, C)"""
        batch, _, queries, _ = plan.shape
        taken = weights[..., None] * upcast(by_row(value).index_select(0, plan.form.key))
        return by_query(add_up(taken, plan.form.query, batch * queries), plan)


def listed_hops(work: Work) -> PairTable | None:
    """Return the list of pairs of a graph in self-attention; None for anything else."""
    at = work.pairs.queries
    same = at is work.pairs.keys and isinstance(at, Graph)
    return at.hops if same and isinstance(at, Graph) and isinstance(at.hops, PairTable) else None


def by_row(x: Tensor) -> Tensor:
    """(B, H, T, C) -> (B T, H, C)"""
    return x.transpose(1, 2).flatten(0, 1)


def by_query(x: Tensor, plan: Plan) -> Tensor:
    """(B Q, H, C) -> (B, H, Q, C)"""
    return x.unflatten(0, (plan.shape[0], plan.shape[2])).transpose(1, 2)


def softmax_by_query(scores: Tensor, links: Links, queries: int) -> Tensor:
    """Softmax over the pairs of each query, (E, H); zeros if none of them is allowed."""
    hidden = scores.masked_fill(~links.allowed, torch.finfo(scores.dtype).min)
    largest = hidden.new_full((queries, hidden.shape[1]), -torch.inf)
    at = links.query[:, None].expand_as(hidden)
    largest = largest.scatter_reduce(0, at, hidden.detach(), "amax")
    grown = (hidden - largest.index_select(0, links.query)).exp()
    grown = grown.masked_fill(~links.allowed, 0)
    # The largest score adds exp(0) = 1: a sum is smaller only if nothing is allowed.
    sums = add_up(grown, links.query, queries).clamp(min=1)
    return grown / sums.index_select(0, links.query)


def add_up(x: Tensor, to: Tensor, rows: int) -> Tensor:
    """Sum the entries of each row: (E, ...) -> (rows, ...)"""
    return x.new_zeros(rows, *x.shape[1:]).index_add(0, to, x)


def look_up_label(bias: Bias, scale: float, links: Links, queries: int, label: Tensor) -> Tensor:
    """Return what a bias adds to the score of each pair, (E, H)."""
    rows = bias.by_row(scale)[0]  # (1 or B, H, rows, N)
    batch = links.batch if len(rows) > 1 else torch.zeros_like(links.batch)
    return rows[batch, :, links.query % queries % rows.shape[2], label]


def mix_labels(weights: Tensor, table: Tensor, plan: Plan, label: Tensor) -> Tensor:
    """Return what value tables add: weights (E, H), a table (1 or H, N, C) -> (B, H, Q, C)"""
    (batch, heads, queries, _), count = plan.shape, table.shape[1]
    rows = batch * queries
    shares = add_up(weights, plan.form.query * count + label, rows * count)
    table = table.to(shares.dtype).expand(heads, -1, -1)
    return by_query(torch.einsum("rnh,hnc->rhc", shares.view(rows, count, -1), table), plan)
