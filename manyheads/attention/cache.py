"""What was already read: keys and values kept, so that each step computes only what is new.

B batch, G key/value heads, K keys, C channels of one head, S slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from manyheads.attention.patterns import Everything, Lengths, Pattern
from manyheads.attention.places import Grid, Places

KeyValue = tuple[Tensor, Tensor]


class Cache(Protocol):
    """Once a pass `reach`, then in every layer `extend` (what is new) or `recall` (a memory read
    once)."""

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        """Where all keys are once those at `at` have come, and which of them hold something."""

    def extend(self, layer: int, key: Tensor, value: Tensor) -> KeyValue: ...
    def recall(self, layer: int, make: Callable[[], KeyValue]) -> KeyValue: ...
    def select(self, rows: Tensor) -> None:
        """Keep these sequences of the batch, in this order: what a beam does at every step."""


@dataclass(frozen=True)
class Slot:
    """One layer's part of a cache."""

    cache: Cache
    layer: int

    def extend(self, key: Tensor, value: Tensor) -> KeyValue:
        return self.cache.extend(self.layer, key, value)

    def recall(self, make: Callable[[], KeyValue]) -> KeyValue:
        return self.cache.recall(self.layer, make)


class Growing:
    """Grows with every step: for any length, at the price of a copy each time."""

    def __init__(self) -> None:
        self.own: dict[int, KeyValue] = {}
        self.memory: dict[int, KeyValue] = {}
        self.places: Grid | None = None

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        at = in_order(at)
        self.places = at if self.places is None else self.places.then(at)
        return self.places, Everything()

    def extend(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        if layer in self.own:
            key, value = (
                torch.cat(both, 2) for both in zip(self.own[layer], (key, value), strict=True)
            )
        self.own[layer] = key, value
        return key, value

    def recall(self, layer: int, make: Callable[[], KeyValue]) -> KeyValue:
        return recalled(self.memory, layer, make)

    def select(self, rows: Tensor) -> None:
        for kept in (self.own, self.memory):
            kept.update({layer: (key[rows], value[rows]) for layer, (key, value) in kept.items()})


class Static:
    """A fixed number of slots, one for each place: shapes never change, so a step compiles once."""

    def __init__(self, places: Grid):
        self.places = places
        self.own: dict[int, KeyValue] = {}
        self.memory: dict[int, KeyValue] = {}
        self.rows = places.order

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        at = in_order(at)
        if (
            at.first is None
        ):  # positions that only the GPU knows: whoever sets them keeps within the slots
            filled = at.order.amax(-1).expand(batch) + 1
        else:
            last = at.first + len(at)
            if last > len(self.places):
                raise ValueError(
                    f"the cache has {len(self.places)} slots, a sequence reaching {last} arrived; "
                    f"make it with {last} or more, or use a Growing cache"
                )
            filled = torch.full((batch,), last, device=at.device)
        self.rows = at.order
        return self.places, Lengths(filled)

    def extend(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        if layer not in self.own:
            shape = (*key.shape[:2], len(self.places), key.shape[3])
            self.own[layer] = key.new_zeros(shape), value.new_zeros(shape)
        for slots, new in zip(self.own[layer], (key, value), strict=True):
            if self.rows.dim() == 1:
                slots.index_copy_(2, self.rows, new)
            else:  # each sequence of the batch is at a step of its own
                slots.scatter_(2, self.rows[:, None, :, None].expand_as(new), new)
        return self.own[layer]

    def recall(self, layer: int, make: Callable[[], KeyValue]) -> KeyValue:
        return recalled(self.memory, layer, make)

    def select(self, rows: Tensor) -> None:
        for kept in (self.own, self.memory):
            for key, value in kept.values():
                key.copy_(key[rows])  # in place: a captured graph keeps reading the same memory
                value.copy_(value[rows])


def recalled(memory: dict[int, KeyValue], layer: int, make: Callable[[], KeyValue]) -> KeyValue:
    if layer not in memory:
        memory[layer] = make()
    return memory[layer]


def in_order(at: Places) -> Grid:
    if not isinstance(at, Grid):
        raise ValueError(f"a cache holds tokens that come one after another, but {at.name} arrived")
    return at
