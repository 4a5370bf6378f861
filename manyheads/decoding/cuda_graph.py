"""A decoding step with sampling, recorded once as a CUDA graph and replayed.

A step of a small network is hundreds of short kernels, and launching them from Python takes longer
than they run. On CUDA a whole step, with the choice of the token, is one graph: the host launches
it again and again and reads the tokens only every few steps. Without CUDA the same code runs
without recording.

B batch, S slots, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from types import MethodType
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.cache import KeyValue, Static, Unwritten
from manyheads.attention.evaluate import horizon
from manyheads.attention.kernels import Fastest, Kernel
from manyheads.attention.kernels.single import Single
from manyheads.attention.layer import Attention
from manyheads.attention.patterns import Everything
from manyheads.attention.places import Grid, Pairs, line
from manyheads.decoding.bounds import Bounds, Hypothesis, forbid
from manyheads.decoding.config import Sampling
from manyheads.decoding.greedy import Paper, number_rows
from manyheads.decoding.sample import (
    FEW,
    as_keys,
    check_drawn,
    draw_key,
    drop_spare,
    pick,
    weigh_tokens,
)
from manyheads.devices import on_its_gpu
from manyheads.modules.fused import TRITON, fuse_sublayers, is_fused
from manyheads.modules.stack import Block
from manyheads.modules.transformer import Decoder

# Called with the new tokens of each sequence since the last call; none if it is finished.
Look: TypeAlias = Callable[[list[list[int]]], None]
ROOM = 128  # slots
WARM_UPS = 3  # steps before the recorded one, so that compilers and libraries are ready


@dataclass(frozen=True)
class RecordedChoice:
    """The settings that are fixed in a recording, since no buffer holds them."""

    how: Sampling
    never: tuple[int, ...]
    stops: tuple[int, ...]
    shortest: int

    @staticmethod
    def of(how: Sampling, bounds: Bounds) -> RecordedChoice:
        drawn = Sampling(how.temperature, how.top_k, how.top_p, how.min_p)
        return RecordedChoice(drawn, bounds.never, bounds.stops, bounds.shortest)


class CudaGraphDecoder:
    """A decoder with a recorded step and a cache of `slots` tokens for a batch of sequences.

    `compile` are options of torch.compile for the step; None records it uncompiled. Without it,
    the layers of a stack that is `fused` are five Triton programs each. Use the same object again:
    it keeps its recordings, one for each setting of the choice.
    """

    def __init__(
        self,
        decoder: Decoder,
        batch: int,
        slots: int,
        *,
        look_every: int = 32,
        room: int | None = None,
        compile: dict[str, Any] | None = None,
    ):
        """If attention also reads empty slots, there is a recording for every `room` slots; by
        default ROOM, or all slots if the step is compiled."""
        blocks = check_recordable(decoder)
        self.seen = Everything()  # made here: compiled code cannot make one on torch 2.11
        for name, count in (("batch", batch), ("slots", slots), ("look_every", look_every)):
            if count < 1:
                raise ValueError(f"{name} is 1 or more, got {count}")
        self.decoder, self.batch, self.slots = decoder, batch, slots
        self.addresses = list_addresses(decoder)
        self.look_every, self.compile = look_every, compile
        self.fused = compile is None and is_fused(decoder, batch)
        weight = next(decoder.parameters())
        self.device, layers = weight.device, [attention_of(block) for block in blocks]
        self.places = line(slots, device=self.device)
        self.lines = {slots: self.places}
        self.kept: dict[int, KeyValue] = {
            i: cast(KeyValue, tuple(self.make_buffer(layer, weight.dtype) for _ in range(2)))
            for i, layer in enumerate(layers)
        }
        whole: Any = {"dtype": torch.long, "device": self.device}
        self.token = torch.zeros(batch, 1, **whole)  # the last one written
        self.place = torch.zeros(1, **whole)  # where it is
        self.count = torch.zeros(1, **whole)  # tokens written
        self.ids = torch.zeros(batch, slots, **whole)
        self.logs = torch.zeros(batch, slots, device=self.device)
        self.keys = torch.zeros(batch, slots, dtype=torch.int32, device=self.device)
        unwritten = Unwritten(self.places)
        unwritten.own = self.kept
        single = Single(take_new=unwritten.take) if self.fused else Single()
        sparing = self.reads_only_filled(layers, weight, single)
        self.unwritten = unwritten if sparing and self.fused else None
        self.kernel: Kernel = single if sparing else decoder.stack.kernel
        self.room = slots if sparing else room or (ROOM if compile is None else slots)
        self.tables: dict[RecordedChoice, Tensor] = {}  # what may be written
        self.recordings: dict[tuple[int, RecordedChoice], Callable[[], None]] = {}
        self.pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None

    def make_buffer(self, layer: Attention, dtype: torch.dtype) -> Tensor:
        shape = self.batch, layer.key_heads, self.slots, layer.channels
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def reads_only_filled(
        self, layers: Sequence[Attention], weight: Tensor, single: Single
    ) -> bool:
        """Whether every layer can use the kernel `Single`, which reads only filled slots."""
        stack = self.decoder.stack
        at = Grid(self.place, (self.place,), (self.slots,))
        works = (
            layer.work(pattern, Pairs(self.batch, layer.heads, at, self.places), weight)
            for layer, pattern in zip(layers, stack.patterns, strict=True)
        )
        return isinstance(stack.kernel, Fastest) and not any(map(single.refuses, works))

    @torch.no_grad()
    def sample(
        self,
        start: Tensor,
        bounds: Bounds,
        how: Sampling = Sampling(),
        numbers: Sequence[int] | None = None,
        look: Look | None = None,
    ) -> list[Hypothesis]:
        """Return what decoding.sample returns for `start` (B, T), seed and numbers; `look` gets the
        new tokens whenever the host reads them."""
        check_drawn(how)
        numbers = number_rows(numbers, len(start))
        limits = self.check_limits(start, bounds)
        rule, steps = RecordedChoice.of(how, bounds), max(limits, default=0)
        papers = [Paper(limit, bounds) for limit in limits]
        if not steps:
            return [paper.hypothesis() for paper in papers]
        start = start.to(self.device)
        self.begin(start, how.seed, numbers, steps)
        at = line(start.shape[1], device=self.device)
        logits = self.compute_logits(start, at, self.make_cache(start.shape[1]))
        bounds.check(logits.shape[1])
        self.choose(logits, rule)
        for seen in range(0, steps, self.look_every):
            until = min(steps, seen + self.look_every)
            for written in range(max(1, seen), until):
                self.find_recording(start.shape[1] + written, rule)()
            new = self.copy_new(papers, seen, until)
            if look is not None:
                look(new)
            if not any(paper.going for paper in papers):
                break
        return [paper.hypothesis() for paper in papers]

    def check_limits(self, start: Tensor, bounds: Bounds) -> list[int]:
        """Return the maximum length of each sequence; refuse what does not fit."""
        if self.addresses != list_addresses(self.decoder):  # recordings read them where they were
            raise ValueError(
                "the decoder's weights have moved since its step was recorded, as after .to(); "
                "make a new CudaGraphDecoder"
            )
        if not 1 <= len(start) <= self.batch or start.shape[1] < 1:
            raise ValueError(
                f"1 to {self.batch} sequences that have begun are written on, "
                f"{tuple(start.shape)} arrived"
            )
        if bounds.prefix or bounds.forced or bounds.forbidden:
            raise ValueError(
                "a recorded step forces no prefix, and forces and forbids no token at a place; "
                "begin with the prefix, or write with a CachedStep"
            )
        limits = bounds.limits(len(start))
        read = start.shape[1] + max(limits) - 1  # the last token is never read
        if read > self.slots:
            raise ValueError(
                f"{start.shape[1]} tokens and {max(limits)} more need {read} slots, "
                f"there are {self.slots}"
            )
        return limits

    def begin(self, start: Tensor, seed: int, numbers: Sequence[int], steps: int) -> None:
        """Reset the buffers and draw the keys of all tokens; unused rows get those of row 0."""
        rows = []
        for number in (*numbers, *[numbers[0]] * (self.batch - len(numbers))):
            chance = Random(f"{seed} {number}")
            rows.append([draw_key(chance) for _ in range(steps)])
        self.keys[:, :steps] = as_keys(rows, self.device)
        self.count.zero_()
        self.place.fill_(start.shape[1] - 1)

    def make_cache(self, slots: int) -> Static:
        """Return a cache of the first `slots` slots."""
        cache = Static(self.first_places(slots))
        cache.own = {i: (k[:, :, :slots], v[:, :, :slots]) for i, (k, v) in self.kept.items()}
        return cache

    def compute_logits(self, ids: Tensor, at: Grid, cache: Static) -> Tensor:
        """Read ids (B, T) and return the next logits (B, V)."""
        if len(ids) < self.batch:
            ids = torch.cat([ids, ids[:1].expand(self.batch - len(ids), -1)])
        states = self.decoder.states(ids, at, self.seen, cache=cache)
        return self.decoder.head(states[:, -1])

    def first_places(self, slots: int) -> Grid:
        """Return the first `slots` places, sliced once: compiled code cannot slice them."""
        if slots not in self.lines:
            self.lines[slots] = self.places[:slots]
        return self.lines[slots]

    def step(self, slots: int, rule: RecordedChoice) -> None:
        """Read the last token and choose the next, all on the device."""
        at = Grid(self.place, (self.place,), (slots,))
        cache = self.unwritten or self.make_cache(slots)
        self.choose(self.compute_logits(self.token, at, cache), rule)

    @contextmanager
    def change_step(self) -> Iterator[None]:
        """Change kernels and layers as they are for a step, but not for the tokens before it."""
        with ExitStack() as changes:
            changes.enter_context(swap_kernel(self.decoder, self.kernel))
            apart = self.batch == 1 and self.compile is not None
            changes.enter_context(biases_apart(self.decoder, apart))
            if self.fused:
                changes.enter_context(fuse_sublayers(self.decoder, self.batch))
            yield

    def choose(self, logits: Tensor, rule: RecordedChoice) -> None:
        """Choose a token for each sequence by its logits (B, V), and write it into the buffers."""
        if self.fused and logits.is_cuda and TRITON and draws_from_all(rule.how):
            self.choose_fused(logits, rule)
            return
        logs = forbid(logits.log_softmax(-1, dtype=torch.float32), rule.never)
        for stop in rule.stops if rule.shortest else ():
            logs[:, stop] = logs[:, stop].masked_fill(self.count < rule.shortest, -torch.inf)
        keys = self.keys.index_select(1, self.count)[:, 0]
        token = pick(weigh_on_device(logs, rule.how), keys)[:, None]
        self.ids.index_copy_(1, self.count, token)
        self.logs.index_copy_(1, self.count, logs.gather(1, token))
        self.token.copy_(token)
        self.count.add_(1)
        self.place.add_(1)

    def choose_fused(self, logits: Tensor, rule: RecordedChoice) -> None:
        """Do the same by two programs."""
        from manyheads.decoding.triton_choice import choose_tokens, make_table

        if rule not in self.tables:
            self.tables[rule] = make_table(logits.shape[1], rule.never, rule.stops, self.device)
        told = self.keys, self.tables[rule], self.count, self.ids, self.logs, self.token
        choose_tokens(logits, *told, rule.how.temperature, rule.shortest)
        self.count.add_(1)
        self.place.add_(1)

    def copy_new(self, papers: list[Paper], seen: int, done: int) -> list[list[int]]:
        """Copy the tokens from `seen` on: the only place where the host waits."""
        ids, logs = self.ids[:, seen:done].tolist(), self.logs[:, seen:done].tolist()
        return [paper.take(row, ids[row], logs[row]) for row, paper in enumerate(papers)]

    # ---- recording ---------------------------------------------------------------------------

    def find_recording(self, read: int, rule: RecordedChoice) -> Callable[[], None]:
        """Return the recording of the step after which `read` slots are filled."""
        slots = min(self.slots, -(-read // self.room) * self.room)
        if (slots, rule) not in self.recordings:
            self.recordings[slots, rule] = self.record(slots, rule)
        return self.recordings[slots, rule]

    def record(self, slots: int, rule: RecordedChoice) -> Callable[[], None]:
        self.first_places(slots)
        run: Callable[[], None] = partial(self.step, slots, rule)
        if self.compile is not None:
            options = {"fullgraph": True, "dynamic": False, **self.compile}
            run = torch.compile(run, **options)
        if self.device.type != "cuda":
            return partial(self.run_plainly, run) if self.fused else run
        with self.change_step():
            # All else that a step writes is overwritten before it is read.
            return capture(self.place, run, (self.token, self.place, self.count), self.pool)

    def run_plainly(self, run: Callable[[], None]) -> None:
        """Run a fused step without recording it."""
        with self.change_step():
            run()


@cache
def find_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which a GPU records; torch has one, of the GPU that records first."""
    return torch.cuda.Stream(device)


