"""Attention of many short sequences on a CPU, with scores padded to whole SIMD vectors.

Torch's fused kernel computes the exponentials that do not fill a vector one by one: 9 keys take it
twice as long as 16. Here all vectors are full, and the products are small matrices.

B batch, H heads, Q queries, K keys, P keys with the padding, C channels of one head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.evaluate import evaluate
from manyheads.attention.kernels.base import (
    Kernel,
    Plan,
    Scoring,
    Work,
    find_missing_feature,
    make_plan,
    repeat_heads,
)

VECTOR = 16  # numbers of 32 bits
MOST = 128  # keys; with more keys the fused kernel is faster


class Padded:
    """Do the work without gradients; leave all that does not fit to another kernel."""

    name = "padded"

    def __init__(self, otherwise: Kernel):
        self.otherwise = otherwise

    def unfit(self, work: Work) -> str:
        if reason := find_missing_feature(work, frozenset()):
            return reason
        if work.device.type != "cpu" or work.dtype != torch.float32:
            return f"it computes in 32 bits on a CPU, not with {work.dtype} on {work.device.type}"
        keys = len(work.pairs.keys)
        return f"it takes {MOST} keys at most, {keys} came" if keys > MOST else ""

    def refuses(self, work: Work) -> str:
        return self.unfit(work) and self.otherwise.refuses(work)

    def cost(self, work: Work) -> float:
        return self.otherwise.cost(work) if self.unfit(work) else 0.5

    def prepare(self, work: Work) -> Plan | tuple[Tensor, Tensor | None]:
        """Return the additive mask, (B, 1 or H, Q, P), and which queries see no key."""
        if self.unfit(work):
            return make_plan(self.otherwise, work)
        allowed = evaluate(work.pattern, work.pairs.everywhere())
        sees = allowed.any(-1, keepdim=True)
        empty = None if bool(sees.all()) else ~sees
        added = torch.where(allowed if empty is None else allowed | empty, 0.0, -torch.inf)
        keys = len(work.pairs.keys)  # a pattern that asks nothing of the key answers once for all
        added = added.expand(*added.shape[:-1], keys)
        return F.pad(added, (0, -keys % VECTOR), value=-torch.inf), empty

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        (added, empty), scale = plan.form, how.score.scale(key.shape[-1])
        query = how.score.query(query)
        key, value = (repeat_heads(x, plan.groups).flatten(0, 1) for x in (key, value))
        count = key.shape[1]
        scores = torch.bmm(query.flatten(0, 1), key.transpose(1, 2))
        if count % VECTOR:
            scores = F.pad(scores, (0, -count % VECTOR))
        padded = scores.unflatten(0, query.shape[:2])
        torch.add(added, padded, alpha=scale, out=padded)
        weights = torch.softmax(padded, -1, out=padded).flatten(0, 1)
        mixed = torch.bmm(weights[:, :, :count], value).view(query.shape)
        return mixed if empty is None else mixed.masked_fill_(empty, 0)
