"""Attention as it is defined in a lecture: all other kernels must agree with it.

B batch, H heads, Q queries, K keys, C channels of one head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.biases import Bias, ContentBias, look_up_all, upcast
from manyheads.attention.evaluate import evaluate
from manyheads.attention.kernels.base import Plan, Scoring, Work, repeat_heads, unknown_form
from manyheads.attention.scores import Score


class Reference:
    """Plain tensor algebra over all pairs: has all features, shows its weights, stores Q x K."""

    name = "reference"

    def refuses(self, work: Work) -> str:
        return ""

    def cost(self, work: Work) -> float:
        return 20.0

    def prepare(self, work: Work) -> Tensor:
        return evaluate(work.pattern, work.pairs.everywhere())

    def weights(
        self, query: Tensor, key: Tensor, plan: Plan, score: Score, biases: tuple[Bias, ...]
    ) -> Tensor:
        """Return attention weights, (B, H, Q, K): a row sums to 1, or to 0 if all is masked."""
        if not isinstance(plan.form, Tensor):
            raise unknown_form(self, plan.form)
        key = repeat_heads(key, plan.groups)
        scores = score(query, key)
        for bias in biases:
            rows = bias.by_row(score.scale(key.shape[-1]))
            scores = scores + look_up_all(rows, bias.rule, plan.work.pairs)
        wide = upcast(scores)
        # The lowest number and not -inf: a row without any allowed key stays finite, and is set to
        # zero afterwards.
        masked = wide.masked_fill(~plan.form, torch.finfo(wide.dtype).min)
        return masked.softmax(-1).masked_fill(~plan.form, 0).to(query.dtype)

    def mix(self, weights: Tensor, value: Tensor, plan: Plan) -> Tensor:
        """(B, H, Q, K), (B, H, K, C) -> (B, H, Q, C)"""
        return weights @ value

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        score, biases, dropout = how
        weights = F.dropout(self.weights(query, key, plan, score, biases), dropout)
        return self.take(weights, value, plan, biases)

    def take(self, weights: Tensor, value: Tensor, plan: Plan, biases: tuple[Bias, ...]) -> Tensor:
        """Return the output for these weights, (B, H, Q, C), with what value biases add."""
        out = self.mix(weights, repeat_heads(value, plan.groups), plan)
        for bias in biases:
            if isinstance(bias, ContentBias) and bias.value_tables is not None:
                out = out + bias.mixed(weights, plan.work.pairs.everywhere())
        return out
