"""The likeliest token at every step.

B batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.decoding.step import Step


def greedy(step: Step, start: Tensor, *, stop: int, limit: int) -> list[list[int]]:
    """Write on from `start` (B, T) until `stop`, which is left out, or for `limit` tokens."""
    token, written = start, []
    open_ = torch.ones(len(start), dtype=torch.bool, device=start.device)
    for _ in range(limit):
        token = step(token).argmax(-1, keepdim=True)  # (B, 1)
        written.append(token)
        open_ &= token[:, 0] != stop
        if not open_.any():
            break
    rows = torch.cat(written, 1).tolist() if written else [[] for _ in start]
    return [row[: row.index(stop)] if stop in row else row for row in rows]
