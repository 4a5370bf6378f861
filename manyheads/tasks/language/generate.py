"""How a language model writes on: many prompts at once, or one as it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyheads.attention.kernels import is_wrapper
from manyheads.codecs.text import Text
from manyheads.decoding.bounds import Bounds, Hypothesis, fit_context
from manyheads.decoding.cuda_graph import CudaGraphDecoder
from manyheads.decoding.detokenize import Detokenizer
from manyheads.decoding.drafts import MOST_DRAFTED, Drafter
from manyheads.decoding.graphed_rows import has_lanes
from manyheads.decoding.graphed_step import GraphedStep
from manyheads.decoding.step import CachedStep, RewindableStep
from manyheads.decoding.strategies import decode
from manyheads.decoding.strategies import stream as stream_tokens
from manyheads.decoding.wrappers import Moving, Repeats
from manyheads.modules.transformer import Decoder
from manyheads.tasks.continuation import Author
from manyheads.tasks.language.decoding import LanguageDecoding

Ids = Sequence[int]
AT_ONCE = 16384  # tokens, of all prompts that are written on together
RECORDED_ON = ("cuda",)  # devices


class Continuation(NamedTuple):
    """What follows a prompt, and what the model gives for it."""

    text: str  # without the text that stopped it
    ids: list[int]  # with it, but without the sign
    score: float  # the sum of its logs
    logs: list[float]  # the log-probability of each token, and of the sign where it was reached
    finished: bool  # by the sign or a text, not by being as long as it may be


def generate(
    author: Author[Text],
    prompts: Sequence[str],
    how: LanguageDecoding,
    first: int = 0,
    drafter: Drafter | None = None,
) -> list[list[Continuation]]:
    """For each prompt what follows it, the best first where a beam gives several.

    `first` is the number of the first prompt in the whole input: each draws by its own number, so
    that nothing depends on what else is in the batch. Writing goes on past the context, from then
    on with half of it at least in view (see `Moving`).
    """
    return write_on(author, encode_prompts(author.codec, prompts, how), how, first, drafter)


def stream(
    author: Author[Text],
    prompt: str,
    how: LanguageDecoding,
    number: int = 0,
    drafter: Drafter | None = None,
) -> Iterator[str]:
    """The text that `generate` gives for the prompt of this number, in pieces as it is written."""
    codec = author.codec
    (ids,) = encode_prompts(codec, [prompt], how)
    author.network.eval()
    source = add_starts(codec, ids, how)
    start, step = make_start(author, [source], how), make_step(author, how)
    bounds = make_bounds(codec, how)
    tokens = stream_tokens(step, start, bounds, how, number, None, drafter, source)
    return stream_text(tokens, Detokenizer(codec, ids, how.stop), codec.special_tokens.all_eos)


def stream_text(
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


def encode_prompts(codec: Text, prompts: Sequence[str], how: LanguageDecoding) -> list[list[int]]:
    if not codec.special_tokens.bos and not all(prompts):
        raise ValueError(
            "a model without a start sign goes on from a prompt of a character or more, an empty "
            'one came; a line break ("\\n") would do'
        )
    return (codec.encode_special if how.special or how.chat else codec.encode_all)(prompts)


def add_starts(codec: Text, ids: Ids, how: LanguageDecoding) -> list[int]:
    """After the signs that a text starts with, unless it has them; a template says them itself."""
    starts = [*codec.special_tokens.bos]
    return [*ids] if how.chat or (starts and [*ids[: len(starts)]] == starts) else [*starts, *ids]


def write_on(
    author: Author[Text],
    prompts: Sequence[Ids],
    how: LanguageDecoding,
    first: int = 0,
    drafter: Drafter | None = None,
) -> list[list[Continuation]]:
    """Prompts of one length go together; what is drafted is written by itself: on a CPU, a few."""
    network, codec, context = author
    network.eval()
    if len(prompts) > MOST_DRAFTED and next(network.parameters()).device.type not in RECORDED_ON:
        drafter = None
    found: dict[int, list[Continuation]] = {}
    begun = [add_starts(codec, ids, how) for ids in prompts]
    together = 1 if drafter is not None else max(1, AT_ONCE // (context * how.beam))
    for rows in group_by_length(begun, together):
        start = make_start(author, [begun[i] for i in rows], how)
        detokenizers = [Detokenizer(codec, prompts[i], how.stop) for i in rows]

        def over(row: int, token: int, each: Sequence[Detokenizer] = detokenizers) -> bool:
            each[row].add(token)
            return each[row].stopped

        bounds, numbers = make_bounds(codec, how), [first + i for i in rows]
        ended = over if how.stop else None
        if can_be_recorded(author, start, how):  # faster than the fewest passes that are not
            recorded = CudaGraphDecoder(network, len(start), start.shape[1] + how.max_new_tokens)
            written = [[one] for one in recorded.sample(start, bounds, how, numbers)]
        else:
            step, read = make_step(author, how, start), [begun[i] for i in rows]
            written = decode(step, start, bounds, how, numbers, ended, drafter, read)
        for i, hypotheses in zip(rows, written, strict=True):
            found[i] = [detokenize(codec, prompts[i], one, how.stop) for one in hypotheses]
    return [found[i] for i in range(len(prompts))]


def detokenize(codec: Text, prompt: Ids, one: Hypothesis, stops: Sequence[str]) -> Continuation:
    # Told anew: who searches asks nothing of the last token that there may be.
    detokenizer = Detokenizer(codec, prompt, stops)
    text = detokenizer.all(one.ids)
    return Continuation(text, one.ids, one.log_prob, one.logs, one.finished or detokenizer.stopped)


def can_be_recorded(author: Author[Text], start: Tensor, how: LanguageDecoding) -> bool:
    """Whether the host has nothing to say while it is written: drawn, within the context, up to a
    sign and no text. Only where starting each kernel takes longer than it runs is that a gain.
    """
    free = how.chosen == "sample" and not how.stop and how.repetition_penalty == 1
    fits = start.shape[1] + how.max_new_tokens <= author.context
    network = author.network
    plain = isinstance(network, Decoder) and not is_wrapper(network.stack.kernel)
    return free and fits and start.device.type in RECORDED_ON and plain


def group_by_length(prompts: Sequence[Ids], rows: int) -> Iterator[list[int]]:
    """The numbers of prompts of one length, up to so many: [[a b], [c], [d e]] -> [1], [0, 2]"""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for _, same in groupby(order, key=lambda i: len(prompts[i])):
        numbers = [*same]
        yield from (numbers[i : i + rows] for i in range(0, len(numbers), rows))


def make_start(author: Author[Text], prompts: Sequence[Ids], how: LanguageDecoding) -> Tensor:
    """Prompts of one length (B, T), their signs among them."""
    if not prompts[0]:
        raise ValueError("a prompt has at least one token, and none of this one is known")
    read = [fit_context(ids, author.context, how.truncate, "prompt") for ids in prompts]
    return torch.tensor(read, device=next(author.network.parameters()).device)


def make_step(
    author: Author[Text], how: LanguageDecoding, start: Tensor | None = None
) -> RewindableStep:
    """One that is recorded, where it is to go on from one start and stays within the context."""
    step, penalty = make_plain_step(author, how, start), how.repetition_penalty
    spared = author.codec.special_tokens.all_eos
    return step if penalty == 1 else Repeats(step, penalty, spared=spared)


def make_plain_step(
    author: Author[Text], how: LanguageDecoding, start: Tensor | None
) -> RewindableStep:
    network, _, context = author
    if start is not None and len(start) == 1 and how.beam == 1 and is_recorded(network):
        longest, drafted = start.shape[1] + how.max_new_tokens, start.shape[1] if how.draft else 0
        if longest <= context:
            return GraphedStep(network, None, longest, drafted)
    return Moving(lambda: CachedStep(network), context)


def is_recorded(network: Any) -> bool:
    on = next(network.parameters()).device.type
    plain = on in RECORDED_ON and isinstance(network, Decoder) and network.causal
    return plain and has_lanes(network) and not is_wrapper(network.stack.kernel)


def make_bounds(codec: Text, how: LanguageDecoding) -> Bounds:
    special = codec.special_tokens
    return Bounds(special.all_eos, how.max_new_tokens, how.min_new_tokens, never=special.never)
