"""Attention through torch's own fused kernels, without a mask if none is needed.

B batch, H heads, Q queries, K keys, C channels of one head.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.biases import Bias, Feature, look_up_all, sum_tensors
from manyheads.attention.evaluate import evaluate, simplify
from manyheads.attention.kernels.base import (
    Bare,
    Plain,
    Plan,
    Scoring,
    Work,
    find_missing_feature,
    repeat_heads,
    unknown_form,
)
from manyheads.attention.patterns import Causal, Everything
from manyheads.attention.places import Pairs, is_run
from manyheads.attention.rules import Clipped, Every, Rule

ABLE: frozenset[Feature] = frozenset({"distance bias", "content bias", "dropout", "gradient"})


@dataclass(frozen=True, eq=False)
class Mask:
    """The allowed pairs, and the queries that have none: they see all keys, then output zeros."""

    allowed: Tensor  # broadcasts to (B, H, Q, K)
    empty: Tensor  # broadcasts to (B, H, Q, 1)


@dataclass(frozen=True, eq=False)
class Steps:
    """An additive causal mask for a few queries at the end of their keys: each sees one key more
    than the query before it."""

    hidden: Tensor  # (Q, K): 0, or minus infinity


def mask_of(allowed: Tensor) -> Mask:
    empty = ~allowed.any(-1, keepdim=True)
    return Mask(allowed | empty, empty)


class Sdpa:
    """F.scaled_dot_product_attention, without a mask for full and plain causal attention."""

    name = "sdpa"

    def refuses(self, work: Work) -> str:
        return find_missing_feature(work, ABLE)

    def cost(self, work: Work) -> float:
        if work.features & {"distance bias", "content bias"}:
            one = all(first_step(kind.rule, work.pairs) is not None for kind in work.kinds)
            # The bias of every pair is stored, and its gradient; for a few queries it is a slice.
            return 2.0 if one and "gradient" not in work.features else 10.0
        form = plain_form(work)
        return 2.0 if form is None else 0.6 if form.causal else 1.0

    def prepare(self, work: Work) -> Plain | Steps | Mask:
        form = plain_form(work) or steps_form(work)
        if form is not None:
            return form
        return mask_of(evaluate(work.pattern, work.pairs.everywhere()))

    def bare(self, form: Plain | Steps | Mask) -> Bare | None:
        """Return torch's own call for plain attention, which skips all other checks."""
        if isinstance(form, Plain):
            return partial(F.scaled_dot_product_attention, is_causal=form.causal)
        if isinstance(form, Steps):
            return partial(F.scaled_dot_product_attention, attn_mask=form.hidden)
        return None

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        score, biases, dropout = how
        form, scale, groups = plan.form, score.scale(key.shape[-1]), plan.groups
        prepared = score.query(query)
        scores = [bias_scores(bias, scale, plan.work.pairs) for bias in biases]
        added = sum_tensors(scores).to(query.dtype) if scores else None
        if isinstance(form, Plain) and added is None:
            return F.scaled_dot_product_attention(
                prepared, key, value, None, dropout, form.causal, scale=scale, enable_gqa=groups > 1
            )
        # Repeat the keys here: with a mask, only torch's slow path lets heads share them.
        key, value = repeat_heads(key, groups), repeat_heads(value, groups)
        attend = partial(F.scaled_dot_product_attention, dropout_p=dropout, scale=scale)
        if isinstance(form, Mask):
            allowed = form.allowed
            hidden = allowed if added is None else added.masked_fill(~allowed, -torch.inf)
            return attend(prepared, key, value, attn_mask=hidden).masked_fill(form.empty, 0)
        if isinstance(form, Steps):
            hidden = form.hidden if added is None else added + form.hidden
            return attend(prepared, key, value, attn_mask=hidden)
        if isinstance(form, Plain) and not form.causal:
            return attend(prepared, key, value, attn_mask=added)
        raise unknown_form(self, form)


