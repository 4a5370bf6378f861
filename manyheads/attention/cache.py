"""Caches of keys and values, so that each step computes only those of the new tokens.

B batch, G key/value heads, K keys, C channels of one head, S slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from manyheads.attention.patterns import Everything, Lengths, Pattern
from manyheads.attention.places import Grid, Places

KeyValue = tuple[Tensor, Tensor]
LEAST_ROOM = 16  # tokens


class Cache(Protocol):
    """Call `reach` once a pass; in each layer `extend` adds new keys, `recall` returns memory's."""

    ragged: bool
    together: int  # how many first tokens see each other, as those of a prefix do

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        """Return the places of all keys once those at `at` are added, and a mask of filled ones."""

    def extend(self, layer: int, key: Tensor, value: Tensor) -> KeyValue: ...
    def recall(self, layer: int, make: Callable[[], KeyValue]) -> KeyValue: ...
    def select(self, rows: Tensor) -> None:
        """Keep these sequences of the batch, in this order, and their encoder memories."""

    def reorder(self, rows: Tensor) -> None:
        """Take own keys and values from these rows, but keep the memories: a step of a beam."""

    def crop(self, length: int) -> None:
        """Go back to the first `length` tokens, as if the others had never been read."""

    def forget(self) -> None:
        """Empty the cache, for a new batch with another memory."""


@dataclass(frozen=True)
class Slot:
    """One layer's part of a cache."""

    cache: Cache
    layer: int

    def extend(self, key: Tensor, value: Tensor) -> KeyValue:
        return self.cache.extend(self.layer, key, value)

    def recall(self, make: Callable[[], KeyValue]) -> KeyValue:
        return self.cache.recall(self.layer, make)


class TokenBuffer:
    """The keys or values so far, with spare room: `add` copies only the new ones.

    With gradients everything is copied, since autograd needs the old tensors unchanged.
    """

    def __init__(self, first: Tensor):
        self.tokens, self.room = 0, first[:, :, :0]  # (B, G, S, C), `tokens` slots are filled
        self.spare = self.room  # the other half of a swap

    def add(self, new: Tensor) -> Tensor:
        """Append these and return all of them."""
        if new.requires_grad or self.room.requires_grad:
            self.room = torch.cat([self.held(), new], 2)
            self.tokens = self.room.shape[2]
            return self.room
        first, self.tokens = self.tokens, self.tokens + new.shape[2]
        if self.tokens > self.room.shape[2]:
            before, slots = self.room.narrow(2, 0, first), max(2 * self.tokens, LEAST_ROOM)
            self.room = new.new_empty(*new.shape[:2], slots, new.shape[3])
            self.room.narrow(2, 0, first).copy_(before)
        self.room.narrow(2, first, new.shape[2]).copy_(new)
        return self.held()

    def take(self, rows: Tensor) -> None:
        """Keep these sequences of the batch, in this order."""
        if self.room.requires_grad:
            self.room = self.held().index_select(0, rows)
            return
        shape = (len(rows), *self.room.shape[1:])
        if self.spare.shape != shape:
            self.spare = self.room.new_empty(shape)
        # Not held[rows], which gives the same but takes four times as long on a CPU.
        torch.index_select(self.held(), 0, rows, out=self.spare[:, :, : self.tokens])
        self.room, self.spare = self.spare, self.room

    def crop(self, tokens: int) -> None:
        self.tokens = tokens
        if self.room.requires_grad:
            self.room = self.held()

    def held(self) -> Tensor:
        return self.room.narrow(2, 0, self.tokens)


