"""Evaluate a pattern on pairs, and find out whether it looks ahead."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from manyheads.attention.intervals import WORDS, Truth
from manyheads.attention.patterns import (
    Both,
    Causal,
    Either,
    Pattern,
    Prefix,
    all_of,
    is_builtin,
    values_of,
)
from manyheads.attention.places import Grid, Pair, Pairs, grid, line


def check(pattern: Pattern, pairs: Pairs) -> None:
    """Raise an error that says why places or pattern do not fit the batch."""
    batch = pairs.batch
    if reason := pairs.queries.misfit(batch) or pairs.keys.misfit(batch) or pattern.refuses(pairs):
        raise ValueError(reason)


def evaluate(pattern: Pattern, pair: Pair) -> Tensor:
    """Return True or False for each pair that `pair` broadcasts over."""
    try:
        allowed = pattern.allows(pair)
    except NotImplementedError:
        raise TypeError(f"{type(pattern).__name__} has no allows(self, pair)") from None
    except RuntimeError as error:
        if "Boolean value of Tensor" not in str(error):
            raise
        raise TypeError(WORDS) from None
    if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool:
        kind = allowed.dtype if isinstance(allowed, Tensor) else type(allowed).__name__
        raise TypeError(f"allows of {pattern} gives a tensor of yes and no, {kind} came")
    asked = torch.broadcast_shapes(pair.b.shape, pair.h.shape, pair.q.row.shape, pair.k.row.shape)
    ends = zip(allowed.shape[::-1], asked[::-1], strict=False)
    if allowed.dim() > len(asked) or any(size not in (1, wanted) for size, wanted in ends):
        raise TypeError(
            f"allows of {pattern} was asked about {name_pairs(asked)} and answered for "
            f"{tuple(allowed.shape)}; an answer is computed from the numbers of pair.q and pair.k"
        )
    return allowed


def name_pairs(shape: torch.Size) -> str:
    return f"pairs of {tuple(shape)}" if shape else "one pair"


def simplify(pattern: Pattern, pairs: Pairs) -> Pattern:
    """Drop the parts that allow every pair here, as far as the host knows that for free.

    One query at the end of a cache: `Causal() & Window(64)` -> `Window(64)`, or `Everything()` if
    the cache has fewer than 64 tokens.
    """
    parts = []
    for part in pattern.parts():
        # A compiled pass cannot catch what a pattern of one's own raises here.
        asked = part.fixed and (not torch.compiler.is_compiling() or is_builtin(part))
        try:
            known = part.allows(pairs.whole()) if asked else None
        except (LookupError, TypeError, AttributeError, NotImplementedError):
            known = None
        # A tensor would be an answer that does not come from the block of all pairs.
        if not (isinstance(known, Truth) and known.all):
            parts.append(part)
    return all_of(parts)


# ---- looking ahead ------------------------------------------------------------------------------

NEAR = 32  # first places that are all tried
MOST = 2048  # places that are tried at once
WIDEST = 24  # the most rows and columns of a grid that is tried


def horizon(pattern: Pattern) -> int | None:
    """Return the place below which a query may see later keys: 0 if it sees none.

    None if that does not follow from the pattern's parts. Classes are compared exactly, since a
    subclass may allow something else.
    """
    if type(pattern) is Causal:
        return 0
    if type(pattern) is Prefix:
        return pattern.length if isinstance(pattern.length, int) else int(pattern.length.max())
    if type(pattern) is Both:
        known = [horizon(part) for part in pattern.patterns]
        places = [place for place in known if place is not None]
        return min(places) if places else None  # torch.compile has no min with a default
    if type(pattern) is Either:
        known = [horizon(part) for part in pattern.patterns]
        return None if None in known else max(place for place in known if place is not None)
    return None


@cache
def looks_ahead(pattern: Pattern, heads: int = 1) -> str:
    """Find a token that sees a later one: "token 0 sees token 1"; empty if there is none.

    Where `horizon` says that a pattern never looks ahead, nothing is tried. Any other pattern, also
    a user's own, is tried on a line and on grids, near the numbers it is written with.
    """
    if horizon(pattern) == 0:
        return ""
    found = (try_ahead(pattern, Pairs(1, heads, at, at)) for at in trial_places(pattern))
    return next(filter(None, found), "")


@cache
def counts_rows(pattern: Pattern, heads: int = 1) -> bool:
    """Whether the last queries alone see something else than among all: then the pattern counts
    rows, which with a cache are only those of the new tokens."""
    for at in (line(NEAR), grid(6, 6)):
        last = len(at) // 2
        both = Pairs(1, heads, at, at), Pairs(1, heads, at[last:], at)
        if any(pattern.refuses(pairs) for pairs in both):
            continue
        try:
            whole, some = (evaluate(pattern, one.everywhere()).expand(one.shape) for one in both)
        except (ValueError, LookupError, AttributeError, RuntimeError):
            continue  # a user's own table, made for other places or on a GPU
        if not torch.equal(whole[:, :, last:], some):
            return True
    return False


def try_ahead(pattern: Pattern, pairs: Pairs) -> str:
    if pattern.refuses(pairs):
        return ""
    try:
        allowed = evaluate(pattern, pairs.everywhere())
    except (ValueError, LookupError):  # a user's own table, made for other places
        return ""
    order = pairs.queries.order
    ahead = (allowed & (order > order[:, None])).flatten(0, -3).any(0).nonzero()
    if not len(ahead):
        return ""
    q, k = order[ahead[0]].tolist()
    return f"token {q} sees token {k}"


def trial_places(pattern: Pattern) -> list[Grid]:
    """Return a line with places near the pattern's numbers, lines as long as its tables, and grids
    of two and three axes."""
    numbers = numbers_of(pattern)
    about = {times * n + step for n in numbers for times in (1, 2) for step in range(-2, 3)}
    tried = sorted({*range(NEAR), *(place for place in about if place >= 0)})
    order = torch.tensor(tried[:MOST])
    tables = [line(length) for length in sorted(sizes_of(pattern)) if length <= MOST]
    side = min(2 * max(numbers, default=0) + 2, WIDEST)
    along = Grid(order, (order,), (int(order[-1]) + 1,))
    return [along, *tables, grid(side, side), grid(min(side, 8), min(side, 8), 3)]


def numbers_of(value: Any) -> set[int]:
    """Return the integers that a pattern is written with, without their signs."""
    if isinstance(value, Pattern):
        return set().union(*map(numbers_of, values_of(value)))
    if isinstance(value, tuple | list):
        return set().union(*map(numbers_of, value))
    return {abs(value)} if isinstance(value, int) else set()


def sizes_of(value: Any) -> set[int]:
    """Return the sizes of the tables in a pattern: tuples, lists and tensors."""
    if isinstance(value, Tensor):
        return {*value.shape}
    held = values_of(value) if isinstance(value, Pattern) else value
    if not isinstance(held, tuple | list):
        return set()
    own = set() if isinstance(value, Pattern) else {len(value)}
    return own.union(*map(sizes_of, held))
