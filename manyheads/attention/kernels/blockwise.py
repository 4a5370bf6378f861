"""Attention for a strip of queries at a time, over only the keys that any of them sees.

B batch, H heads, Q queries, K keys, S queries of a strip, C channels of one head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from manyheads.attention.biases import ContentBias, Feature, sum_tensors, upcast
from manyheads.attention.evaluate import evaluate
from manyheads.attention.kernels.base import (
    Plan,
    Scoring,
    Work,
    find_missing_feature,
    repeat_heads,
    unknown_form,
)
from manyheads.attention.kernels.flex import block_truth
from manyheads.attention.kernels.sdpa import Mask, mask_of
from manyheads.attention.places import Pair, Pairs
from manyheads.attention.rules import Rule
from manyheads.attention.scores import Score

ABLE: frozenset[Feature] = frozenset({"content bias", "value bias", "gradient"})
ABLE_PLAIN: frozenset[Feature] = frozenset({"dropout", "gradient"})  # without a bias
STRIP = 128  # queries at once
LONG = 512  # queries; above this, strips are faster than all pairs at once


@dataclass(frozen=True, eq=False)
class Strip:
    """A range of queries, and the range of keys that any of them sees."""

    queries: slice
    keys: slice
    mask: Mask | None = None  # None if each pass evaluates the pattern


class Blockwise:
    """A CPU kernel for local attention, which skips keys that no query sees, and for
    RelativeContent, in plain tensor algebra.

    For RelativeContent the backward pass computes each strip again, so that memory grows with the
    length and not with its square.
    """

    name = "blockwise"

    def refuses(self, work: Work) -> str:
        if reason := find_missing_feature(work, ABLE if work.kinds else ABLE_PLAIN):
            return reason
        if work.device.type != "cpu":
            return f"it runs on a CPU, not on {work.device.type}"
        return "" if len(work.pairs.queries) and len(work.pairs.keys) else "there are no pairs"

    def cost(self, work: Work) -> float:
        if len(work.pairs.queries) <= LONG:
            return 25.0
        if work.kinds:
            return 8.0
        # A pair costs as much as under a full mask, and each strip adds a little.
        seen = sum(strip.keys.stop - strip.keys.start for strip in strips_of(work))
        return 0.1 + 2.0 * seen * STRIP / (len(work.pairs.queries) * len(work.pairs.keys))

    def prepare(self, work: Work) -> list[Strip]:
        strips = strips_of(work)
        if work.kinds:
            return strips
        pairs = [pair_of(work.pairs, strip) for strip in strips]
        return [
            replace(strip, mask=mask_of(evaluate(work.pattern, pair)))
            for strip, pair in zip(strips, pairs, strict=True)
        ]

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        score, biases, dropout = how
        key, value = repeat_heads(key, plan.groups), repeat_heads(value, plan.groups)
        if not biases:
            return attend_in_strips(self, query, key, value, plan, score, dropout)
        content = [bias for bias in biases if isinstance(bias, ContentBias)]
        # Here and not in a strip: a strip is run again for gradients of its inputs only, and the
        # parameters of a score are not among them.
        prepared, scale = score.query(query), score.scale(key.shape[-1])
        rules, out = [bias.rule for bias in content], []
        for strip in plan.form:
            parts = [
                part
                for bias in content
                for part in (bias.query[:, :, strip.queries], bias.key_tables, bias.value_tables)
            ]
            attend = partial(attend_strip, plan.work, strip, rules, scale)
            keys, values = key[:, :, strip.keys], value[:, :, strip.keys]
            out.append(Again.apply(attend, prepared[:, :, strip.queries], keys, values, *parts))
        return torch.cat(out, 2)


def strips_of(work: Work) -> list[Strip]:
    """Cut the queries into strips, each with the keys from the first to the last one seen."""
    queries, keys = len(work.pairs.queries), len(work.pairs.keys)
    some = block_truth(work.pattern, work.pairs, STRIP).some.flatten(0, 1).any(0)
    strips = []
    for n, blocks in enumerate(some.tolist()):
        seen = [i for i, any_of_them in enumerate(blocks) if any_of_them]
        first, last = (seen[0], seen[-1] + 1) if seen else (0, 0)
        rows = slice(n * STRIP, min((n + 1) * STRIP, queries))
        strips.append(Strip(rows, slice(first * STRIP, min(last * STRIP, keys))))
    return strips


# ---- without a bias: torch's own kernel, strip by strip ----------------------------------------


def attend_in_strips(
    kernel: Blockwise,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: Plan,
    score: Score,
    dropout: float,
) -> Tensor:
    strips: list[Strip] = plan.form
    spans = [strip.keys for strip in strips]
    prepared, scale = score.query(query), score.scale(key.shape[-1])
    out = []
    parts = zip(strips, Cut.apply(key, spans), Cut.apply(value, spans), strict=True)
    for strip, keys, values in parts:
        if strip.mask is None:
            raise unknown_form(kernel, strip.mask)
        rows, allowed = prepared[:, :, strip.queries], strip.mask.allowed
        mixed = F.scaled_dot_product_attention(rows, keys, values, allowed, dropout, scale=scale)
        out.append(mixed.masked_fill(strip.mask.empty, 0))
    return torch.cat(out, 2)


class Cut(torch.autograd.Function):
    """Slice overlapping parts of the keys; backward adds their gradients into one tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, spans: list[slice]) -> tuple[Tensor, ...]:
        ctx.shape, ctx.spans = x.shape, spans
        return tuple(x[:, :, span] for span in spans)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].new_zeros(ctx.shape)
        for span, grad in zip(ctx.spans, grads, strict=True):
            total[:, :, span] += grad
        return total, None


