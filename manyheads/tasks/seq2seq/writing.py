"""Decode many sources in batches, and return the outputs in the order of the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from manyheads.attention.kernels import is_wrapper
from manyheads.codecs.text import SpecialTokens
from manyheads.data.batches import map_by_length
from manyheads.decoding.bounds import Bounds, Hypothesis, find_room
from manyheads.decoding.branches import BranchedStep
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.drafts import MOST_DRAFTED, Drafter
from manyheads.decoding.graphed_encoder import encode_one
from manyheads.decoding.graphed_rows import has_lanes
from manyheads.decoding.graphed_step import GraphedStep, can_be_graphed
from manyheads.decoding.packed import PackedStep, can_be_packed
from manyheads.decoding.step import CachedStep, RewindableStep
from manyheads.decoding.strategies import decode
from manyheads.decoding.wrappers import Repeats
from manyheads.devices import map_in_threads, use_threads_for, work_of
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Decoder, EncoderDecoder, Tokens
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork

Ids = Sequence[int]
Spread = Callable[[Any, list[list[int]]], Iterable[list[list[Hypothesis]]]]
LOOP = 64  # a text ends after this many tokens that only repeat
RECORDED_ON = ("cuda",)  # devices
# Multiplications of a matrix product that is worth a thread of its own: threads with lighter ones
# wait for Python. Two threads that share a product wait at every step, and need larger ones.
HEAVY, SHARED = 2**26, 2**28


@torch.no_grad()
def write_targets(
    network: EncoderDecoder,
    sources: Sequence[Ids],
    how: DecodingConfig = DecodingConfig(),
    *,
    prefixes: Sequence[Ids] = (),
    special: tuple[SpecialTokens, SpecialTokens] = (SpecialTokens(), SpecialTokens()),
    numbers: Sequence[int] | None = None,
    tokens: int = 8192,
    spread: Spread | None = None,
    drafter: Drafter | None = None,
) -> list[list[Hypothesis]]:
    """Return the best hypotheses for each source, in the order of the sources.

    Sources of similar length form a batch of about `tokens` tokens over all beams. `numbers` are
    those of the sources in the whole input, which seed sampling. `special` are the special tokens
    of source and target. `spread` may share the batches among processes; otherwise CPU threads do.
    """
    if any(part.training for part in network.modules()):  # the check takes less time than eval()
        network.eval()
    reads, writes = special
    device = next(network.parameters()).device
    if drafter is not None and not gains_by_drafts(network.decoder, device, len(sources), how):
        drafter = None
    if isinstance(network, ParallelNetwork):
        network.refuse(how, any(map(len, prefixes)))
    elif other := [
        x for x in ("passes", "lengths") if getattr(how, x) != getattr(DecodingConfig, x)
    ]:
        raise ValueError(
            f"{other[0]} are for a model that writes in parallel (mask-predict), this one writes "
            "token by token; leave it out"
        )

    several = network.candidates(how) if isinstance(network, ParallelNetwork) else how.beam

    def write(rows: list[int]) -> list[list[Hypothesis]]:
        framed = [[*reads.encoder_bos, *sources[i], reads.eos] for i in rows]
        read = Tokens.padded(framed, reads.pad).to(device)
        beams = read.ids[:, :1].expand(-1, several)
        with use_threads_for(network, beams, SHARED):  # also for choosing among scores
            memory = read_source(network, read)
            own = rows if numbers is None else [numbers[i] for i in rows]
            if isinstance(network, ParallelNetwork):
                return [[one] for one in network.write(memory, read.lengths(), how, own)]
            return write_about(memory, rows, own)

    def write_about(memory: Memory, rows: list[int], own: Sequence[int]) -> list[list[Hypothesis]]:
        start = torch.tensor([writes.bos] * len(rows), device=device)
        prefix = [prefixes[i] if prefixes else () for i in rows]
        room = find_room(network.decoder) - len(writes.bos) + 1  # the last token is not read
        longest = [
            min(find_longest(how, len(sources[i]), len(begun)), room)
            for i, begun in zip(rows, prefix, strict=True)
        ]
        drafted = start.shape[1] if drafter is not None else 0
        step: Any = make_step(network.decoder, memory, how, start.shape[1] + max(longest), drafted)
        if drafter is not None and len(rows) > 1:
            step = PackedStep(network.decoder, memory)
        if how.repetition_penalty != 1:
            step = Repeats(step, how.repetition_penalty, spared=writes.all_eos)
        loop = LOOP if max(how.min_new_tokens, *map(len, prefix)) < LOOP else 0
        bounds = Bounds(
            writes.all_eos, longest, how.min_new_tokens, prefix, never=writes.never, loop=loop
        )
        return decode(
            step, start, bounds, how, own, drafter=drafter, sources=[sources[i] for i in rows]
        )

    # On a GPU, texts with drafts are written one at a time.
    recorded = device.type in RECORDED_ON
    together = 1 if recorded and drafter is not None else tokens // max(1, several)
    if spread is None and drafter is None and is_worth_threads(network, len(sources) * several):
        spread = map_in_threads
        together = min(together, sum(map(len, sources)) // torch.get_num_threads() + 1)
    # Set in each thread. Recorded tensors are written to again later: no inference mode for them.
    quiet = torch.no_grad() if recorded else torch.inference_mode()
    return map_by_length(quiet(write), sources, together, spread or map)


def gains_by_drafts(decoder: Any, device: torch.device, count: int, how: DecodingConfig) -> bool:
    """Whether drafts make decoding faster: on a GPU only if the recorded step reads several tokens
    at once, on a CPU for one source or for a few.
    """
    if device.type in RECORDED_ON:
        return reads_ahead(decoder)
    return count == 1 or are_drafted(decoder, count, how)


def is_worth_threads(network: EncoderDecoder, rows: int) -> bool:
    """Whether batches of this many rows in all are heavy enough for CPU threads."""
    device, threads = next(network.parameters()).device, torch.get_num_threads()
    if device.type != "cpu" or device.type in RECORDED_ON or threads < 2:
        return False
    return work_of(network) * rows >= HEAVY * threads and not is_watched(network)


def is_watched(network: Any) -> bool:
    """Whether hooks or wrappers look at its parts: these need one thread, and their order."""
    return any(
        part._forward_hooks or part._forward_pre_hooks or is_wrapper(vars(part).get("kernel"))
        for part in network.modules()
    )


def read_source(network: EncoderDecoder, read: Tokens) -> Memory:
    """Encode a batch; on a GPU, a single source with a recorded CUDA graph."""
    if read.ids.device.type in RECORDED_ON and not isinstance(network, ParallelNetwork):
        return encode_one(network, read)
    return network.encode(read)


def make_step(
    decoder: Any, memory: Memory, how: DecodingConfig, longest: int, drafted: int = 0
) -> RewindableStep:
    """Return the decoding step: on a GPU it is recorded as a CUDA graph; on a CPU the beams of a
    sentence are branches, which takes a mask and saves copies of the cache. No sequence has more
    than `longest` tokens; drafts follow a start of `drafted` tokens.
    """
    if memory.states.device.type in RECORDED_ON and can_be_graphed(decoder, memory):
        return GraphedStep(decoder, memory, longest, drafted)
    branched = how.chosen == "beam" and memory.states.is_cpu
    if branched and isinstance(decoder, Decoder) and decoder.causal:
        return BranchedStep(decoder, memory, how.beam)
    return CachedStep(decoder, memory)


def make_draft_step(decoder: Any, memory: Memory, source: int) -> RewindableStep:
    """Return the step of a drafter, which guesses the output for a source of `source` tokens."""
    if memory.states.device.type in RECORDED_ON and reads_ahead(decoder):
        longest = min(find_longest(DecodingConfig(), source), find_room(decoder))
        return GraphedStep(decoder, memory, longest, drafted=1)
    return CachedStep(decoder, memory)


def are_drafted(decoder: Any, sources: int, how: DecodingConfig) -> bool:
    """Whether a CPU is faster with drafts for this many sources: few sources, and no sampling, of
    which too much is read twice. The texts are the same.
    """
    plain = how.chosen == "greedy" and how.repetition_penalty == 1
    return sources <= MOST_DRAFTED and plain and can_be_packed(decoder)


def reads_ahead(decoder: Any) -> bool:
    """Whether a recorded step can read several tokens of a sequence at once."""
    return isinstance(decoder, Decoder) and decoder.causal and has_lanes(decoder)


def find_longest(how: DecodingConfig, source: int, begun: int = 0) -> int:
    """Return the largest number of tokens to write: it depends on the source alone, never on the
    batch.

    A forced prefix takes no room from what follows it.
    """
    return how.max_new_tokens or begun + max(how.min_new_tokens, 2 * source + 20)
