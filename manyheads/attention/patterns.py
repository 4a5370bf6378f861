"""Who may attend to whom.

A pattern is a value: it prints as it is written, compares, saves, and joins with `&`, `|`, `~`.
Its one predicate, `allows`, is evaluated pair by pair (tensors) or block by block (intervals).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, reduce
from operator import and_, or_
from typing import Any, ClassVar, Self, TypeAlias, dataclass_transform

import torch
from torch import Tensor

from manyheads.attention.intervals import WORDS, Verdict
from manyheads.attention.places import Graph, Grid, Pair, Pairs, end_to_end, grid, time_of


@dataclass_transform(frozen_default=True, eq_default=False)
class Pattern:
    """Subclass it with its fields and `allows`, and it prints, compares, saves and runs.

    class Strided(Pattern):
        step: int

        def allows(self, pair):
            return (pair.q.order - pair.k.order) % self.step == 0
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def allows(self, pair: Pair) -> Verdict:
        """Yes or no for a pair, or for all pairs that its numbers broadcast over."""
        raise NotImplementedError

    def refuses(self, pairs: Pairs) -> str:
        """Why this pattern means nothing on these places; empty where it does."""
        return first_refusal(inner(self), pairs)

    @property
    def fixed(self) -> bool:
        """Whether it is the same for every batch: a layer may own it, a recipe may hold it."""
        has_tensor = any(isinstance(value, Tensor) for value in values_of(self))
        return not has_tensor and all(pattern.fixed for pattern in inner(self))

    def to(self, device: torch.device | str) -> Self:
        """The same with its tensors on that device."""
        return self.changed(lambda part: part.to(device))

    def select(self, rows: Tensor) -> Self:
        """The same for these sequences of the batch; its tensors have the batch first."""
        return self.changed(lambda p: p[rows] if isinstance(p, Tensor) else p.select(rows))

    def changed(self, change: Callable[[Any], Any]) -> Self:
        """The same with every tensor and every pattern in it changed."""

        def anew(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(anew, value))
            return change(value) if isinstance(value, Tensor | Pattern) else value

        mine: Any = self
        values = {f.name: anew(getattr(self, f.name)) for f in fields(mine)}
        return mine if self.fixed else replace(mine, **values)

    def parts(self) -> tuple[Pattern, ...]:
        """What must hold at once: `(Causal() & Window(2)).parts()` -> (Causal(), Window(2))."""
        return (self,)

    def __and__(self, other: Pattern) -> Pattern:
        return every((*self.parts(), *a_pattern(other, "&").parts()))

    def __or__(self, other: Pattern) -> Pattern:
        return any_of((*alternatives(self), *alternatives(a_pattern(other, "|"))))

    def __invert__(self) -> Pattern:
        return self.pattern if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a pattern is not true or false; patterns join with & | ~, not and or not")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, theirs = values_of(self), values_of(other)
        return len(mine) == len(theirs) and all(map(same, mine, theirs))

    def __hash__(self) -> int:
        return hash(
            (type(self), *(v for v in values_of(self) if isinstance(v, int | tuple | Pattern)))
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(written, values_of(self)))})"


def values_of(pattern: Any) -> list[Any]:
    """What a pattern says; what it only remembers does not count, nor what was not given."""
    said = [getattr(pattern, f.name) for f in fields(pattern) if f.compare]
    while said and said[-1] is None:
        said.pop()
    return said


