"""How many earlier tokens a decoder can still see, and a ring cache for them.

N places, T tokens.
"""

from __future__ import annotations

import torch

from manyheads.attention.cache import Ring
from manyheads.attention.kernels.flex import block_truth
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Grid, Pairs
from manyheads.modules.stack import Stack

STEP = 16  # block size in tokens: smaller blocks would cost more than they save


def make_ring(stack: Stack, places: Grid) -> Ring | None:
    """Make a cache of the tokens that the layers can still see; None if they see all tokens."""
    slots = max(count_visible(pattern, places, stack.heads) for pattern in {*stack.patterns})
    return Ring(places, slots) if slots < len(places) else None


def count_visible(pattern: Pattern, places: Grid, heads: int = 1) -> int:
    """Bound how many tokens a query sees, from the earliest to itself: `Blocks(8, 8)` -> 16"""
    pairs = Pairs(1, heads, places, places)
    some = block_truth(pattern, pairs, STEP).some.flatten(0, 1).any(0)  # (N / STEP, N / STEP)
    first = some.int().argmax(1)
    reach = (torch.arange(len(first), device=first.device) - first + 1) * STEP
    return min(int(reach.max()), len(places))