@on_its_gpu
def capture(
    near: Tensor, run: Callable[[], None], kept: Sequence[Tensor] = (), pool: Any = None
) -> Callable[[], None]:
    """Run a function a few times, record it as a CUDA graph on the GPU of the tensor `near`, and
    return the graph's replay. After each run the tensors `kept` get their values back.
    """
    before, aside = [one.clone() for one in kept], find_stream(near.device)
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM_UPS):
            run()
            for one, value in zip(kept, before, strict=True):
                one.copy_(value)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool, aside, capture_error_mode="thread_local"):
        run()
    return graph.replay


# ---- the choice of a token, without a host sync --------------------------------------------------


def draws_from_all(how: Sampling) -> bool:
    """Whether a token is drawn from all allowed ones, by their own probabilities."""
    return how.top_k == 0 and how.top_p >= 1 and how.min_p == 0


def weigh_on_device(logs: Tensor, how: Sampling) -> Tensor:
    """Like `weigh_tokens`, without its host sync to find out if a few tokens reach `top_p`."""
    few = logs.shape[1] <= FEW or 0 < how.top_k < FEW

    def keep(weights: Tensor, share: float) -> Tensor:
        if few:
            falling, order = weights.topk(min(FEW, weights.shape[1]))
        else:
            falling, order = weights.sort(-1, descending=True)
        return drop_spare(weights, falling, order, share)

    return weigh_tokens(logs, how, keep)


