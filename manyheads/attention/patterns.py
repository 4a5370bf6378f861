"""Patterns: which query may attend to which key.

A pattern is a value: it prints as it is written, can be compared and saved, and joins with `&`,
`|`, `~`. Its one predicate, `allows`, is evaluated per pair (tensors) or per block (intervals).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import and_, or_
from typing import Any, ClassVar, Self, TypeAlias, dataclass_transform

import torch
from torch import Tensor

from manyheads.attention.intervals import Verdict
from manyheads.attention.places import Graph, Pair, Pairs, end_to_end, time_of
from manyheads.devices import send


@dataclass_transform(frozen_default=True, eq_default=False)
class Pattern:
    """The base class. Write the fields and `allows`; printing, comparing, saving come with it.

    class Strided(Pattern):
        step: int

        def allows(self, pair):
            return (pair.q.order - pair.k.order) % self.step == 0
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def allows(self, pair: Pair) -> Verdict:
        """Return True or False for a pair, or for each pair that its tensors broadcast over."""
        raise NotImplementedError

    def refuses(self, pairs: Pairs) -> str:
        """Say why this pattern has no meaning on these places; empty if it has one."""
        inner = inner_values(self, Pattern)
        return next(filter(None, (pattern.refuses(pairs) for pattern in inner)), "")

    @property
    def fixed(self) -> bool:
        """Whether it is the same for every batch, so that a layer or a recipe may hold it."""
        fixed = all(pattern.fixed for pattern in inner_values(self, Pattern))
        return fixed and not inner_values(self, Tensor)

    def to(self, device: torch.device | str) -> Self:
        """Return the same pattern with its tensors on that device."""
        return self.replace_parts(
            lambda part: send(part, device) if isinstance(part, Tensor) else part.to(device)
        )

    def select(self, rows: Tensor) -> Self:
        """Return the pattern of these sequences of the batch; its tensors have the batch first."""
        return self.replace_parts(lambda p: p[rows] if isinstance(p, Tensor) else p.select(rows))

    def replace_parts(self, change: Callable[[Any], Any]) -> Self:
        """Return the same pattern with `change` applied to each tensor and pattern in it."""

        def replaced(value: Any) -> Any:
            if isinstance(value, tuple | list):
                return (list if isinstance(value, list) else tuple)(map(replaced, value))
            return change(value) if isinstance(value, Tensor | Pattern) else value

        mine: Any = self
        values = {f.name: replaced(getattr(self, f.name)) for f in fields(mine)}
        return mine if self.fixed else replace(mine, **values)

    def parts(self) -> tuple[Pattern, ...]:
        """The patterns joined by `&`: `(Causal() & Window(2)).parts()` -> (Causal(), Window(2))."""
        return (self,)

    def __and__(self, other: Pattern) -> Pattern:
        return all_of((*self.parts(), *as_pattern(other, "&").parts()))

    def __or__(self, other: Pattern) -> Pattern:
        several = (*alternatives(self), *alternatives(as_pattern(other, "|")))
        distinct = tuple(dict.fromkeys(several))
        return distinct[0] if len(distinct) == 1 else Either(distinct)

    def __invert__(self) -> Pattern:
        return self.pattern if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a pattern is not true or false; patterns join with & | ~, not and or not")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, theirs = values_of(self), values_of(other)
        return len(mine) == len(theirs) and all(map(equal, mine, theirs))

    def __hash__(self) -> int:
        return hash((type(self), hashable(values_of(self))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(show_value, values_of(self)))})"


def values_of(pattern: Any) -> list[Any]:
    """Return the fields that define a pattern, without `compare=False` ones and a final None."""
    said = [getattr(pattern, f.name) for f in fields(pattern) if f.compare]
    while said and said[-1] is None:
        said.pop()
    return said


def inner_values(pattern: Pattern, kind: type) -> list[Any]:
    """Return what a pattern holds of this kind, also in a tuple or a list."""
    held = (v if isinstance(v, tuple | list) else (v,) for v in values_of(pattern))
    return [each for several in held for each in several if isinstance(each, kind)]


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple | list) and type(a) is type(b) and len(a) == len(b):
        return all(map(equal, a, b))
    return torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)


def hashable(value: Any) -> Hashable:
    """Return the numbers, texts and patterns in a value: a list may change, and the contents of a
    tensor may be on a GPU."""
    if isinstance(value, tuple | list):
        return tuple(map(hashable, value))
    return value if isinstance(value, int | float | str | Pattern) else None


def show_value(value: Any) -> str:
    if isinstance(value, Tensor) and value.numel() > 64:
        return f"<{' x '.join(map(str, value.shape))} numbers>"
    return repr(value.tolist() if isinstance(value, Tensor) else value)


