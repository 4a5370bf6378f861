"""Align words by cross-attention: attention between pieces, summed over words.

L layers, H heads, Q pieces written, K pieces read.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def link_words(
    layers: Sequence[Tensor], sources: Sequence[int], targets: Sequence[int]
) -> list[tuple[int, int]]:
    """For each word written, in order, return the word read that its pieces attended to most.

    `sources` and `targets` are the indices of the words that the pieces belong to. `layers` are L
    tensors (H, Q + 1, K + 1): the end tokens take part in attention, but are not words. Heads do
    different things; the mean over all heads and layers aligns words best.
    """
    weights = torch.stack([layer.mean(0) for layer in layers]).mean(0)  # (Q + 1, K + 1)
    weights = weights[: len(targets), : len(sources)]
    by_source = sum_pieces(weights.T, sources).T
    table = sum_pieces(by_source, targets)  # (words written, words read)
    return [(int(row.argmax()), i) for i, row in enumerate(table)] if table.numel() else []


def sum_pieces(rows: Tensor, words: Sequence[int]) -> Tensor:
    """Sum the rows of each word's pieces."""
    count = max(words, default=-1) + 1
    out = rows.new_zeros(count, rows.shape[1])
    for word, row in zip(words, rows, strict=True):
        if word >= 0:
            out[word] += row
    return out
