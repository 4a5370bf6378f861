"""How much of what was read a decoder can still see.

N places, T tokens.
"""

from __future__ import annotations

import torch

from manyheads.attention.cache import Ring
from manyheads.attention.kernels.flex import block_truth
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Grid, Pairs
from manyheads.modules.stack import Stack

STEP = 16  # tokens that are looked at together: finer would cost more than it spares


def make_ring(stack: Stack, places: Grid) -> Ring | None:
    """A cache of what its layers can still see; None where that is all there is."""
    slots = max(count_visible(pattern, places, stack.heads) for pattern in {*stack.patterns})
    return Ring(places, slots) if slots < len(places) else None


def count_visible(pattern: Pattern, places: Grid, heads: int = 1) -> int:
    """From the first token that any still sees to itself, at most: `Blocks(8, 8)` -> 16"""
    pairs = Pairs(1, heads, places, places)
    some = block_truth(pattern, pairs, STEP).some.flatten(0, 1).any(0)  # (N / STEP, N / STEP)
    first = some.int().argmax(1)
    reach = (torch.arange(len(first), device=first.device) - first + 1) * STEP
    return min(int(reach.max()), len(places))