def inner(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns that a combination is made of."""
    flat = [each for v in values_of(pattern) for each in (v if isinstance(v, tuple) else (v,))]
    return tuple(each for each in flat if isinstance(each, Pattern))


def same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)


def written(value: Any) -> str:
    if isinstance(value, Tensor) and value.numel() > 64:
        return f"<{' x '.join(map(str, value.shape))} numbers>"
    return repr(value.tolist() if isinstance(value, Tensor) else value)


def a_pattern(value: Any, sign: str) -> Pattern:
    if isinstance(value, Pattern):
        return value
    called = f"; {value.__name__}(...) is one" if isinstance(value, type) else ""
    raise TypeError(f"{sign} joins two patterns, got {value!r}{called}")


# ---- combinations ----------------------------------------------------------------------------


class Everything(Pattern):
    """Every query sees every key."""

    def allows(self, pair: Pair) -> Verdict:
        return (pair.q.row >= 0) & (pair.k.row >= 0)

    def parts(self) -> tuple[Pattern, ...]:
        return ()


class Both(Pattern):
    """Allowed by all of them: `Causal() & Window(2)`."""

    patterns: tuple[Pattern, ...]

    def allows(self, pair: Pair) -> Verdict:
        return reduce(and_, (pattern.allows(pair) for pattern in self.patterns))

    def parts(self) -> tuple[Pattern, ...]:
        return self.patterns

    def __repr__(self) -> str:
        return " & ".join(f"({p})" if isinstance(p, Either) else repr(p) for p in self.patterns)


class Either(Pattern):
    """Allowed by any of them: `Window(2) | Prefix(4)`."""

    patterns: tuple[Pattern, ...]

    def allows(self, pair: Pair) -> Verdict:
        return reduce(or_, (pattern.allows(pair) for pattern in self.patterns))

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.patterns))


class Not(Pattern):
    """Allowed where the other forbids: `~Window(2)`."""

    pattern: Pattern

    def allows(self, pair: Pair) -> Verdict:
        return ~self.pattern.allows(pair)

    def __repr__(self) -> str:
        return (
            f"~({self.pattern})"
            if inner(self.pattern) and not isinstance(self.pattern, Not)
            else f"~{self.pattern}"
        )


def every(parts: Sequence[Pattern]) -> Pattern:
    """The shortest pattern that says the same: repeats go, one part stands for itself."""
    distinct = tuple(dict.fromkeys(parts))
    match distinct:
        case ():
            return Everything()
        case (only,):
            return only
    return Both(distinct)


def any_of(parts: Sequence[Pattern]) -> Pattern:
    distinct = tuple(dict.fromkeys(parts))
    return distinct[0] if len(distinct) == 1 else Either(distinct)


def alternatives(pattern: Pattern) -> tuple[Pattern, ...]:
    return pattern.patterns if isinstance(pattern, Either) else (pattern,)


def first_refusal(patterns: Sequence[Pattern], pairs: Pairs) -> str:
    return next(filter(None, (pattern.refuses(pairs) for pattern in patterns)), "")


# ---- fixed patterns: a layer owns them -------------------------------------------------------


class Causal(Pattern):
    """Nothing later in the sequence: what lets a model write from left to right."""

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.order <= pair.q.order

    def refuses(self, pairs: Pairs) -> str:
        if isinstance(pairs.queries, Graph) or isinstance(pairs.keys, Graph):
            return (
                "Causal() needs tokens with an order, the nodes of a "
                "graph have none; Window(hops) limits a graph"
            )
        return ""


class Window(Pattern):
    """Keys within `radius`: of time on a line, rows and columns in an image, hops in a graph.

    One number holds for every axis; a tuple names them in turn and leaves the rest free.
    """

    radius: int | tuple[int, ...]

    def __post_init__(self) -> None:
        checked("Window", "a radius", self.radius, least=0)

    def allows(self, pair: Pair) -> Verdict:
        steps = pair.apart
        radii = self.radius if isinstance(self.radius, tuple) else (self.radius,) * len(steps)
        near = (abs(step) <= radius for step, radius in zip(steps, radii, strict=False))
        return reduce(and_, near)

    def refuses(self, pairs: Pairs) -> str:
        q, k = pairs.queries, pairs.keys
        if type(q) is not type(k) or len(q.axes) != len(k.axes):
            return (
                f"{self} measures steps within one geometry, but "
                f"queries are on {q.name} and keys on {k.name}"
            )
        return few_axes(self, self.radius, pairs)


class Blocks(Pattern):
    """Tokens are cut into blocks of `query`; each sees its own, grown by `memory` all around.

    One number cuts a sequence in its order, a tuple the axes of a grid. With `Causal()` these are
    the Image Transformer's local attention: `Blocks(256, 256)` 1D, `Blocks((8, 8), (4, 4))` 2D.
    """

    query: int | tuple[int, ...]
    memory: int | tuple[int, ...]

    def __post_init__(self) -> None:
        checked("Blocks", "a query block", self.query, least=1)
        checked("Blocks", "a memory", self.memory, least=0)
        if len(as_tuple(self.query)) != len(as_tuple(self.memory)) or (
            type(self.query) is not type(self.memory)
        ):
            raise ValueError(
                "Blocks takes a query block and a memory of the same axes, "
                f"got {self.query} and {self.memory}"
            )

    def allows(self, pair: Pair) -> Verdict:
        whole = isinstance(self.query, int)
        queries = (time_of(pair.q),) if whole else pair.q.axes
        keys = (time_of(pair.k),) if whole else pair.k.axes
        sizes = as_tuple(self.query), as_tuple(self.memory)
        near = []
        for q, k, block, memory in zip(queries, keys, *sizes, strict=False):
            past_start = k - q // block * block
            near += [past_start >= -memory, past_start < block + memory]
        return reduce(and_, near)

    def refuses(self, pairs: Pairs) -> str:
        if isinstance(pairs.queries, Graph) or isinstance(pairs.keys, Graph):
            return (
                f"{self} cuts tokens that have an order, the nodes of a "
                "graph have none; Window(hops) limits a graph"
            )
        return few_axes(self, self.query, pairs)


class Prefix(Pattern):
    """The first `length` tokens are seen by all, the rest only by what follows them."""

    length: int | Tensor  # one for all, or (B,)

    def __post_init__(self) -> None:
        if isinstance(self.length, int):
            checked("Prefix", "a length", self.length, least=0)
        else:
            object.__setattr__(self, "length", whole_numbers("Prefix", self.length, dims=1))

    def allows(self, pair: Pair) -> Verdict:
        length = self.length if isinstance(self.length, int) else self.length[pair.b]
        return (time_of(pair.k) < length) | (pair.k.order <= pair.q.order)

    def refuses(self, pairs: Pairs) -> str:
        wrong = (
            "" if isinstance(self.length, int) else wrong_batch("Prefix", len(self.length), pairs)
        )
        return wrong or Causal().refuses(pairs).replace("Causal()", "Prefix(length)")


# ---- patterns of one batch -------------------------------------------------------------------


class Lengths(Pattern):
    """Keys before the end of their sequence: hides padding. [3, 1] -> 3 tokens, then 1."""

    lengths: Tensor  # (B,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", whole_numbers("Lengths", self.lengths, dims=1))

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.order < self.lengths[pair.b]

    def refuses(self, pairs: Pairs) -> str:
        return wrong_batch("Lengths", len(self.lengths), pairs)


class Segments(Pattern):
    """Documents packed into one row see only themselves; -1 is padding, seen by and seeing none.

    [[0, 0, 1, 1, 1, -1]] holds documents of 2 and 3 tokens. `keys` are the documents of the keys
    where those are other tokens: a packed target looking at its packed sources. `Segments.of` also
    remembers how long documents are, so that a kernel need not ask the GPU.
    """

    ids: Tensor  # (B, Q)
    keys: Tensor | None = None  # (B, K)
    lengths: Documents | None = field(default=None, compare=False)
    key_lengths: Documents | None = field(default=None, compare=False)
    PADDING: ClassVar[int] = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", whole_numbers("Segments", self.ids, dims=2))
        if self.keys is not None:
            object.__setattr__(self, "keys", whole_numbers("Segments", self.keys, dims=2))

    @staticmethod
    def of(lengths: Sequence[Sequence[int]], width: int) -> Segments:
        """[[2, 3]], 6 -> Segments([[0, 0, 1, 1, 1, -1]])"""
        _, ids = end_to_end(lengths, width)
        return Segments(ids, lengths=tuple(map(tuple, lengths)))

    def towards(self, memory: Segments) -> Segments:
        """These documents looking at the same documents of another tensor."""
        return Segments(self.ids, memory.ids, self.lengths, memory.lengths)

    def select(self, rows: Tensor) -> Segments:
        chosen = super().select(rows)
        picked = (
            None if known is None else tuple(known[row] for row in rows.tolist())
            for known in (self.lengths, self.key_lengths)
        )
        return Segments(chosen.ids, chosen.keys, *picked)

    def allows(self, pair: Pair) -> Verdict:
        q = pair.q.pick(self.ids)
        k = pair.k.pick(self.ids if self.keys is None else self.keys)
        return (q == k) & (q >= 0)

    def refuses(self, pairs: Pairs) -> str:
        keys = self.ids if self.keys is None else self.keys
        have, want = (
            (self.ids.shape[1], keys.shape[1]),
            (len(pairs.queries), len(pairs.keys)),
        )
        if have != want:
            return (
                f"Segments names {have[0]} queries and {have[1]} keys, "
                f"but {want[0]} and {want[1]} arrived"
            )
        return wrong_batch("Segments", len(self.ids), pairs)


Documents: TypeAlias = tuple[tuple[int, ...], ...]  # the lengths of each row's documents


# ---- what refusals share ---------------------------------------------------------------------


def as_tuple(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def checked(name: str, what: str, value: object, *, least: int) -> None:
    numbers = value if isinstance(value, tuple) and value else (value,)
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    if not whole or not all(least <= n < 2**31 for n in numbers):
        raise ValueError(
            f"{name} takes {what} of whole numbers from {least} to {2**31 - 1}, got {value!r}"
        )


def whole_numbers(name: str, value: Any, *, dims: int) -> Tensor:
    kind = "one a sequence, as in [3, 5]" if dims == 1 else "a row a sequence, as in [[0, 0, 1]]"
    try:
        tensor = value if isinstance(value, Tensor) else torch.tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"{name} takes whole numbers, {kind}, got {value!r}") from None
    if tensor.dim() != dims or tensor.is_floating_point() or tensor.dtype == torch.bool:
        shape = " x ".join(map(str, tensor.shape)) or "one"
        raise ValueError(f"{name} takes whole numbers, {kind}, got {shape} of {tensor.dtype}")
    return tensor


def wrong_batch(name: str, count: int, pairs: Pairs) -> str:
    if count == pairs.batch:
        return ""
    return f"{name} describes {count} sequences, but a batch of {pairs.batch} arrived"


def few_axes(pattern: Pattern, sizes: int | tuple[int, ...], pairs: Pairs) -> str:
    for at in (pairs.queries, pairs.keys):
        if not isinstance(sizes, int) and len(sizes) > len(at.axes):
            return (
                f"{pattern} names {len(sizes)} axes, but {at.name} has {len(at.axes)}; "
                f"one number would do, or a grid of {len(sizes)} axes"
            )
    return ""


# ---- evaluating a pattern -----------------------------------------------------------------------


def check(pattern: Pattern, pairs: Pairs) -> None:
    """Raise the sentence that says why places or pattern do not fit."""
    batch = pairs.batch
    if reason := pairs.queries.misfit(batch) or pairs.keys.misfit(batch) or pattern.refuses(pairs):
        raise ValueError(reason)


def evaluated(pattern: Pattern, pair: Pair) -> Tensor:
    """Yes or no for all the pairs that this one broadcasts over."""
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
    return allowed


def simplified(pattern: Pattern, pairs: Pairs) -> Pattern:
    """Without the parts that allow every pair here, as far as that is known for free.

    One query at the end of a cache: `Causal() & Window(64)` -> `Window(64)`, or `Everything()` in
    a cache of fewer than 64.
    """

    def says_something(part: Pattern) -> bool:
        if not part.fixed:
            return True
        try:
            return not part.allows(pairs.whole()).all
        except (LookupError, TypeError, AttributeError, NotImplementedError):
            return True

    return every([part for part in pattern.parts() if says_something(part)])


# ---- looking ahead ------------------------------------------------------------------------------

NEAR = 32  # places that are looked at one by one
WIDEST = 24  # rows and columns of a grid that is looked at


def horizon(pattern: Pattern) -> int | None:
    """A key that comes later than the query is seen only below this place: 0 where none is.

    None where that does not follow from what the pattern is made of. Classes are asked for by
    themselves: one made from them may allow something else.
    """
    if type(pattern) is Causal:
        return 0
    if type(pattern) is Prefix:
        return pattern.length if isinstance(pattern.length, int) else int(pattern.length.max())
    if type(pattern) is Both:
        known = [horizon(part) for part in pattern.patterns]
        return min((place for place in known if place is not None), default=None)
    if type(pattern) is Either:
        known = [horizon(part) for part in pattern.patterns]
        return None if None in known else max(place for place in known if place is not None)
    return None


@cache
def looks_ahead(pattern: Pattern, heads: int = 1) -> str:
    """A later token that some token sees: "token 0 sees token 1"; empty where there is none.

    A pattern that is made of what never looks ahead is known not to. Any other, one's own among
    them, is tried on a line and on grids, near the numbers it is written with.
    """
    if horizon(pattern) == 0:
        return ""
    for places in trial_places(pattern):
        pairs = Pairs(1, heads, places, places)
        if pattern.refuses(pairs):
            continue
        try:
            allowed = evaluated(pattern, pairs.everywhere())
        except (ValueError, LookupError):  # a table of one's own, made for other places
            continue
        order = places.order
        ahead = (allowed & (order > order[:, None])).flatten(0, -3).any(0)
        if bool(ahead.any()):
            q, k = (int(order[i]) for i in ahead.nonzero()[0])
            return f"token {q} sees token {k}"
    return ""


def trial_places(pattern: Pattern) -> list[Grid]:
    """A line with places near the pattern's numbers, and grids of two and of three axes."""
    numbers = numbers_of(pattern)
    about = {times * n + step for n in numbers for times in (1, 2) for step in range(-2, 3)}
    order = torch.tensor(sorted({*range(NEAR), *(place for place in about if place >= 0)}))
    side = min(2 * max(numbers, default=0) + 2, WIDEST)
    along = Grid(order, (order,), (int(order[-1]) + 1,))
    return [along, grid(side, side), grid(min(side, 8), min(side, 8), 3)]


def numbers_of(value: Any) -> set[int]:
    """The whole numbers that a pattern is written with."""
    if isinstance(value, Pattern):
        return set().union(*map(numbers_of, values_of(value)))
    if isinstance(value, tuple):
        return set().union(*map(numbers_of, value))
    return {value} if isinstance(value, int) else set()


PATTERNS: dict[str, type[Pattern]] = {
    kind.__name__: kind for kind in (Everything, Causal, Window, Blocks, Prefix, Lengths, Segments)
}
