"""Interventions: switch off a head, overwrite a row of attention, force or forbid a token.

B batch, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from manyheads.attention.kernels import Edit, Edited, Work
from manyheads.attention.places import time_of
from manyheads.inspect.record import attentions_of, owners_of_kernels, wrap_kernels

By = Literal["zero", "mean"]


@dataclass(frozen=True)
class Off:
    """Switch off a head: its weights become zero, or equal over all allowed keys (mean)."""

    layer: str  # "decoder.3.cross"
    head: int
    by: By = "zero"

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise ValueError(f"a head is switched off by zero or mean, got {self.by!r}")

    def __call__(self, weights: Tensor, allowed: Tensor, work: Work) -> Tensor:
        weights = weights.clone()
        seen = allowed[:, self.head].to(weights.dtype)
        even = seen / seen.sum(-1, keepdim=True).clamp(min=1)
        weights[:, self.head] = 0 if self.by == "zero" else even
        return weights


@dataclass(frozen=True)
class Overwritten:
    """Set the weights of a head for the query at one place: {2: 0.5, 3: 0.5}; keys that the query
    may not see stay at 0.
    """

    layer: str
    head: int
    place: int
    weights: Mapping[int, float]

    def __post_init__(self) -> None:
        check_places(self.place, *self.weights)

    def __call__(self, weights: Tensor, allowed: Tensor, work: Work) -> Tensor:
        # By place, not by row: with a cache there is one row, with a beam there are several. Pixels
        # and nodes of a graph are numbered by their order.
        sides: Any = work.pairs.queries, work.pairs.keys
        row, column = (time_of(side).expand(len(weights), -1) for side in sides)
        told = torch.zeros_like(column, dtype=weights.dtype)
        for place, weight in self.weights.items():
            told = told.masked_fill(column == place, weight)
        here = (row == self.place)[:, :, None]  # (B, Q, 1)
        weights = weights.clone()
        head = weights[:, self.head]
        weights[:, self.head] = torch.where(here, told[:, None] * allowed[:, self.head], head)
        return weights


@dataclass(frozen=True)
class Forced:
    """Force this token at one place of the output."""

    place: int
    token: int

    def __post_init__(self) -> None:
        check_places(self.place)


@dataclass(frozen=True)
class Forbidden:
    """Forbid this token at one place of the output."""

    place: int
    token: int

    def __post_init__(self) -> None:
        check_places(self.place)


def check_places(*places: int) -> None:
    """Refuse a place that no token has: it would change nothing."""
    if wrong := [place for place in places if place < 0]:
        raise ValueError(f"places are numbered from 0 on, got {wrong[0]}")


Intervention: TypeAlias = Off | Overwritten | Forced | Forbidden
KINDS: dict[str, Any] = {
    "off": Off,
    "overwritten": Overwritten,
    "forced": Forced,
    "forbidden": Forbidden,
}
NUMBERS = ("head", "place", "token")


@dataclass(frozen=True)
class EachOff:
    """In a batch of copies, switch off another head of a layer in each of these rows."""

    layer: str
    rows: Sequence[int]
    heads: Sequence[int]

    def __call__(self, weights: Tensor, allowed: Tensor, work: Work) -> Tensor:
        weights = weights.clone()
        weights[list(self.rows), list(self.heads)] = 0
        return weights


def off(network: nn.Module, layer: str, head: int, by: By = "zero") -> AbstractContextManager[None]:
    """Switch off a head: with off(network, "decoder.3.cross", head=2): network(source, target)"""
    return intervening(network, [Off(layer, head, by)])


def overwritten(
    network: nn.Module, layer: str, head: int, place: int, weights: Mapping[int, float]
) -> AbstractContextManager[None]:
    """Set a row: with overwritten(network, "decoder.3.cross", 2, place=4, weights={1: 1.0}): ..."""
    return intervening(network, [Overwritten(layer, head, place, weights)])


@contextmanager
def intervening(network: nn.Module, edits: Sequence[Intervention | EachOff]) -> Iterator[None]:
    """In this context layers apply these edits; forced and forbidden tokens are for decoding."""
    names, by_layer = name_layers(network), dict[str, list[Edit]]()
    for edit in edits:
        if isinstance(edit, Off | Overwritten):
            check_head(names, edit.layer, edit.head)
        if not isinstance(edit, Forced | Forbidden):
            by_layer.setdefault(names[edit.layer][0], []).append(edit)
    with wrap_kernels(network, lambda kernel: Edited(kernel, by_layer)):
        yield


def name_layers(network: nn.Module) -> dict[str, tuple[str, int]]:
    """Return {"decoder.3.cross": (full name of the layer, number of heads)}."""
    found: dict[str, tuple[str, int]] = {}
    for name, owner in owners_of_kernels(network).items():
        layers = [(layer, attention.heads) for layer, attention in attentions_of(name, owner)]
        # The attention of a recurrent network owns its kernel itself, and has one head.
        found |= {shorten(layer): (layer, heads) for layer, heads in layers or [(name, 1)]}
    return found


def shorten(layer: str) -> str:
    """ "decoder.stack.blocks.3.cross_attention" -> "decoder.3.cross" """
    return layer.replace("stack.blocks.", "").replace("_attention", "")


def check_head(names: Mapping[str, tuple[str, int]], layer: str, head: int) -> None:
    if layer not in [*names]:
        raise ValueError(f"there is no layer {layer!r}; there are {', '.join(names)}")
    if not 0 <= head < names[layer][1]:
        raise ValueError(
            f"heads of {layer} are numbered 0 to {names[layer][1] - 1}, {head} was asked for"
        )


def sort_tokens(edits: Sequence[Intervention]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Return the forced token of each place, and the forbidden tokens of each place."""
    forced = {one.place: one.token for one in edits if isinstance(one, Forced)}
    forbidden: dict[int, list[int]] = {}
    for one in edits:
        if isinstance(one, Forbidden):
            forbidden.setdefault(one.place, []).append(one.token)
    return forced, forbidden


def read_intervention(told: Any) -> Intervention:
    """{"kind": "off", "layer": "decoder.3.cross", "head": 2} -> Off("decoder.3.cross", 2)"""
    given = dict(told) if isinstance(told, Mapping) else {}
    kind = given.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"an intervention is one of {', '.join(KINDS)}, got {kind!r}")
    for name in NUMBERS:
        if name in given and (type(given[name]) is not int or given[name] < 0):
            raise ValueError(f"{name} is a whole number from 0 on, got {given[name]!r}")
    if "weights" in given:
        given["weights"] = read_weights(given["weights"])
    try:
        made: Intervention = KINDS[kind](**given)
    except TypeError:
        takes = ", ".join(field.name for field in fields(KINDS[kind]))
        raise ValueError(f"{kind} takes {takes}, got {', '.join(given) or 'none'}") from None
    return made


def read_weights(told: Any) -> dict[int, float]:
    """{"3": 1} -> {3: 1.0}"""
    try:
        weights = {int(place): float(weight) for place, weight in dict(told).items()}
    except (TypeError, ValueError):
        weights = {-1: 0.0}
    if any(place < 0 or not 0 <= weight <= 1 for place, weight in weights.items()):
        raise ValueError(f"weights are shares from 0 to 1 by their places, got {told!r}")
    return weights
