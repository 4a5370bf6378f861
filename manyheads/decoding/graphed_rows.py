"""A decoding step recorded as a CUDA graph, and its buffers.

A single sequence has several lanes, with a token in each: guesses are read in the same pass as the
token before them. Without guesses the other lanes run idle, so that a token gets bitwise equal
logits if it is read alone or with others.

R rows, S slots of the cache, M tokens of the memory, L lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from manyheads.attention.cache import KeyValue, Static, take_in_place
from manyheads.attention.kernels import KERNELS, Fastest, Kernel, Plan, Work, choose
from manyheads.attention.kernels.base import make_plan
from manyheads.attention.kernels.single import Single
from manyheads.attention.layer import Attention
from manyheads.attention.patterns import Everything, Lengths
from manyheads.attention.places import Grid, Pairs, Places, line
from manyheads.decoding.bounds import find_room
from manyheads.decoding.cuda_graph import capture, swap_kernel
from manyheads.modules.fused import fuse_sublayers
from manyheads.modules.layers import Sublayer
from manyheads.modules.stack import Block, Memory
from manyheads.modules.transformer import Decoder

SLOTS = 64  # the size of a cache is a multiple of this
MEMORY = 32  # the size of a memory is a multiple of this
LANES = 8  # tokens that a single sequence reads at once: a pass of one takes as long


class FastestStep(Fastest):
    """The fastest kernel, with `Single` among the candidates."""

    def __init__(self, rows: Tensor):
        self.single = Single(rows)

    def prepare(self, work: Work) -> Plan:
        return make_plan(choose(work, self.kernels()).kernel, work)

    def kernels(self) -> dict[str, Kernel]:
        return {**KERNELS, "single": self.single}


class StepSize(NamedTuple):
    """The sizes of the buffers of a recording."""

    rows: int
    slots: int
    memory: int

    @staticmethod
    def around(rows: int, slots: int, memory: int) -> StepSize:
        """Round up, so that sentences of different lengths share recordings."""
        return StepSize(
            1 << max(0, rows - 1).bit_length(),
            -(-slots // SLOTS) * SLOTS,
            -(-memory // MEMORY) * MEMORY,
        )


class GraphedRows:
    """A recorded step and its buffers."""

    @torch.inference_mode(False)  # they are written to again, where no such mode may be on
    def __init__(self, decoder: Decoder, size: StepSize):
        self.find_decoder, self.size = ref(decoder), size  # weak: does not keep it alive
        self.owner: Callable[[], Any] = lambda: None  # the step that uses these buffers
        weight = next(decoder.parameters())
        rows, slots, tokens = size
        blocks = cast(list[Block], decoder.stack.blocks)
        self.alone = has_room_for_lanes(decoder, size)
        lanes = LANES if self.alone else rows

        def make_buffers(parts: list[Any], count: int) -> dict[int, KeyValue]:
            made = [(lanes, part.part.key_heads, count, part.part.channels) for part in parts]
            return {i: (weight.new_zeros(x), weight.new_zeros(x)) for i, x in enumerate(made)}

        whole: Any = {"dtype": torch.long, "device": weight.device}
        self.ids, self.parents = torch.zeros(lanes, 1, **whole), torch.zeros(lanes, **whole)
        itself = torch.arange(lanes, device=weight.device)[:, None]
        # For each row and slot, the row that holds the token: reordering beams moves these numbers.
        self.lineage, self.itself = torch.zeros(lanes, slots, **whole), itself
        # Each lane has its own place, and finds the tokens of all other lanes.
        self.ahead = itself if self.alone else torch.zeros(1, **whole)
        self.place = self.ahead.clone()
        self.writers = itself.T.expand(lanes, -1).contiguous() if self.alone else itself
        self.lengths = torch.ones(lanes, **whole)
        self.cache = Static(line(slots, device=weight.device))
        self.cache.own = make_buffers([block.self_attention for block in blocks], slots)
        across = [one.cross_attention for one in blocks if one.cross_attention is not None]
        self.cache.memory = make_buffers(across, tokens)
        # The memory's keys and values are in the cache: its states are not read again.
        states = weight.new_zeros(1, 1, decoder.stack.width).expand(lanes, tokens, -1)
        at = line(tokens, device=weight.device)
        self.memory = Memory(states, at, Lengths(self.lengths)) if across else None
        self.at = Grid(self.place, (self.place,), (slots,))
        self.source = weight.new_zeros(1, tokens, decoder.stack.width)
        self.states = self.logits = weight.new_zeros(0)
        self.kernel = FastestStep(self.lineage)
        self.by_lineage = reads_by_lineage(decoder, lanes, self.at, self.cache.places, self.kernel)
        self.play = self.record(self.compute)
        self.move = self.record(self.reorder)
        if self.alone and across:
            self.remember = self.record(self.remember_source)

    @property
    def decoder(self) -> Decoder:
        return cast(Decoder, self.find_decoder())

    @property
    def bytes(self) -> int:
        held = [*self.cache.own.values(), *self.cache.memory.values()]
        return sum(x.numel() * x.element_size() for pair in held for x in pair)

    def is_free(self, step: Any) -> bool:
        """Whether no other living step uses these buffers."""
        owner = self.owner()
        return owner is None or owner is step or owner.graphed is not self

    def compute(self) -> None:
        self.states, self.logits = self.score()

    def score(self) -> tuple[Tensor, Tensor]:
        """Return states and logits; each recording has its own tensors for them."""
        self.lineage.index_copy_(1, self.place.flatten(), self.writers)
        tokens = self.ids, self.at, Everything()
        with fuse_sublayers(self.decoder, len(self.ids)):
            states = self.decoder.states(*tokens, None, self.memory, self.cache)
        return states, self.decoder.head(states)[:, -1]

    def put(self, ids: Tensor, place: int) -> None:
        """Write tokens (B, 1), or one for each lane (1, T), and their place into the buffers."""
        self.ids[: ids.numel()] = ids.view(-1, 1)
        torch.add(self.ahead, place, out=self.place)

    @cached_property
    def alike(self) -> bool:
        """Whether a token gets bitwise equal logits if it is read alone or with others; found out
        by a test, while the cache is empty."""
        if not self.alone:
            return False
        some = torch.arange(LANES, device=self.ids.device)[None]
        self.put(some, 0)
        self.play()
        among = self.logits.clone()
        for lane in range(LANES):
            self.put(some[:, lane : lane + 1], lane)
            self.play()
            if not torch.equal(self.logits[0], among[lane]):
                return False
        return True

    def reorder(self) -> None:
        if self.by_lineage:
            self.lineage.copy_(self.lineage.index_select(0, self.parents))
        else:
            self.cache.reorder(self.parents)

    @torch.no_grad()
    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        if not self.ids.is_cuda:
            return partial(self.run_plainly, run)
        with swap_kernel(self.decoder, self.kernel):
            return capture(self.ids, run)

    @cached_property
    @torch.inference_mode(False)
    def guess_on(self) -> Callable[[], None]:
        """A recording that reads a token and replaces it by the likeliest next one."""
        self.count = torch.zeros(1, dtype=torch.long, device=self.ids.device)
        self.guesses = torch.zeros(LANES, dtype=torch.long, device=self.ids.device)
        self.put(self.ids[:1], 0)  # warming up begins here
        return self.record(self.guess_next)

    def guess_next(self) -> None:
        token = self.score()[1][:1].argmax(-1)
        self.guesses.index_copy_(0, self.count % LANES, token)  # warming up may go past the end
        self.ids.copy_(token.expand_as(self.ids))
        self.count.add_(1)
        self.place.add_(1)

    def run_plainly(self, run: Callable[[], None]) -> None:
        with swap_kernel(
            self.decoder, self.kernel if self.by_lineage else self.decoder.stack.kernel
        ):
            run()

    def held(self) -> dict[int, KeyValue]:
        """Return keys and values with those of each row in its own row."""
        if not self.by_lineage:
            return self.cache.own
        index = self.lineage[:, None, :, None]

        def gathered(x: Tensor) -> Tensor:
            return x.gather(0, index.expand_as(x))

        return {i: (gathered(key), gathered(value)) for i, (key, value) in self.cache.own.items()}

    def remember_source(self) -> None:
        """Compute each layer's keys and values of the source, and copy them into every lane."""
        assert self.memory is not None
        known = remember(self.decoder, self.source, self.memory.at)
        for layer, pair in known.items():
            for kept, new in zip(self.cache.memory[layer], pair, strict=True):
                kept.copy_(new.expand_as(kept))

    def begin(self, memory: Memory | None) -> None:
        """Begin an empty sequence with this memory."""
        if memory is None:
            return
        tokens = memory.states.shape[1]
        self.source[:, :tokens] = memory.states
        self.lengths.copy_(lengths_of(memory, 1).expand_as(self.lengths))
        self.remember()

    def fill(
        self, own: Any, memory: Any, lengths: Tensor | None, rows: Tensor, length: int
    ) -> None:
        """Copy these rows of another cache into the first rows of this one; a single sequence into
        every lane."""
        rows = rows.expand(LANES) if self.alone else rows
        self.lineage.copy_(self.itself.expand_as(self.lineage))
        for mine, theirs in ((self.cache.own, own), (self.cache.memory, memory)):
            for layer, pair in theirs.items():
                for slots, held in zip(mine[layer], pair, strict=True):
                    tokens = length if mine is self.cache.own else held.shape[2]
                    tokens = min(tokens, slots.shape[2])
                    slots[: len(rows), :, :tokens] = held[:, :, :tokens].index_select(0, rows)
        if lengths is not None:
            self.lengths.fill_(1)
            self.lengths[: len(rows)] = lengths.index_select(0, rows)

    def take(self, rows: Tensor) -> None:
        """Move these rows to the front, in this order; the remaining rows are unused."""
        self.parents[: len(rows)] = rows
        if self.by_lineage:
            take_in_place(self.cache.memory, self.parents)
            self.reorder()
        else:
            self.cache.select(self.parents)
        self.lengths.copy_(self.lengths.index_select(0, self.parents))