def as_pattern(value: Any, sign: str) -> Pattern:
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
    """A pair is allowed if all patterns allow it: `Causal() & Window(2)`."""

    patterns: tuple[Pattern, ...]

    def allows(self, pair: Pair) -> Verdict:
        return reduce(and_, (pattern.allows(pair) for pattern in self.patterns))

    def parts(self) -> tuple[Pattern, ...]:
        return self.patterns

    def __repr__(self) -> str:
        return " & ".join(f"({p})" if isinstance(p, Either) else repr(p) for p in self.patterns)


class Either(Pattern):
    """A pair is allowed if any pattern allows it: `Window(2) | Prefix(4)`."""

    patterns: tuple[Pattern, ...]

    def allows(self, pair: Pair) -> Verdict:
        return reduce(or_, (pattern.allows(pair) for pattern in self.patterns))

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.patterns))


class Not(Pattern):
    """A pair is allowed if the pattern forbids it: `~Window(2)`."""

    pattern: Pattern

    def allows(self, pair: Pair) -> Verdict:
        return ~self.pattern.allows(pair)

    def __repr__(self) -> str:
        joined = inner_values(self.pattern, Pattern) and not isinstance(self.pattern, Not)
        return f"~({self.pattern})" if joined else f"~{self.pattern}"


def all_of(parts: Sequence[Pattern]) -> Pattern:
    """Join patterns with `&`, without repeats; a single one is returned as it is."""
    distinct = tuple(dict.fromkeys(parts))
    if not distinct:
        return Everything()
    return distinct[0] if len(distinct) == 1 else Both(distinct)


def alternatives(pattern: Pattern) -> tuple[Pattern, ...]:
    return pattern.patterns if isinstance(pattern, Either) else (pattern,)


# ---- fixed patterns, which a layer may hold --------------------------------------------------


class Causal(Pattern):
    """A query sees no later key, so that a model can generate from left to right."""

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.order <= pair.q.order

    def refuses(self, pairs: Pairs) -> str:
        return refuse_graph(pairs, "Causal() needs tokens with an order")


class Window(Pattern):
    """Keys within `radius`: steps on a line, rows and columns in an image, hops in a graph.

    One number holds for every axis; a tuple has one for each of the first axes and leaves the
    others unlimited.
    """

    radius: int | tuple[int, ...]

    def __post_init__(self) -> None:
        check_numbers("Window", "a radius", self.radius, least=0)

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
        return refuse_axes(self, self.radius, pairs)


class Blocks(Pattern):
    """Cut queries into blocks of size `query`; each sees its block and `memory` tokens around it.

    One number cuts a sequence in its order, a tuple cuts the axes of a grid. With `Causal()` it is
    the Image Transformer's local attention: `Blocks(256, 256)` 1D, `Blocks((8, 8), (4, 4))` 2D.
    """

    query: int | tuple[int, ...]
    memory: int | tuple[int, ...]

    def __post_init__(self) -> None:
        check_numbers("Blocks", "a query block", self.query, least=1)
        check_numbers("Blocks", "a memory", self.memory, least=0)
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
        graph = refuse_graph(pairs, f"{self} cuts tokens that have an order")
        return graph or refuse_axes(self, self.query, pairs)


class Prefix(Pattern):
    """Every query sees the first `length` keys; the later keys are seen causally."""

    length: int | Tensor  # one for the whole batch, or (B,)

    def __post_init__(self) -> None:
        if isinstance(self.length, int):
            check_numbers("Prefix", "a length", self.length, least=0)
        else:
            object.__setattr__(self, "length", as_whole_numbers("Prefix", self.length, dims=1))

    def allows(self, pair: Pair) -> Verdict:
        length = self.length if isinstance(self.length, int) else self.length[pair.b]
        return (time_of(pair.k) < length) | (pair.k.order <= pair.q.order)

    def refuses(self, pairs: Pairs) -> str:
        if isinstance(self.length, Tensor) and (
            wrong := refuse_batch("Prefix", len(self.length), pairs)
        ):
            return wrong
        return refuse_graph(pairs, "Prefix(length) needs tokens with an order")


# ---- patterns that belong to one batch -------------------------------------------------------


class Lengths(Pattern):
    """Hide padding: each sequence sees its first `lengths[b]` keys. [3, 1] -> 3 keys, 1 key."""

    lengths: Tensor  # (B,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", as_whole_numbers("Lengths", self.lengths, dims=1))

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.order < self.lengths[pair.b]

    def refuses(self, pairs: Pairs) -> str:
        return refuse_batch("Lengths", len(self.lengths), pairs)