def plain_form(work: Work) -> Plain | None:
    """Return a form without a mask: full, or causal over equal places; None if a mask is needed."""
    pattern, q, k = simplify(work.pattern, work.pairs), work.pairs.queries, work.pairs.keys
    if pattern == Everything():
        return Plain()
    biased = bool(work.features & {"distance bias", "content bias"})
    aligned = q.first is not None and q.first == k.first and len(q) == len(k)
    if pattern == Causal() and aligned and not biased:
        return Plain(causal=True)
    return None


def steps_form(work: Work) -> Steps | None:
    """Return the additive mask of a few causal queries on a CPU; None if that is not the case.

    From a boolean mask, torch would build it again in every layer.
    """
    queries, keys = work.pairs.queries, work.pairs.keys
    if work.device.type != "cpu" or len(queries) > FEW or not (is_run(queries) and is_run(keys)):
        return None
    if simplify(work.pattern, work.pairs) != Causal():
        return None
    assert queries.first is not None
    assert keys.first is not None
    seen = queries.first - keys.first + 1  # how many keys the first query sees
    hidden = torch.full((len(queries), len(keys)), -torch.inf, dtype=work.dtype)
    return Steps(hidden.triu_(seen)) if seen > 0 else None


def bias_scores(bias: Bias, scale: float, pairs: Pairs) -> Tensor:
    """Return what a bias adds to the score of every pair: broadcasts to (B, H, Q, K)."""
    if (first := first_step(bias.rule, pairs)) is not None:
        return bias_of_run(bias, scale, first, pairs)
    return look_up_all(bias.by_row(scale), bias.rule, pairs)


# ---- a few queries, as in decoding token by token or in checking a draft -------------------------

FEW = 16  # queries


def first_step(rule: Rule, pairs: Pairs) -> int | None:
    """Return the table index of the first key for the first query, negative if before the table.

    Only for a few consecutive queries over consecutive keys; None otherwise.
    """
    query, keys = pairs.queries, pairs.keys
    few = len(query) == 1 or len(query) <= min(FEW, len(keys) - 1)
    # Exactly these classes: a subclass may map distances to other entries.
    if not few or type(rule) not in (Clipped, Every):
        return None
    if not (is_run(query) and is_run(keys)):
        return None
    assert query.first is not None
    assert keys.first is not None
    return keys.first - query.first + rule.size // 2


def bias_of_run(bias: Bias, scale: float, first: int, pairs: Pairs) -> Tensor:
    """Return what a bias adds for consecutive keys, (B, H, Q, K): a slice of its table, whose first
    and last entries are repeated beyond its ends.
    """
    queries, keys, entries = len(pairs.queries), len(pairs.keys), bias.rule.size
    first, wide = first - (queries - 1), keys + queries - 1  # from the last query's first key
    before, after = (min(wide, max(0, spare)) for spare in (-first, first + wide - entries))
    begin, end = min(max(0, first), entries - 1), max(min(entries, first + wide), 1)
    (row,) = bias.by_row(scale, slice(begin, end))
    parts = [row[..., :1].expand(*row.shape[:-1], before)] * (before > 0)
    parts += [row] * (before + after < wide)
    parts += [row[..., -1:].expand(*row.shape[:-1], after)] * (after > 0)
    found = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    if queries == 1:
        return found
    rows = torch.arange(queries, device=found.device) % found.shape[-2]
    return shift_rows(found.index_select(-2, rows), keys)


def shift_rows(x: Tensor, keys: int) -> Tensor:
    """Take `keys` entries of each row, starting one further left than in the row before; the last
    row starts at 0. (..., Q, K + Q - 1) -> (..., Q, K)
    """
    shape, (*outer, row, step) = (*x.shape[:-1], keys), x.stride()
    return x.as_strided(shape, (*outer, row - step, step), x.storage_offset() + x.shape[-2] - 1)
