"""Describe each head, and measure what the output loses without it.

H heads, Q queries, K keys, T tokens written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from manyheads.inspect.interventions import EachOff, intervening


class HeadName(NamedTuple):
    """A head of a layer: ("decoder.3.cross", 2)"""

    layer: str
    head: int


@torch.no_grad()
def cost_each_head(
    network: nn.Module,
    heads: Sequence[HeadName],
    score: Callable[[int], Tensor],
    copies: int = 64,
) -> Tensor:
    """Return how much switching off each head lowers each token's log-probability, (heads, T).

    `score` returns the log-probabilities for a number of copies of the output, (copies, T).
    """
    whole, found = score(1), list[Tensor]()
    for begin in range(0, len(heads), copies):
        some = heads[begin : begin + copies]
        layers: dict[str, tuple[list[int], list[int]]] = {}
        for row, one in enumerate(some):
            rows, numbers = layers.setdefault(one.layer, ([], []))
            rows.append(row)
            numbers.append(one.head)
        with intervening(network, [EachOff(layer, *both) for layer, both in layers.items()]):
            found.append(whole - score(len(some)))
    return torch.cat(found) if found else whole[:0]


def describe_heads(
    weights: Tensor, signs: Sequence[bool], apart: Tensor | None = None, in_line: bool = False
) -> list[dict[str, Any]]:
    """Compute statistics of each head's weights (H, Q, K). `signs` marks keys that are special
    tokens, `apart` holds distances of queries and keys, `in_line` means self-attention on a line.
    """
    rows = weights.float().cpu()
    entropy = torch.special.entr(rows).sum(-1).mean(-1) / torch.log(torch.tensor(2.0))
    found = {"entropy": entropy, "peak": rows.amax(-1).mean(-1)}
    if any(signs):
        found["signs"] = rows[..., torch.tensor(signs)].sum(-1).mean(-1)
    if apart is not None:
        found["distance"] = (rows * apart).sum(-1).mean(-1)
    if in_line:
        previous = rows.diagonal(-1, 1, 2)  # (H, Q - 1)
        found["previous"] = previous.mean(-1) if previous.shape[-1] else torch.zeros(len(rows))
    columns = {name: [round(one, 4) for one in values.tolist()] for name, values in found.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
