"""How likely a sequence is that is there already.

B batch, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.places import line
from manyheads.codecs.text import SpecialTokens
from manyheads.modules.transformer import Tokens
from manyheads.threads import sharing, using, work_of

AT_ONCE = 16384  # tokens


@torch.no_grad()
def compute_log_probs(
    network: Any,
    special: SpecialTokens,
    ids: Sequence[int],
    context: int,
    stride: int,
    tokens: int = AT_ONCE,
) -> list[float]:
    """The log-probability of each token of a sequence, by a window that moves `stride` tokens on.

    Each is looked at once; past the first window it sees `context - stride` tokens before it at
    least. The first comes after the signs that a sequence starts with, and is left out where there
    are none. About so many `tokens` are computed at once.
    """
    if not 1 <= stride <= context:
        raise ValueError(f"a window of {context} tokens moves by 1 to {context}, got {stride}")
    network.eval()
    device = next(network.parameters()).device
    text = torch.tensor([*special.bos, *ids])
    read, wanted = text[:-1], text[1:]
    found: list[Tensor] = []
    if len(read) >= context:
        each = (side.unfold(0, context, stride) for side in (read, wanted))
        rows = max(1, tokens // context)
        for some, after in zip(*(side.split(rows) for side in each), strict=True):
            logs = score_windows(network, some.to(device), after.to(device))
            if not found:
                found.append(logs[0, : context - stride])
            found.append(logs[:, context - stride :].flatten())
    done = sum(map(len, found))
    if done < len(read):  # the last window is shorter, unless it is the only one
        begin = max(0, done - (context - stride))
        logs = score_windows(
            network, read[None, begin:].to(device), wanted[None, begin:].to(device)
        )
        found.append(logs[0, done - begin :])
    return torch.cat(found)[max(0, len(special.bos) - 1) :].tolist() if found else []


def score_windows(network: Any, read: Tensor, wanted: Tensor) -> Tensor:
    """What is read and what is wanted after it -> log-probabilities, each (B, T)"""
    with using(sharing(work_of(network), read)):
        scores = network(Tokens(read, line(read.shape[1], device=read.device)))
    return -F.cross_entropy(scores.flatten(0, 1).float(), wanted.flatten(), reduction="none").view(
        wanted.shape
    )