class Segments(Pattern):
    """Documents packed into one row see only themselves; -1 is padding, which sees nothing and is
    hidden.

    [[0, 0, 1, 1, 1, -1]] holds documents of 2 and 3 tokens. `keys` are the documents of the keys if
    the keys are other tokens: packed targets that attend to their packed sources. `Segments.of`
    also keeps the lengths of the documents, so that a kernel need not read them from the GPU.
    """

    ids: Tensor  # (B, Q)
    keys: Tensor | None = None  # (B, K)
    lengths: Documents | None = field(default=None, compare=False)
    key_lengths: Documents | None = field(default=None, compare=False)
    PADDING: ClassVar[int] = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", as_whole_numbers("Segments", self.ids, dims=2))
        if self.keys is not None:
            object.__setattr__(self, "keys", as_whole_numbers("Segments", self.keys, dims=2))

    @staticmethod
    def of(lengths: Sequence[Sequence[int]], width: int) -> Segments:
        """[[2, 3]], 6 -> Segments([[0, 0, 1, 1, 1, -1]])"""
        _, ids = end_to_end(lengths, width)
        return Segments(ids, lengths=tuple(map(tuple, lengths)))

    def towards(self, memory: Segments) -> Segments:
        """Let these documents attend to the same documents of another tensor (cross-attention)."""
        return Segments(self.ids, memory.ids, self.lengths, memory.lengths)

    def select(self, rows: Tensor) -> Segments:
        chosen = super().select(rows)
        lengths, key_lengths = (
            None if known is None else tuple(known[row] for row in rows.tolist())
            for known in (self.lengths, self.key_lengths)
        )
        return replace(chosen, lengths=lengths, key_lengths=key_lengths)

    def allows(self, pair: Pair) -> Verdict:
        q = pair.q.pick(self.ids)
        k = pair.k.pick(self.ids if self.keys is None else self.keys)
        return (q == k) & (q >= 0)

    def refuses(self, pairs: Pairs) -> str:
        keys = self.ids if self.keys is None else self.keys
        have, want = (self.ids.shape[1], keys.shape[1]), pairs.shape[2:]
        if have != want:
            return (
                f"Segments names {have[0]} queries and {have[1]} keys, "
                f"but {want[0]} and {want[1]} arrived"
            )
        return refuse_batch("Segments", len(self.ids), pairs)


Documents: TypeAlias = tuple[tuple[int, ...], ...]  # the lengths of each row's documents


# ---- helpers that check arguments ------------------------------------------------------------


def as_tuple(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def check_numbers(name: str, what: str, value: object, *, least: int) -> None:
    numbers = value if isinstance(value, tuple) and value else (value,)
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    if not whole or not all(least <= n < 2**31 for n in numbers):
        raise ValueError(
            f"{name} takes {what} of whole numbers from {least} to {2**31 - 1}, got {value!r}"
        )


def as_whole_numbers(name: str, value: Any, *, dims: int) -> Tensor:
    kind = "one a sequence, as in [3, 5]" if dims == 1 else "a row a sequence, as in [[0, 0, 1]]"
    try:
        tensor = value if isinstance(value, Tensor) else torch.tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"{name} takes whole numbers, {kind}, got {value!r}") from None
    if tensor.dim() != dims or tensor.is_floating_point() or tensor.dtype == torch.bool:
        shape = " x ".join(map(str, tensor.shape)) or "one"
        raise ValueError(f"{name} takes whole numbers, {kind}, got {shape} of {tensor.dtype}")
    return tensor


def refuse_batch(name: str, count: int, pairs: Pairs) -> str:
    if count == pairs.batch:
        return ""
    return f"{name} describes {count} sequences, but a batch of {pairs.batch} arrived"


def refuse_graph(pairs: Pairs, need: str) -> str:
    if not isinstance(pairs.queries, Graph) and not isinstance(pairs.keys, Graph):
        return ""
    return f"{need}, the nodes of a graph have none; Window(hops) limits a graph"


def refuse_axes(pattern: Pattern, sizes: int | tuple[int, ...], pairs: Pairs) -> str:
    for at in (pairs.queries, pairs.keys):
        if not isinstance(sizes, int) and len(sizes) > len(at.axes):
            return (
                f"{pattern} names {len(sizes)} axes, but {at.name} has {len(at.axes)}; "
                f"one number would do, or a grid of {len(sizes)} axes"
            )
    return ""


PATTERNS: dict[str, type[Pattern]] = {
    kind.__name__: kind for kind in (Everything, Causal, Window, Blocks, Prefix, Lengths, Segments)
}


def is_builtin(pattern: Pattern) -> bool:
    """Whether it is made of the patterns of this file alone."""
    known = type(pattern) in (*PATTERNS.values(), Both, Either, Not)
    return known and all(map(is_builtin, inner_values(pattern, Pattern)))
