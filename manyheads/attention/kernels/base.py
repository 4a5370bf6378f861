"""What a kernel is asked, what it answers, and what it prepares once for many layers.

B batch, H heads, G key/value heads, Q queries, K keys, C channels of one head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from manyheads.attention.biases import Bias, Feature, Kind
from manyheads.attention.evaluate import check
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Pairs
from manyheads.attention.scores import ScaledDot, Score

Bare: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
PLAIN: frozenset[Feature] = frozenset({"gradient"})
TRITON = find_spec("triton") is not None  # asked once: a step that is compiled cannot ask


@dataclass(frozen=True, eq=False)
class Work:
    """One attention call, described before its tensors exist."""

    pattern: Pattern
    pairs: Pairs
    features: frozenset[Feature] = frozenset()
    dtype: torch.dtype = torch.float32
    channels: int = 64
    key_heads: int | None = None  # fewer than the heads where heads share their keys and values
    kinds: tuple[Kind, ...] = ()  # of the biases, for a kernel that is made for one

    def __post_init__(self) -> None:
        told = self.features.union(*(kind.features for kind in self.kinds))
        object.__setattr__(self, "features", told)

    @property
    def device(self) -> torch.device:
        return self.pairs.device

    @property
    def groups(self) -> int:
        return self.pairs.heads // (self.key_heads or self.pairs.heads)


class Scoring(NamedTuple):
    """How a key is scored by a query, what is added to that, and which share is dropped."""

    score: Score
    biases: tuple[Bias, ...]
    dropout: float


class Kernel(Protocol):
    """A way to compute attention: refuses in words, plans once a pass, runs in every layer."""

    name: str

    def refuses(self, work: Work) -> str:
        """Why this kernel does not do this work; empty where it does."""

    def cost(self, work: Work) -> float:
        """A guess at its time, where 1 is unmasked attention through SDPA on the same tensors."""

    def prepare(self, work: Work) -> Any:
        """The pattern in the form this kernel reads; or, where it leaves the work to another
        kernel, that one's plan."""

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        """(B, H, Q, C), two of (B, G, K, C) -> (B, H, Q, C); zeros where nothing is permitted."""


@dataclass(frozen=True)
class Plain:
    """A form without a mask: every pair, or, where `causal`, every key that is not later.

    That nothing is hidden is said by this value, decided at planning; no kernel concludes it from
    what a form is not.
    """

    causal: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """A pattern worked out by one kernel for one set of places, for every layer that has them."""

    work: Work
    kernel: Kernel
    form: Any
    shape: tuple[int, ...] = field(init=False)  # (B, H, Q, K)
    groups: int = field(init=False)  # heads that share one key head
    bare: Bare | None = field(init=False)  # the same with nothing asked but query, key and value
    bare_shapes: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        work, shape = self.work, self.work.pairs.shape
        key_shape = (shape[0], work.key_heads or shape[1], shape[3], work.channels)
        made: Any = getattr(self.kernel, "bare", None)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "groups", work.groups)
        plain = made is not None and work.features <= PLAIN and work.groups == 1
        object.__setattr__(self, "bare", made(self.form) if plain else None)
        object.__setattr__(self, "bare_shapes", ((*shape[:3], work.channels), key_shape))

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        score: Score = ScaledDot(),
        biases: tuple[Bias, ...] = (),
        dropout: float = 0.0,
    ) -> Tensor:
        if (
            self.bare is not None
            and type(score) is ScaledDot
            and not biases
            and not dropout
            and (query.shape, key.shape) == self.bare_shapes
            and value.shape == key.shape
        ):
            return self.bare(query, key, value)
        b, h, q, _ = query.shape
        k = key.shape[2]
        if (b, h, q, k) != self.shape or value.shape[2] != k:
            raise ValueError(self.misfit(query, key, value))
        if len(biases) != len(self.work.kinds):
            raise ValueError(
                f"the plan was told of {len(self.work.kinds)} biases and {len(biases)} came; "
                "Work(kinds=relative.kinds()) tells it"
            )
        if dropout and "dropout" not in self.work.features:
            raise ValueError(
                f"the plan was told of no dropout and {dropout} came; "
                'Work(features={"dropout"}) tells it'
            )
        return self.kernel(query, key, value, self, Scoring(score, biases, dropout))

    def misfit(self, query: Tensor, key: Tensor, value: Tensor) -> str:
        if key.shape[2] != value.shape[2]:
            return f"{key.shape[2]} keys came with {value.shape[2]} values; each key has one"
        batch, heads, queries, keys = self.shape
        return (
            f"the plan is for {queries} queries and {keys} keys of {batch} sequences and "
            f"{heads} heads; {query.shape[2]} and {key.shape[2]} of {query.shape[0]} and "
            f"{query.shape[1]} arrived"
        )


def make_plan(kernel: Kernel, work: Work) -> Plan:
    """This kernel's plan; what it refuses is an error that says why."""
    check(work.pattern, work.pairs)
    if reason := kernel.refuses(work):
        raise ValueError(f"the {kernel.name} kernel refuses {work.pattern}: {reason}")
    form = kernel.prepare(work)
    return form if isinstance(form, Plan) else Plan(work, kernel, form)


def unknown_form(kernel: Kernel, form: Any) -> TypeError:
    """What a kernel raises for a form that it did not prepare: it attends to nothing by guess."""
    return TypeError(f"the {kernel.name} kernel does not read a {type(form).__name__} as its plan")


def find_missing_feature(work: Work, able: frozenset[Feature]) -> str:
    """The first feature asked for that is not among those a kernel has."""
    return next((f"it has no {feature}" for feature in sorted(work.features - able)), "")


def lacks_triton(work: Work) -> str:
    """Why a kernel that is written in Triton does not run here; empty where it does."""
    if work.device.type != "cuda":
        return f"it runs on CUDA, not on {work.device.type}"
    return "" if TRITON else "it is written in Triton, which is not installed"


def repeat_heads(x: Tensor, groups: int) -> Tensor:
    """Keys repeated for the query heads that share them: (B, G, K, C) -> (B, H, K, C)."""
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def refuse_nonfinite(x: Tensor, what: str, pattern: Pattern | None = None) -> None:
    """Refuse NaN and infinity, naming the first place of it."""
    if math.isfinite(float(x.sum())):  # one look at each number; a sum may be too large, too
        return
    bad = ~torch.isfinite(x)
    if bool(bad.any()):
        place = tuple(torch.nonzero(bad)[0].tolist())
        where = what if pattern is None else f"{what} of {pattern}"
        raise ValueError(
            f"{where} should be finite numbers, {x[place].item()} arrived at {place}; "
            "look at the input there, or lower the learning rate if it came from training"
        )
