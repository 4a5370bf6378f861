"""A step of any strategy, recorded once as a CUDA graph and played back for each token.

A decoder of six layers starts hundreds of kernels for a token, each of which runs for less time
than its start takes. Recorded, the host starts them all at once; greedy, beam and sampling go on as
they are, over a step that is only faster. Elsewhere than on CUDA the same code runs as it stands.

A sequence that is written by itself has several lanes, a token in each: guesses are read beside the
token before them. Without guesses the other lanes run idle, so that a token is scored to the bit
alike, by itself or among others.

R rows there is room for, S slots of the cache, M tokens of the memory, L lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from manyheads.attention.cache import Growing, KeyValue, Static, take_in_place
from manyheads.attention.kernels import KERNELS, Fastest, Kernel, Plan, Work, choose
from manyheads.attention.kernels.base import make_plan
from manyheads.attention.kernels.single import Single
from manyheads.attention.layer import Attention
from manyheads.attention.patterns import Everything, Lengths
from manyheads.attention.places import Grid, Pairs, line
from manyheads.decoding.bounds import find_room
from manyheads.decoding.cuda_graph import WARM_UPS, swap_kernel
from manyheads.decoding.step import CachedStep
from manyheads.devices import send
from manyheads.modules.layers import Sublayer
from manyheads.modules.stack import Block, Memory
from manyheads.modules.transformer import Decoder

SLOTS = 64  # a cache has a multiple of it
MEMORY = 32  # the same of a memory
SHARE = 8  # of the device's memory, one part is for what recordings keep
LANES = 8  # tokens that one sequence by itself reads at once: a pass of one takes as long


class FastestStep(Fastest):
    """The fastest kernel, and that for one query over the filled slots of a cache among them."""

    def __init__(self, rows: Tensor):
        self.single = Single(rows)

    def prepare(self, work: Work) -> Plan:
        return make_plan(choose(work, self.kernels()).kernel, work)

    def kernels(self) -> dict[str, Kernel]:
        return {**KERNELS, "single": self.single}


class StepSize(NamedTuple):
    """What a recording has room for."""

    rows: int
    slots: int
    memory: int

    @staticmethod
    def around(rows: int, slots: int, memory: int) -> StepSize:
        """The next size of a few, so that sentences of many lengths share recordings."""
        return StepSize(
            1 << max(0, rows - 1).bit_length(),
            -(-slots // SLOTS) * SLOTS,
            -(-memory // MEMORY) * MEMORY,
        )


class GraphedRows:
    """The buffers of a recording, and the recording."""

    def __init__(self, decoder: Decoder, size: StepSize):
        self.decoder, self.size = decoder, size
        weight = next(decoder.parameters())
        rows, slots, tokens = size
        blocks = cast(list[Block], decoder.stack.blocks)
        self.alone = rows == 1 and has_lanes(decoder) and slots < find_room(decoder)
        lanes = LANES if self.alone else rows

        def make_buffers(parts: list[Any], count: int) -> dict[int, KeyValue]:
            made = [(lanes, part.part.key_heads, count, part.part.channels) for part in parts]
            return {i: (weight.new_zeros(x), weight.new_zeros(x)) for i, x in enumerate(made)}

        whole: Any = {"dtype": torch.long, "device": weight.device}
        self.ids, self.parents = torch.zeros(lanes, 1, **whole), torch.zeros(lanes, **whole)
        itself = torch.arange(lanes, device=weight.device)[:, None]
        # Where each row finds what it has written: beams that change places move these numbers.
        self.lineage, self.itself = torch.zeros(lanes, slots, **whole), itself
        # Lanes are at a place each, and every one of them finds what the others have written.
        self.ahead = itself if self.alone else torch.zeros(1, **whole)
        self.place = self.ahead.clone()
        self.writers = itself.T.expand(lanes, -1).contiguous() if self.alone else itself
        self.lengths = torch.ones(lanes, **whole)
        self.cache = Static(line(slots, device=weight.device))
        self.cache.own = make_buffers([block.self_attention for block in blocks], slots)
        self.cache.memory = make_buffers([block.cross_attention for block in blocks], tokens)
        # Its keys and values are in the cache: the states themselves are not read again.
        states = weight.new_zeros(1, 1, decoder.stack.width).expand(lanes, tokens, -1)
        self.memory = Memory(states, line(tokens, device=weight.device), Lengths(self.lengths))
        self.at = Grid(self.place, (self.place,), (slots,))
        self.states = self.logits = weight.new_zeros(0)
        self.kernel = FastestStep(self.lineage)
        self.by_lineage = reads_by_lineage(decoder, lanes, self.at, self.cache.places, self.kernel)
        self.play = self.record(self.compute)
        self.move = self.record(self.reorder)

    @property
    def bytes(self) -> int:
        held = [*self.cache.own.values(), *self.cache.memory.values()]
        return sum(x.numel() * x.element_size() for pair in held for x in pair)

    def compute(self) -> None:
        self.lineage.index_copy_(1, self.place.flatten(), self.writers)
        tokens = self.ids, self.at, Everything()
        self.states = self.decoder.states(*tokens, None, self.memory, self.cache)
        self.logits = self.decoder.head(self.states)[:, -1]

    def put(self, ids: Tensor, place: int) -> None:
        """Tokens (B, 1), or those of the lanes (1, T), from this place on."""
        self.ids[: ids.numel()] = ids.view(-1, 1)
        torch.add(self.ahead, place, out=self.place)

    @cached_property
    def alike(self) -> bool:
        """Whether a token is scored to the bit alike, by itself and among others; tried out, on a
        cache that holds nothing yet."""
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
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(WARM_UPS):
                    run()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
        return graph.replay

    @cached_property
    def guess_on(self) -> Callable[[], None]:
        """Recorded: read a token, and put the likeliest one after it in its place."""
        self.count = torch.zeros(1, dtype=torch.long, device=self.ids.device)
        self.guesses = torch.zeros(LANES, dtype=torch.long, device=self.ids.device)
        self.put(self.ids[:1], 0)  # it goes on from there while it warms up
        return self.record(self.guess_next)

    def guess_next(self) -> None:
        self.compute()
        token = self.logits[:1].argmax(-1)
        self.guesses.index_copy_(0, self.count % LANES, token)  # warming up goes past the last
        self.ids.copy_(token.expand_as(self.ids))
        self.count.add_(1)
        self.place.add_(1)

    def run_plainly(self, run: Callable[[], None]) -> None:
        with swap_kernel(
            self.decoder, self.kernel if self.by_lineage else self.decoder.stack.kernel
        ):
            run()

    def held(self) -> dict[int, KeyValue]:
        """Keys and values, each row's own in its row."""
        if not self.by_lineage:
            return self.cache.own
        index = self.lineage[:, None, :, None]

        def gathered(x: Tensor) -> Tensor:
            return x.gather(0, index.expand_as(x))

        return {i: (gathered(key), gathered(value)) for i, (key, value) in self.cache.own.items()}

    def fill(self, own: Any, memory: Any, lengths: Tensor, rows: Tensor, length: int) -> None:
        """These rows of what another cache holds, into the first rows of this one; what there is
        of one sequence into every lane."""
        rows = rows.expand(LANES) if self.alone else rows
        self.lineage.copy_(self.itself.expand_as(self.lineage))
        for mine, theirs in ((self.cache.own, own), (self.cache.memory, memory)):
            for layer, pair in theirs.items():
                for slots, held in zip(mine[layer], pair, strict=True):
                    tokens = length if mine is self.cache.own else held.shape[2]
                    tokens = min(tokens, slots.shape[2])
                    slots[: len(rows), :, :tokens] = held[:, :, :tokens].index_select(0, rows)
        self.lengths.fill_(1)
        self.lengths[: len(rows)] = lengths.index_select(0, rows)

    def take(self, rows: Tensor) -> None:
        """These rows in this order become the first; who is left over goes on unread."""
        self.parents[: len(rows)] = rows
        if self.by_lineage:
            take_in_place(self.cache.memory, self.parents)
            self.reorder()
        else:
            self.cache.select(self.parents)
        self.lengths.copy_(self.lengths.index_select(0, self.parents))


