"""How likely each token is, and which of them can win.

V vocabulary; S sentences that have W sequences each.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64  # tokens of which only the best is compared with others at first


def to_log_probs(logits: Tensor) -> Tensor:
    """In the place of the logits where they fit, which halves the time that this takes."""
    if logits.dtype == torch.float32 and logits.is_contiguous():
        return torch.log_softmax(logits, -1, out=logits)
    return logits.log_softmax(-1, dtype=torch.float32)


def blockwise_topk(totals: Tensor, logs: Tensor) -> Tensor:
    """Numbers w V + v of continuations (S, ...), the best 2 W of each sentence among them.

    To sort a whole vocabulary takes long. The best are in the blocks of tokens whose best are best.
    """
    (sentences, width), vocabulary = totals.shape, logs.shape[1]
    block = min(BLOCK, vocabulary)
    count, rest = divmod(vocabulary, block)
    tops = logs[:, : vocabulary - rest].unflatten(1, (count, block)).amax(-1)  # (S W, count)
    tops = (tops + totals.view(-1, 1)).view(sentences, -1)
    chosen = tops.topk(min(2 * width, tops.shape[1])).indices
    starts = chosen // count * vocabulary + chosen % count * block
    tokens = torch.arange(vocabulary, device=logs.device)
    within = (starts[..., None] + tokens[:block]).flatten(1)
    # The last few that make no block are all looked at.
    ends = torch.arange(width, device=logs.device)[:, None] * vocabulary + tokens[block * count :]
    return torch.cat([within, ends.flatten().expand(sentences, -1)], 1)


def are_few(going: int, batch: int) -> bool:
    """Whether those that are done leave: a copy of the cache for all, a row less for each step."""
    return 4 * going <= 3 * batch
