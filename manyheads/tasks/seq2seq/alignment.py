"""Which word was read for which word: attention between pieces, gathered into words.

L layers, H heads, Q pieces written, K pieces read.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def link_words(
    layers: Sequence[Tensor], sources: Sequence[int], targets: Sequence[int]
) -> list[tuple[int, int]]:
    """For each word written, in order, the word read that its pieces looked at most.

    `sources` and `targets` are the numbers of the words that the pieces belong to. `layers` are L
    of (H, Q + 1, K + 1): the sign at either end takes part in attention and is no word. Heads do
    different things; their mean over all layers follows the words best.
    """
    weights = torch.stack([layer.mean(0) for layer in layers]).mean(0)  # (Q + 1, K + 1)
    weights = weights[: len(targets), : len(sources)]
    by_source = sum_pieces(weights.T, sources).T
    table = sum_pieces(by_source, targets)  # (words written, words read)
    return [(int(row.argmax()), i) for i, row in enumerate(table)] if table.numel() else []


def sum_pieces(rows: Tensor, words: Sequence[int]) -> Tensor:
    """The rows of each word's pieces, summed."""
    count = max(words, default=-1) + 1
    out = rows.new_zeros(count, rows.shape[1])
    for word, row in zip(words, rows, strict=True):
        if word >= 0:
            out[word] += row
    return out