class GraphedStep(CachedStep):
    """A step that is recorded; what a start has before its last token is read at once."""

    def __init__(self, decoder: Decoder, memory: Memory, longest: int, drafted: int = 0):
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
        assert self.memory is not None
        start = send(torch.tensor([new]), self.memory.states.device)
        graphed = self.graphed or self.begin(1, guesses=True)
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
        assert self.memory is not None
        own = {i: (key.held(), value.held()) for i, (key, value) in grown.own.items()}
        lengths = lengths_of(self.memory, rows)
        graphed = self.find(rows, self.memory.states.shape[1])
        if self.drafted or guesses:  # before there is something in the cache
            _ = graphed.guess_on if guesses else graphed.alike
        every = torch.arange(rows, device=lengths.device)
        graphed.fill(own, grown.memory or self.remember(), lengths, every, self.length)
        self.graphed = graphed
        return graphed

    def remember(self) -> dict[int, KeyValue]:
        """What each layer knows of the memory."""
        assert self.memory is not None
        states, at, _ = self.memory
        blocks = cast(list[Block], cast(Decoder, self.decoder).stack.blocks)
        layers = [cast(Attention, cast(Sublayer, one.cross_attention).part) for one in blocks]
        return {
            i: one.remember(states, Pairs(len(states), one.heads, at, at))
            for i, one in enumerate(layers)
        }

    def find(self, rows: int, tokens: int) -> GraphedRows:
        decoder = cast(Decoder, self.decoder)
        spare = LANES - 1 if rows == 1 else 0  # where lanes that run idle write
        size = StepSize.around(rows, self.longest + spare, tokens)
        slots = min(size.slots, find_room(decoder))  # learned places end
        return find_recording(decoder, size._replace(slots=slots))

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


