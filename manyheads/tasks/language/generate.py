"""How a language model writes on: the choices a user has, many prompts or one as it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyheads.codecs.text import Text
from manyheads.decoding.beam import Beam, beam
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.cuda_graph import CudaGraphDecoder
from manyheads.decoding.detokenize import Detokenizer
from manyheads.decoding.greedy import greedy
from manyheads.decoding.sample import Sampling, sample, sampling_for
from manyheads.decoding.step import CachedStep, Step
from manyheads.decoding.stream import stream as stream_tokens
from manyheads.decoding.wrappers import Moving, Repeats
from manyheads.modules.transformer import Decoder
from manyheads.tasks.checks import check_types

Ids = Sequence[int]
AT_ONCE = 16384  # tokens, of all prompts that are written on together
RECORDED_ON = ("cuda",)  # devices


@dataclass(frozen=True)
class Generation:
    """Drawn at random unless the temperature is 0: then the likeliest token, or a beam."""

    max_new_tokens: int = 256
    min_new_tokens: int = 0
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0  # above 1: what was read or written is less likely
    stop: tuple[str, ...] = ()  # texts that end it, and are not part of it
    seed: int = 0
    beam: int = 1
    nbest: int = 1
    length_penalty: float = 1.0
    truncate: bool = False  # of a prompt longer than the context, read the last tokens
    special: bool = False  # special tokens in a prompt are read as such, not as text
    chat: bool = False  # a prompt is what is said to a model that answers, by its own template

    def __post_init__(self) -> None:
        check_types(self)
        self.sampling()
        if self.temperature and self.beam > 1:
            raise ValueError(
                f"a beam searches and a temperature of {self.temperature} draws; "
                "temperature=0 goes with a beam"
            )
        if self.nbest > max(1, self.beam):
            raise ValueError(
                f"{self.nbest} best were asked for, a beam of {self.beam} finds {self.beam} at most"
            )
        if self.max_new_tokens < 1 or self.min_new_tokens < 0:
            raise ValueError("max_new_tokens is 1 or more, min_new_tokens 0 or more")
        if self.max_new_tokens < self.min_new_tokens:
            raise ValueError(
                f"min_new_tokens={self.min_new_tokens} is over max_new_tokens={self.max_new_tokens}"
            )
        if not self.repetition_penalty > 0:
            raise ValueError(
                "a repetition_penalty is over 0, and 1 changes nothing, "
                f"got {self.repetition_penalty}"
            )
        if isinstance(self.stop, str) or not all(self.stop):
            raise ValueError(
                f'stop lists texts of a character or more, as ("\\n",), got {self.stop!r}'
            )
        if self.stop and self.beam > 1:
            raise ValueError("stop ends a text that is written once; leave it out with a beam")
        self.search()

    def sampling(self) -> Sampling | None:
        return sampling_for(
            self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
        )

    def search(self) -> Beam:
        return Beam(self.beam, nbest=self.nbest, length_penalty=self.length_penalty)

    def bounds(self, codec: Text) -> Bounds:
        return Bounds(
            codec.signs.stops,
            longest=self.max_new_tokens,
            shortest=self.min_new_tokens,
            never=codec.signs.never,
        )


class Continuation(NamedTuple):
    """What follows a prompt, and what the model gives for it."""

    text: str  # without the text that stopped it
    ids: list[int]  # with it, but without the sign
    score: float  # the sum of its logs
    logs: list[float]  # the log-probability of each token, and of the sign where it was reached
    finished: bool  # by the sign or a text, not by being as long as it may be


def generate(
    network: Any,
    codec: Text,
    prompts: Sequence[str],
    how: Generation,
    context: int,
    first: int = 0,
) -> list[list[Continuation]]:
    """For each prompt what follows it, the best first where a beam gives several.

    `first` is the number of the first prompt in the whole input: each draws by its own number, so
    that nothing depends on what else is in the batch. Writing goes on past the context, from then
    on with half of it at least in view (see `Moving`).
    """
    return write_on(network, codec, read(codec, prompts, how), how, context, first)


def stream(
    network: Any,
    codec: Text,
    prompt: str,
    how: Generation,
    context: int,
    number: int = 0,
) -> Iterator[str]:
    """The text that `generate` gives for the prompt of this number, in pieces as it is written."""
    if how.beam > 1:
        raise ValueError("a beam knows its text only at the end; stream without it, or generate")
    (ids,) = read(codec, [prompt], how)
    network.eval()
    start = starting(network, [framed(codec, ids, how)], how, context)
    step = stepping(network, codec, how, context)
    return pieces(
        stream_tokens(step, start, how.bounds(codec), how.sampling(), number),
        Detokenizer(codec, ids, how.stop),
        codec.signs.stops,
    )


def pieces(
    tokens: Iterator[tuple[int, float]], detokenizer: Detokenizer, stops: Sequence[int]
) -> Iterator[str]:
    for token, _ in tokens:
        new = "" if token in stops else detokenizer.add(token)
        if new:
            yield new
        if detokenizer.stopped:
            return
    rest = detokenizer.end()
    if rest:
        yield rest


def read(codec: Text, prompts: Sequence[str], how: Generation) -> list[list[int]]:
    if not codec.signs.starts and not all(prompts):
        raise ValueError(
            "a model without a start sign goes on from a prompt of a character or more, an empty "
            'one came; a line break ("\\n") would do'
        )
    return (codec.encode_special if how.special or how.chat else codec.encode_all)(prompts)


def framed(codec: Text, ids: Ids, how: Generation) -> list[int]:
    """After the signs that a text starts with, unless it has them; a template says them itself."""
    starts = [*codec.signs.starts]
    return [*ids] if how.chat or (starts and [*ids[: len(starts)]] == starts) else [*starts, *ids]


def write_on(
    network: Any,
    codec: Text,
    prompts: Sequence[Ids],
    how: Generation,
    context: int,
    first: int = 0,
) -> list[list[Continuation]]:
    """Prompts of one length go together."""
    network.eval()
    found: dict[int, list[Continuation]] = {}
    begun = [framed(codec, ids, how) for ids in prompts]
    for rows in alike(begun, max(1, AT_ONCE // (context * how.beam))):
        some = [prompts[i] for i in rows]
        start = starting(network, [begun[i] for i in rows], how, context)
        numbers = [first + i for i in rows]
        if recordable(network, start, how, context):
            each = recorded(network, start, how, codec, numbers)
        else:
            step = stepping(network, codec, how, context)
            detokenizers = [Detokenizer(codec, ids, how.stop) for ids in some]
            each = searched(step, start, how, codec, detokenizers, numbers)
        for i, hypotheses in zip(rows, each, strict=True):
            found[i] = [continuation(codec, prompts[i], one, how.stop) for one in hypotheses]
    return [found[i] for i in range(len(prompts))]


def continuation(codec: Text, prompt: Ids, one: Hypothesis, stops: Sequence[str]) -> Continuation:
    # Told anew: who searches asks nothing of the last token that there may be.
    detokenizer = Detokenizer(codec, prompt, stops)
    text = detokenizer.all(one.ids)
    return Continuation(text, one.ids, one.log_prob, one.logs, one.finished or detokenizer.stopped)


def searched(
    step: Step,
    start: Tensor,
    how: Generation,
    codec: Text,
    detokenizers: Sequence[Detokenizer],
    numbers: Sequence[int],
) -> list[list[Hypothesis]]:
    bounds = how.bounds(codec)

    def over(row: int, token: int) -> bool:
        detokenizers[row].add(token)
        return detokenizers[row].stopped

    ends = over if how.stop else None
    if how.beam > 1:
        return beam(step, start, bounds, how.search())
    if sampling := how.sampling():
        drawn = sample(step, start, bounds, sampling, numbers, ends)
        return [[one] for one in drawn]
    return [[one] for one in greedy(step, start, bounds, ends)]


def recordable(network: Any, start: Tensor, how: Generation, context: int) -> bool:
    """Whether the host has nothing to say while it is written: drawn, within the context, up to a
    sign and no text. Only where starting each kernel takes longer than it runs is that a gain.
    """
    drawn = how.temperature > 0 and how.beam == 1
    free = drawn and not how.stop and how.repetition_penalty == 1
    fits = start.shape[1] + how.max_new_tokens <= context
    return free and fits and start.device.type in RECORDED_ON and isinstance(network, Decoder)


def recorded(
    network: Decoder, start: Tensor, how: Generation, codec: Text, numbers: Sequence[int]
) -> list[list[Hypothesis]]:
    slots = start.shape[1] + how.max_new_tokens
    writer = CudaGraphDecoder(network, len(start), slots)
    sampling = how.sampling()
    assert sampling is not None  # what is not drawn is not recorded
    return [[one] for one in writer.sample(start, how.bounds(codec), sampling, numbers)]


def alike(prompts: Sequence[Ids], rows: int) -> Iterator[list[int]]:
    """The numbers of prompts of one length, up to so many: [[a b], [c], [d e]] -> [1], [0, 2]"""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for _, same in groupby(order, key=lambda i: len(prompts[i])):
        numbers = [*same]
        yield from (numbers[i : i + rows] for i in range(0, len(numbers), rows))


def starting(network: Any, prompts: Sequence[Ids], how: Generation, context: int) -> Tensor:
    """Prompts of one length (B, T), their signs among them."""
    length = len(prompts[0])
    if not length:
        raise ValueError("a prompt has at least one token, and none of this one is known")
    if length > context and not how.truncate:
        raise ValueError(
            f"the prompt has {length} tokens and the context {context}; shorten it, or "
            "read its end alone: --truncate, truncate=True"
        )
    device = next(network.parameters()).device
    return torch.tensor([ids[-context:] for ids in prompts], device=device)


def stepping(network: Any, codec: Text, how: Generation, context: int) -> Step:
    step: Step = Moving(lambda: CachedStep(network), context)
    if how.repetition_penalty == 1:
        return step
    return Repeats(step, how.repetition_penalty, spared=codec.signs.stops)
