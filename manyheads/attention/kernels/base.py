"""The kernel protocol: what a kernel is asked, what it returns, and what it prepares once per pass.

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
TRITON = find_spec("triton") is not None  # found out once: a compiled step cannot do so


@dataclass(frozen=True, eq=False)
class Work:
    """One attention call, described before its tensors exist."""

    pattern: Pattern
    pairs: Pairs
    features: frozenset[Feature] = frozenset()
    dtype: torch.dtype = torch.float32
    channels: int = 64
    key_heads: int | None = None  # fewer than heads if heads share keys and values
    kinds: tuple[Kind, ...] = ()  # the kinds of the biases, for a kernel made for one kind

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
    """The score between query and key, the biases added to it, and the dropout of weights."""

    score: Score
    biases: tuple[Bias, ...]
    dropout: float


class Kernel(Protocol):
    """A way to compute attention: refuses with a reason, plans once a pass, runs in each layer."""

    name: str

    def refuses(self, work: Work) -> str:
        """Say why this kernel cannot do this work; empty if it can."""

    def cost(self, work: Work) -> float:
        """Estimate the time; 1 is that of unmasked attention through SDPA on the same tensors."""

    def prepare(self, work: Work) -> Any:
        """Return the pattern in the form that this kernel reads; or the plan of another kernel, if
        this one leaves the work to it."""

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, plan: Plan, how: Scoring
    ) -> Tensor:
        """(B, H, Q, C), two of (B, G, K, C) -> (B, H, Q, C); zeros for a query that sees no key."""


@dataclass(frozen=True)
class Plain:
    """A form without a mask: every pair is allowed, or, if `causal`, every key that is not later.

    Planning decides this and says so by this value; no kernel may conclude it from a missing mask.
    """

    causal: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """A pattern prepared by one kernel for one set of places, shared by all layers with them."""

    work: Work
    kernel: Kernel
    form: Any
    shape: tuple[int, ...] = field(init=False)  # (B, H, Q, K)
    groups: int = field(init=False)  # heads that share one key head
    bare: Bare | None = field(init=False)  # a shortcut that takes only query, key and value
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
        for bias, kind in zip(biases, self.work.kinds, strict=True):
            if type(bias) is not kind.bias or bias.rule != kind.rule:
                raise ValueError(
                    f"the plan was told of a {kind.bias.__name__} by {kind.rule} and a "
                    f"{type(bias).__name__} by {bias.rule} came; kinds() of a Relative describes "
                    "what its biases() returns"
                )
        if dropout and "dropout" not in self.work.features:
            raise ValueError(
                f"the plan was told of no dropout and {dropout} came; "
                'Work(features={"dropout"}) tells it'
            )
        if not score.features <= self.work.features:
            told = ", ".join(sorted(score.features))
            raise ValueError(
                f"the plan was told of no {told} and {type(score).__name__} came; "
                "Work(features=score.features) tells it"
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
    """Return this kernel's plan; raise an error with the reason if the kernel refuses."""
    check(work.pattern, work.pairs)
    if reason := kernel.refuses(work):
        raise ValueError(f"the {kernel.name} kernel refuses {work.pattern}: {reason}")
    form = kernel.prepare(work)
    return form if isinstance(form, Plan) else Plan(work, kernel, form)


def unknown_form(kernel: Kernel, form: Any) -> TypeError:
    """Return the error for a form that this kernel did not prepare: a kernel never guesses."""
    return TypeError(f"the {kernel.name} kernel does not read a {type(form).__name__} as its plan")


def find_missing_feature(work: Work, able: frozenset[Feature]) -> str:
    """Name the first requested feature that a kernel does not have; empty if it has all."""
    return next((f"it has no {feature}" for feature in sorted(work.features - able)), "")


def lacks_triton(work: Work) -> str:
    """Say why a Triton kernel does not run here; empty if it does."""
    if work.device.type != "cuda":
        return f"it runs on CUDA, not on {work.device.type}"
    return "" if TRITON else "it is written in Triton, which is not installed"


def repeat_heads(x: Tensor, groups: int) -> Tensor:
    """Repeat keys or values for the query heads that share them: (B, G, K, C) -> (B, H, K, C)."""
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def refuse_nonfinite(x: Tensor, what: str, pattern: Pattern | None = None) -> None:
    """Raise an error that names the first place of a NaN or infinity, if there is one."""
    if math.isfinite(float(x.sum())):  # cheap; but a sum of finite numbers may overflow, too
        return
    bad = ~torch.isfinite(x)
    if bool(bad.any()):
        place = tuple(torch.nonzero(bad)[0].tolist())
        where = what if pattern is None else f"{what} of {pattern}"
        raise ValueError(
            f"{where} should be finite numbers, {x[place].item()} arrived at {place}; "
            "look at the input there, or lower the learning rate if it came from training"
        )