def lengths_of(memory: Memory, rows: int) -> Tensor:
    """How many tokens of its memory each row sees."""
    if isinstance(memory.seen, Lengths):
        return memory.seen.lengths.long()
    return torch.full((rows,), memory.states.shape[1], device=memory.states.device)


# ---- recordings are kept with the decoder that they are of ---------------------------------------


class Recordings:
    """Those of a decoder, and where its weights lay when they were made."""

    def __init__(self, places: tuple[int, ...]):
        self.places = places
        self.held: dict[StepSize, GraphedRows] = {}  # the last one used at the end

    def find(self, decoder: Decoder, size: StepSize) -> GraphedRows:
        found = self.held.pop(size, None)
        if found is None:
            found = GraphedRows(decoder, size)
            while (
                self.held and found.bytes + sum(x.bytes for x in self.held.values()) > most_bytes()
            ):
                self.held.pop(next(iter(self.held)))
        self.held[size] = found
        return found


KEPT: WeakKeyDictionary[nn.Module, Recordings] = WeakKeyDictionary()


def find_recording(decoder: Decoder, size: StepSize) -> GraphedRows:
    """The one for this size; made anew when the weights are elsewhere, as after `.to()`."""
    places = tuple(p.data_ptr() for p in decoder.parameters())
    if decoder not in KEPT or KEPT[decoder].places != places:
        KEPT[decoder] = Recordings(places)
    return KEPT[decoder].find(decoder, size)


def most_bytes() -> int:
    """What the buffers of recordings may take: a part of the device's memory."""
    cuda = torch.cuda.is_available()
    total = torch.cuda.get_device_properties("cuda").total_memory if cuda else 2**33
    return int(total) // SHARE


def reads_by_lineage(
    decoder: Decoder, rows: int, at: Grid, slots: Grid, kernel: FastestStep
) -> bool:
    """Whether every layer finds what it has written by its row of the table."""
    stack, weight = decoder.stack, next(decoder.parameters())
    layers = [block.self_attention.part for block in cast(list[Block], stack.blocks)]
    works = (
        layer.work(pattern, Pairs(rows, layer.heads, at, slots), weight)
        for layer, pattern in zip(cast(list[Attention], layers), stack.patterns, strict=True)
    )
    own = isinstance(stack.kernel, Fastest)
    return own and all(choose(work, kernel.kernels()).kernel is kernel.single for work in works)


LANED: WeakKeyDictionary[nn.Module, tuple[torch.device, bool]] = WeakKeyDictionary()


def has_lanes(decoder: Any) -> bool:
    """Whether a sequence by itself reads several tokens at once; asked once."""
    device = next(decoder.parameters()).device
    if decoder not in LANED or LANED[decoder][0] != device:
        place = torch.zeros(LANES, 1, dtype=torch.long, device=device)
        kernel = FastestStep(place.expand(-1, SLOTS))
        at, slots = Grid(place, (place,), (SLOTS,)), line(SLOTS, device=device)
        LANED[decoder] = device, reads_by_lineage(decoder, LANES, at, slots, kernel)
    return LANED[decoder][1]


def can_be_graphed(decoder: Any, memory: Memory) -> bool:
    """A causal decoder of attention, over a memory that is seen whole or to a length."""
    plain = memory.seen == Everything() or isinstance(memory.seen, Lengths)
    return isinstance(decoder, Decoder) and decoder.causal and plain
