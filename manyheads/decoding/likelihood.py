"""Compute the log-probability of a given sequence.

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
from manyheads.devices import use_threads_for
from manyheads.modules.transformer import Tokens

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
    """Return the log-probability of each token, with a window that moves by `stride` tokens.

    Each token is scored once; after the first window it sees at least `context - stride` earlier
    tokens. The first token is predicted from the start tokens, and left out if there are none.
    About `tokens` tokens are computed at once.
    """
    if not 1 <= stride <= context:
        raise ValueError(f"a window of {context} tokens moves by 1 to {context}, got {stride}")
    network.eval()
    device = next(network.parameters()).device
    text = torch.tensor([*special.bos, *ids])
    read, wanted = text[:-1], text[1:]
    begins = range(0, max(1, len(read) - context + stride) if len(read) else 0, stride)
    whole = [begin for begin in begins if begin + context <= len(read)]
    rows = max(1, tokens // context)
    groups = [whole[i : i + rows] for i in range(0, len(whole), rows)]
    groups += [[begin] for begin in begins[len(whole) :]]  # the last window may be shorter
    found: list[Tensor] = []
    for group in groups:
        cuts = [slice(begin, begin + context) for begin in group]
        some, after = (torch.stack([side[cut] for cut in cuts]) for side in (read, wanted))
        logs = score_windows(network, some.to(device), after.to(device))
        known = context - stride  # scored by the window before
        found += [row[known if begin else 0 :] for begin, row in zip(group, logs, strict=True)]
    return torch.cat(found)[max(0, len(special.bos) - 1) :].tolist() if found else []


def score_windows(network: Any, read: Tensor, wanted: Tensor) -> Tensor:
    """Return the log-probabilities of `wanted`, the tokens after those in `read`; all (B, T)."""
    with use_threads_for(network, read):
        scores = network(Tokens(read, line(read.shape[1], device=read.device)))
    return -F.cross_entropy(scores.flatten(0, 1).float(), wanted.flatten(), reduction="none").view(
        wanted.shape
    )