def lengths_of(memory: Memory, rows: int) -> Tensor:
    """Return how many tokens of its memory each row sees."""
    if isinstance(memory.seen, Lengths):
        return memory.seen.lengths.long()
    return torch.full((rows,), memory.states.shape[1], device=memory.states.device)


def remember(decoder: Decoder, states: Tensor, at: Places) -> dict[int, KeyValue]:
    """Compute each layer's keys and values of a memory."""
    blocks = cast(list[Block], decoder.stack.blocks)
    layers = [cast(Attention, cast(Sublayer, one.cross_attention).part) for one in blocks]
    return {
        i: one.remember(states, Pairs(len(states), one.heads, at, at))
        for i, one in enumerate(layers)
    }


def reads_by_lineage(
    decoder: Decoder, rows: int, at: Grid, slots: Grid, kernel: FastestStep
) -> bool:
    """Whether every layer uses `Single`, which finds keys by the table of rows."""
    stack, weight = decoder.stack, next(decoder.parameters())
    layers = [block.self_attention.part for block in cast(list[Block], stack.blocks)]
    works = (
        layer.work(pattern, Pairs(rows, layer.heads, at, slots), weight)
        for layer, pattern in zip(cast(list[Attention], layers), stack.patterns, strict=True)
    )
    own = isinstance(stack.kernel, Fastest)
    return own and all(choose(work, kernel.kernels()).kernel is kernel.single for work in works)


LANED: WeakKeyDictionary[nn.Module, tuple[Any, bool]] = WeakKeyDictionary()


def has_lanes(decoder: Any) -> bool:
    """Whether a single sequence can read several tokens at once; cached per device and dtype."""
    weight = next(decoder.parameters())
    if torch.is_autocast_enabled(weight.device.type):
        return False
    device, now = weight.device, (weight.device, weight.dtype, type(decoder.stack.kernel))
    if decoder not in LANED or LANED[decoder][0] != now:
        place = torch.zeros(LANES, 1, dtype=torch.long, device=device)
        kernel = FastestStep(place.expand(-1, SLOTS))
        at, slots = Grid(place, (place,), (SLOTS,)), line(SLOTS, device=device)
        LANED[decoder] = now, reads_by_lineage(decoder, LANES, at, slots, kernel)
    return LANED[decoder][1]


def has_room_for_lanes(decoder: Decoder, size: StepSize) -> bool:
    """Whether it is a single sequence with room for idle lanes after its last place."""
    return size.rows == 1 and has_lanes(decoder) and size.slots < find_room(decoder)
