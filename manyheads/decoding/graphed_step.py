"""A step of any strategy, recorded once as a CUDA graph and played back for each token.

A decoder of six layers starts hundreds of kernels for a token, each of which runs for less time
than its start takes. Recorded, the host starts them all at once; greedy, beam and sampling go on as
they are, over a step that is only faster. Elsewhere than on CUDA the same code runs as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from manyheads.attention.cache import Growing
from manyheads.attention.kernels import is_wrapper
from manyheads.attention.patterns import Everything, Lengths
from manyheads.decoding.bounds import find_room
from manyheads.decoding.graphed_rows import (
    LANES,
    GraphedRows,
    StepSize,
    has_room_for_lanes,
    lengths_of,
    remember,
)
from manyheads.decoding.step import CachedStep
from manyheads.devices import send
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Decoder

SHARE = 8  # of the device's memory, one part is for what recordings keep


class GraphedStep(CachedStep):
    """A step that is recorded; what a start has before its last token is read at once."""

    def __init__(self, decoder: Decoder, memory: Memory | None, longest: int, drafted: int = 0):
        """Where `longest` are the tokens that it will read, those of the start among them; after
        a start of `drafted` tokens several come at once."""
        super().__init__(decoder, memory)
        self.longest, self.drafted, self.rows = longest, drafted, 0
        self.graphed: GraphedRows | None = None

    @torch.no_grad()
    def read(self, ids: Tensor) -> Tensor:
        if self.graphed is None and ids.shape[1] != 1 and self.drafted != 1:
            logits = super().read(ids)
            self.rows = len(ids)
            return logits
        if self.length + ids.shape[1] > self.longest or (ids.shape[1] != 1 and not self.drafted):
            raise ValueError(
                f"a recorded step reads one token at a time, up to {self.longest}; "
                f"{ids.shape[1]} came after {self.length}"
            )
        graphed = self.graphed or self.begin(len(ids))
        if ids.shape[1] > (LANES if graphed.alone else 1):
            parts = ids.split(LANES if graphed.alone else 1, 1)
            return torch.cat([self.read(part).clone() for part in parts], 1)
        graphed.put(ids, self.length)
        graphed.play()
        self.length += ids.shape[1]
        call_hooks(graphed, ids.shape[1])
        return graphed.logits[: ids.numel()].view(*ids.shape, -1)

    @property
    def alike(self) -> bool:
        """Whether a token is scored to the bit alike, by itself and among others."""
        return self.graphed is not None and self.graphed.alike

    def guess(self, new: Sequence[int], most: int) -> Tensor:
        """What it finds likeliest after these tokens, one after another (most,): on the device, so
        that nobody waits for it."""
        graphed = self.graphed or self.begin(1, guesses=True)
        start = send(torch.tensor([new]), graphed.ids.device)
        if len(new) > 1:
            self.read(start[:, :-1])
        graphed.put(start[:, -1:], self.length)
        graphed.count.zero_()
        for _ in range(most):
            graphed.guess_on()
        self.length += most
        return graphed.guesses[:most].clone()

    def begin(self, rows: int, guesses: bool = False) -> GraphedRows:
        """From the cache that grew, if anything was read, into one that a recording reads."""
        self.rows, grown = rows, cast(Growing, self.cache)
        own = {i: (key.held(), value.held()) for i, (key, value) in grown.own.items()}
        memory = self.memory
        graphed = self.find(rows, 0 if memory is None else memory.states.shape[1])
        if self.drafted or guesses:  # before there is something in the cache
            _ = graphed.guess_on if guesses else graphed.alike
        self.graphed = graphed
        if graphed.alone and not self.length:
            graphed.begin(memory)
            return graphed
        every = torch.arange(rows, device=graphed.ids.device)
        known, lengths = grown.memory, None
        if memory is not None:
            known = known or remember(graphed.decoder, *memory[:2])
            lengths = lengths_of(memory, rows)
        graphed.fill(own, known, lengths, every, self.length)
        return graphed

    def find(self, rows: int, tokens: int) -> GraphedRows:
        """One that no other step writes into: a model may guess for itself."""
        size = self.find_size(rows, tokens)
        found = find_recording(cast(Decoder, self.decoder), size, self)
        found.owner = ref(self)
        return found

    def find_size(self, rows: int, tokens: int) -> StepSize:
        spare = LANES - 1 if rows == 1 else 0  # where lanes that run idle write
        size = StepSize.around(rows, self.longest + spare, tokens)
        slots = min(size.slots, find_room(cast(Decoder, self.decoder)))  # learned places end
        return size._replace(slots=slots)

    @property
    def takes_guesses(self) -> bool:
        """Whether several tokens of one sequence are read at once, and not one after another."""
        return has_room_for_lanes(cast(Decoder, self.decoder), self.find_size(1, 0))

    def select(self, rows: Tensor) -> None:
        self.rows, graphed = len(rows), self.graphed
        if graphed is None:
            super().select(rows)
            return
        smaller = self.find(self.rows, graphed.size.memory)
        if smaller is graphed:
            graphed.take(rows)
        else:
            own, memory, lengths = graphed.held(), graphed.cache.memory, graphed.lengths
            smaller.fill(own, memory, lengths, rows, self.length)
            self.graphed = smaller

    def reorder(self, rows: Tensor) -> None:
        if self.graphed is None:
            super().reorder(rows)
            return
        self.graphed.parents[: len(rows)] = rows
        self.graphed.move()

    def crop(self, length: int) -> None:
        """What comes next says its place, and sees nothing behind it."""
        if self.graphed is None:
            super().crop(length)
        else:
            self.length = length


def call_hooks(graphed: GraphedRows, tokens: int) -> None:
    """Those of the head, with its states of these lanes (1, T, D): what is played calls none."""
    head = graphed.decoder.head
    for hook in head._forward_pre_hooks.values():
        hook(head, (graphed.states[:tokens].transpose(0, 1),))


# ---- recordings are kept with the decoder that they are of ---------------------------------------


class Recordings:
    """Those of a decoder, and where its weights lay when they were made."""

    def __init__(self, places: tuple[int, ...]):
        self.places = places
        self.held: list[GraphedRows] = []  # the last one used at the end

    def find(self, decoder: Decoder, size: StepSize, step: Any) -> GraphedRows:
        free = (one for one in self.held if one.size == size and one.is_free(step))
        found = next(free, None)
        if found is not None:
            self.held.remove(found)
        else:
            found = GraphedRows(decoder, size)
            while self.held and found.bytes + sum(x.bytes for x in self.held) > most_bytes():
                del self.held[0]
        self.held.append(found)
        return found


KEPT: WeakKeyDictionary[nn.Module, Recordings] = WeakKeyDictionary()


def find_recording(decoder: Decoder, size: StepSize, step: Any = None) -> GraphedRows:
    """One of this size that is free for this step; made anew when the weights are elsewhere, as
    after `.to()`."""
    places = list_weights(decoder)
    if decoder not in KEPT or KEPT[decoder].places != places:
        KEPT[decoder] = Recordings(places)
    return KEPT[decoder].find(decoder, size, step)


def list_weights(network: nn.Module) -> tuple[int, ...]:
    """Where its weights lie."""
    return tuple(weight.data_ptr() for weight in network.parameters())


def most_bytes() -> int:
    """What the buffers of recordings may take: a part of the device's memory."""
    cuda = torch.cuda.is_available()
    total = torch.cuda.get_device_properties("cuda").total_memory if cuda else 2**33
    return int(total) // SHARE


def can_be_graphed(decoder: Any, memory: Memory) -> bool:
    """A causal decoder of attention, over a memory that is seen whole or to a length."""
    plain = memory.seen == Everything() or isinstance(memory.seen, Lengths)
    causal = isinstance(decoder, Decoder) and decoder.causal
    return causal and plain and not is_wrapper(decoder.stack.kernel)