# ---- RelativeContent ----------------------------------------------------------------------------


def attend_strip(work: Work, strip: Strip, rules: list[Rule], scale: float, *inputs: Any) -> Tensor:
    """Return the output of the queries of a strip, as the reference defines it.

    The inputs are query, key and value, then the query and the two tables of each bias.
    """
    (query, key, value, *parts), pair = inputs, pair_of(work.pairs, strip)
    if not key.shape[2]:
        return query * 0
    each = zip(parts[::3], parts[1::3], parts[2::3], rules, strict=True)
    biases = [ContentBias(*held) for held in each]
    scores = upcast(query @ key.mT * scale)
    scores = scores + sum_tensors(look_up_bias(bias, pair, scale) for bias in biases)
    allowed = evaluate(work.pattern, pair)
    lowest = torch.finfo(scores.dtype).min  # not -inf: a row without any key stays finite
    weights = scores.masked_fill(~allowed, lowest).softmax(-1).masked_fill(~allowed, 0)
    weights = weights.to(query.dtype)
    added = [bias.mixed(weights, pair) for bias in biases if bias.value_tables is not None]
    return sum_tensors([weights @ value, *added])


class Again(torch.autograd.Function):
    """Checkpointing: keep only the inputs in forward, and run it again for the gradients."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Tensor], *inputs: Tensor | None) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[1:]
        inputs = [
            None if x is None else x.detach().requires_grad_(need)
            for x, need in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        with torch.enable_grad():
            out = ctx.run(*inputs)
        asked = [x for x in inputs if x is not None and x.requires_grad]
        found = iter(
            torch.autograd.grad(out, asked, grad, allow_unused=True, materialize_grads=True)
        )
        return None, *(next(found) if need else None for need in wanted)


def pair_of(pairs: Pairs, strip: Strip) -> Pair:
    batch, heads, queries, keys = pairs.shape
    b, h = torch.arange(batch)[:, None, None, None], torch.arange(heads)[None, :, None, None]
    i, j = torch.arange(queries)[strip.queries], torch.arange(keys)[strip.keys]
    return pairs.at(b, h, i[None, None, :, None], j[None, None, None, :])


def look_up_bias(bias: ContentBias, pair: Pair, scale: float) -> Tensor:
    """Return what a bias adds to the scores of a strip, (B, H, S, keys)."""
    indices = bias.rule.indices(pair)
    # A strip has only some of all distances: multiply the query only with these.
    first = min(int(index.min()) for index in indices)
    after = max(int(index.max()) for index in indices) + 1
    met = replace(bias, key_tables=bias.key_tables[:, :, first:after])
    return sum_tensors(
        rows.gather(-1, (index - first).expand(*rows.shape[:3], index.shape[-1]))
        for rows, index in zip(met.by_row(scale), indices, strict=True)
    )
