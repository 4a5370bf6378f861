"""A decoding step recorded once as a CUDA graph and replayed for each token.

A decoder of six layers launches hundreds of kernels for a token, and each runs for less time than
its launch takes. A graph launches them all at once; greedy, beam and sampling use it like any other
step. Without CUDA the same code runs without recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from manyheads.attention.cache import Growing
from manyheads.attention.kernels import Fastest
from manyheads.attention.patterns import Everything, Lengths
from manyheads.decoding.bounds import find_room
from manyheads.decoding.cuda_graph import list_addresses
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

SHARE = 8  # recordings may use 1 / SHARE of the device's memory


class GraphedStep(CachedStep):
    """A recorded step; a start of several tokens is read in one pass without a recording."""

    def __init__(self, decoder: Decoder, memory: Memory | None, longest: int, drafted: int = 0):
        """`longest` is the most tokens that it will read, with those of the start. `drafted` is the
        number of start tokens in speculative decoding, where passes have several tokens."""
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
        """Whether a token gets bitwise equal logits if it is read alone or with others."""
        return self.graphed is not None and self.graphed.alike

    def guess(self, new: Sequence[int], most: int) -> Tensor:
        """Generate `most` tokens greedily after these (most,); they stay on the device, so that the
        host does not wait."""
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
        """Copy the growing cache, if anything was read, into the buffers of a recording."""
        self.rows, grown = rows, cast(Growing, self.cache)
        own = {i: (key.held(), value.held()) for i, (key, value) in grown.own.items()}
        memory = self.memory
        graphed = self.find(rows, 0 if memory is None else memory.states.shape[1])
        if self.drafted or guesses:  # made now, while the cache is empty
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
        """Find a recording that no other step uses: a model may draft for itself."""
        size = self.find_size(rows, tokens)
        found = find_recording(cast(Decoder, self.decoder), size, self)
        found.owner = ref(self)
        return found

    def find_size(self, rows: int, tokens: int) -> StepSize:
        spare = LANES - 1 if rows == 1 else 0  # slots that idle lanes write to
        size = StepSize.around(rows, self.longest + spare, tokens)
        slots = min(size.slots, find_room(cast(Decoder, self.decoder)))  # positions may end
        return size._replace(slots=slots)

    @property
    def takes_guesses(self) -> bool:
        """Whether it reads several tokens of one sequence in one pass."""
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
        """Set the length: the next tokens bring their place, and do not see later slots."""
        if self.graphed is None:
            super().crop(length)
        else:
            self.length = length


def call_hooks(graphed: GraphedRows, tokens: int) -> None:
    """Call the head's pre-hooks with its states (1, T, D), since a replayed graph calls none."""
    head = graphed.decoder.head
    for hook in head._forward_pre_hooks.values():
        hook(head, (graphed.states[:tokens].transpose(0, 1),))


# ---- recordings are kept with their decoder ------------------------------------------------------


class Recordings:
    """The recordings of a decoder, and the addresses its weights had when they were made."""

    def __init__(self, places: tuple[int, ...]):
        self.places = places
        self.held: list[GraphedRows] = []  # the most recently used last

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
    """Return a free recording of this size; new ones are made if the weights have moved, as after
    `.to()`."""
    places = (*list_addresses(decoder), int(decoder.stack.fused))
    if decoder not in KEPT or KEPT[decoder].places != places:
        KEPT[decoder] = Recordings(places)
    return KEPT[decoder].find(decoder, size, step)


def most_bytes() -> int:
    """Return how many bytes the buffers of recordings may take."""
    cuda = torch.cuda.is_available()
    total = torch.cuda.get_device_properties("cuda").total_memory if cuda else 2**33
    return int(total) // SHARE


def can_be_graphed(decoder: Any, memory: Memory) -> bool:
    """Whether this is a causal decoder with attention, whose memory has no mask but padding.

    A recording has a kernel and a precision of its own, so a kernel of the user's choice and
    autocast do without.
    """
    plain = memory.seen == Everything() or isinstance(memory.seen, Lengths)
    plain = plain and not torch.is_autocast_enabled(memory.states.device.type)
    causal = isinstance(decoder, Decoder) and decoder.causal
    return causal and plain and isinstance(decoder.stack.kernel, Fastest)