# ---- what is changed while a step is recorded ----------------------------------------------------


@contextmanager
def swap_kernel(decoder: Decoder, kernel: Kernel) -> Iterator[None]:
    """Use this kernel in the decoder, and restore its own afterwards."""
    own, decoder.stack.kernel = decoder.stack.kernel, kernel
    try:
        yield
    finally:
        decoder.stack.kernel = own


@contextmanager
def biases_apart(network: nn.Module, wanted: bool) -> Iterator[None]:
    """Make every nn.Linear add its bias after the product, not in the same call.

    torch.compile fuses a product of one row with the operations around it
    (coordinate_descent_tuning), but not if a library call adds the bias.
    """
    linears = [part for part in network.modules() if type(part) is nn.Linear and wanted]
    for linear in linears:
        cast(Any, linear).forward = MethodType(product_then_bias, linear)
    try:
        yield
    finally:
        for linear in linears:
            del linear.forward


def product_then_bias(linear: nn.Linear, x: Tensor) -> Tensor:
    product = F.linear(x, linear.weight)
    return product if linear.bias is None else product + linear.bias


def check_recordable(decoder: Decoder) -> list[Block]:
    """Return the decoder's blocks; raise an error if its step cannot be recorded."""
    if not isinstance(decoder, Decoder):
        raise ValueError(
            f"a Decoder's step can be recorded, a {type(decoder).__name__} came; "
            "CachedStep writes with any network"
        )
    blocks = cast(list[Block], decoder.stack.blocks)
    if any(block.cross_attention is not None for block in blocks):
        raise ValueError(
            "this decoder looks at a memory, whose step is not recorded; CachedStep takes it"
        )
    if decoder.training:
        raise ValueError("a step is recorded as it is used, not as it is trained: eval() first")
    if ahead := [one for one in decoder.stack.patterns if horizon(one)]:
        raise ValueError(
            f"{ahead[0]} lets a token see later ones, which a recorded step has not read; "
            "CachedStep takes it"
        )
    return blocks


def list_addresses(network: nn.Module) -> tuple[int, ...]:
    """Return the addresses of the weights."""
    return tuple(weight.data_ptr() for weight in network.parameters())


def attention_of(block: Block) -> Attention:
    return cast(Attention, block.self_attention.part)