class Growing:
    """A cache that grows with every step, for sequences that all are at the same place."""

    ragged = False  # all sequences must have the same next place

    def __init__(self) -> None:
        self.own: dict[int, tuple[TokenBuffer, TokenBuffer]] = {}
        self.memory: dict[int, KeyValue] = {}
        self.places: Grid | None = None
        self.coming: Grid | None = None  # the places once the tokens given to `reach` are added
        self.together = 0

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        at = in_order(at)
        for key, _ in self.own.values():
            same_batch(key.room, batch)
        # `places` change only once the tokens come: the pass may still be refused.
        self.coming = at
        if self.places is not None:
            last = (self.places.first or 0) + len(self.places)
            if at.first != last:
                came = "places of their own" if at.first is None else f"number {at.first}"
                raise ValueError(
                    f"a Growing cache goes on with token {last}, {came} came; "
                    "a Static cache takes tokens at any place"
                )
            self.coming = self.places.then(at)
        return self.coming, Everything()

    def extend(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        self.places = self.coming
        if layer not in self.own:
            self.own[layer] = TokenBuffer(key), TokenBuffer(value)
        keys, values = self.own[layer]
        return keys.add(key), values.add(value)

    def recall(self, layer: int, make: Callable[[], KeyValue]) -> KeyValue:
        if layer not in self.memory:
            key, value = make()
            self.memory[layer] = key.contiguous(), value.contiguous()  # read at every step
        return self.memory[layer]

    def select(self, rows: Tensor) -> None:
        self.reorder(rows)
        for layer, (key, value) in self.memory.items():
            self.memory[layer] = key.index_select(0, rows), value.index_select(0, rows)

    def reorder(self, rows: Tensor) -> None:
        for buffer in (buffer for both in self.own.values() for buffer in both):
            buffer.take(rows)
        if self.places is not None:  # with places per sequence, such as pitches
            self.places = self.places.select(rows)

    def crop(self, length: int) -> None:
        check_crop(length, 0 if self.places is None else len(self.places), self.together)
        for buffer in (buffer for both in self.own.values() for buffer in both):
            buffer.crop(length)
        if self.places is not None:
            self.places = first_of(self.places, length) if length else None

    def forget(self) -> None:
        self.own, self.memory, self.places, self.together = {}, {}, None, 0


class Static:
    """A fixed number of slots, one for each place: shapes never change, so a step compiles once.

    The first pass allocates its tensors; all later ones, also after `forget`, write in place.
    Sequences may differ in length: each continues at its own place, `line(1, start=lengths)`.
    """

    ragged = True

    def __init__(self, places: Grid):
        self.places = places
        self.own: dict[int, KeyValue] = {}
        self.memory: dict[int, KeyValue] = {}
        self.forgotten: set[int] = set()
        self.rows = places.order
        self.together = 0

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        at = in_order(at)
        for key, _ in self.own.values():
            same_batch(key, batch)
        if at.first is None:  # known only on the GPU: the caller makes sure that they fit the slots
            filled = at.order.amax(-1).expand(batch) + 1
        else:
            last, slots = at.first + len(at), (self.places.first or 0) + len(self.places)
            if last > slots:
                raise ValueError(
                    f"the cache ends after token {slots}, a sequence of {last} arrived; "
                    f"make it with places for {last}, or use a Growing cache"
                )
            filled = torch.full((batch,), last, device=at.device)
        self.rows = at.order - (self.places.first or 0)
        return self.places, Lengths(filled)

    def extend(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        if layer not in self.own:
            shape = (*key.shape[:2], len(self.places), key.shape[3])
            self.own[layer] = key.new_zeros(shape), value.new_zeros(shape)
        for slots, new in zip(self.own[layer], (key, value), strict=True):
            if self.rows.dim() == 1:
                slots.index_copy_(2, self.rows, new)
            else:  # the sequences of the batch are at different places
                slots.scatter_(2, self.rows[:, None, :, None].expand_as(new), new)
        return self.own[layer]

    def recall(self, layer: int, make: Callable[[], KeyValue]) -> KeyValue:
        if layer not in self.memory:
            self.memory[layer] = make()
        elif layer in self.forgotten:
            for kept, new in zip(self.memory[layer], make(), strict=True):
                if kept.shape != new.shape:
                    raise ValueError(
                        f"the cache holds a memory of {kept.shape[2]} tokens for {len(kept)} "
                        f"sequences, {new.shape[2]} for {len(new)} came; make another cache"
                    )
                kept.copy_(new)
            self.forgotten.discard(layer)
        return self.memory[layer]

    def select(self, rows: Tensor) -> None:
        for kept in (self.own, self.memory):
            take_in_place(kept, rows)

    def reorder(self, rows: Tensor) -> None:
        take_in_place(self.own, rows)

    def put(self, row: int, alone: Growing, batch: int, memory_tokens: int) -> None:
        """Replace this row by the one sequence of a Growing cache; other rows do not change."""
        own = {i: (key.held(), value.held()) for i, (key, value) in alone.own.items()}
        put_row(self.own, row, own, batch, len(self.places))
        put_row(self.memory, row, alone.memory, batch, memory_tokens)
        self.together = max(self.together, alone.together)

    def crop(self, length: int) -> None:
        """Only check: the next tokens bring their place, and a later slot is hidden from them."""
        check_crop(length, len(self.places), self.together)

    def forget(self) -> None:
        self.forgotten, self.together = set(self.memory), 0


class Unwritten(Static):
    """Slots into which a kernel writes the new keys and values, while it reads the others."""

    def __init__(self, places: Grid):
        super().__init__(places)
        self.new: KeyValue | None = None

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        self.new = None  # of a step that was interrupted
        return super().reach(at, batch)

    def extend(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        if self.new is not None:
            raise RuntimeError("no kernel has written the keys and values of the layer before")
        self.new = key, value
        return self.own[layer]

    def take(self) -> KeyValue:
        """Return the new keys and values, which the caller has to write."""
        if self.new is None:
            raise RuntimeError("there are no new keys and values to write")
        taken, self.new = self.new, None
        return taken


class Ring(Static):
    """A ring buffer with a slot for each token that can still be seen: new ones replace the oldest.

    For causal patterns that look back fewer tokens than it has slots; tokens come one at a time.
    """

    ragged = False

    def __init__(self, places: Grid, slots: int):
        super().__init__(places[:slots])
        self.line, self.slot = places, torch.arange(slots, device=places.device)

    def reach(self, at: Places, batch: int) -> tuple[Places, Pattern]:
        at = in_order(at)
        for key, _ in self.own.values():
            same_batch(key, batch)
        if len(at) != 1:
            raise ValueError(f"a Ring takes tokens one at a time, {len(at)} came")
        slots, line = len(self.slot), self.line
        self.rows = at.order % slots
        held = (
            at.order - (at.order - self.slot) % slots
        )  # the last token in each slot; below 0: none
        # An empty slot counts as later than all tokens, where a causal pattern does not look.
        order, there = held.masked_fill(held < 0, len(line)), held.clamp(min=0)
        axes = tuple(order if axis is line.order else axis[there] for axis in line.axes)
        return Grid(order, axes, line.sizes), Everything()

    def crop(self, length: int) -> None:
        raise ValueError("a Ring does not go back: what was read first is no longer there")


def take_in_place(kept: dict[int, KeyValue], rows: Tensor) -> None:
    """Reorder the rows in place, since a captured CUDA graph keeps reading the same memory."""
    for key, value in kept.values():
        if len(rows) != len(key):
            raise ValueError(
                f"a Static cache keeps {len(key)} sequences, {len(rows)} were selected"
            )
        key.copy_(key.index_select(0, rows))
        value.copy_(value.index_select(0, rows))


def put_row(
    kept: dict[int, KeyValue], row: int, new: dict[int, KeyValue], batch: int, tokens: int
) -> None:
    """Copy one sequence's keys and values into a row of a batch with `tokens` slots."""
    for layer, pair in new.items():
        if layer not in kept:
            key, value = (x.new_zeros(batch, x.shape[1], tokens, x.shape[3]) for x in pair)
            kept[layer] = key, value
        for slots, x in zip(kept[layer], pair, strict=True):
            slots[row].zero_()  # the old numbers are masked, but a NaN would come through the mask
            slots[row, :, : x.shape[2]] = x[0]


def check_crop(length: int, held: int, together: int = 0) -> None:
    if not 0 <= length <= held:
        raise ValueError(f"a cache of {held} tokens goes back to 0 to {held} of them, not {length}")
    if 0 < length < together:
        raise ValueError(
            f"the first {together} tokens see each other: a cache goes back to {together} of them "
            f"or more, or to none, not to {length}"
        )


def first_of(places: Grid, length: int) -> Grid:
    """Return the first `length` places; the size of a line shrinks with them."""
    some = places[:length]
    if some.first is None:
        return some
    ends = zip(some.axes, some.sizes, strict=True)
    end = some.first + length
    return replace(some, sizes=tuple(end if axis is some.order else size for axis, size in ends))


def same_batch(kept: Tensor, batch: int) -> None:
    if len(kept) != batch:
        raise ValueError(f"the cache holds {len(kept)} sequences, {batch} came; make another cache")


def in_order(at: Places) -> Grid:
    if not isinstance(at, Grid):
        raise ValueError(f"a cache holds tokens that come one after another, but {at.name} arrived")
    return at
