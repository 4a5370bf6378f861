"""Generate text with a language model: many prompts in batches, or one as a stream."""

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
AT_ONCE = 16384  # tokens in a batch of prompts: rows times beams times context
RECORDED_ON = ("cuda",)  # device types on which steps are recorded as CUDA graphs


class Continuation(NamedTuple):
    """The text written after a prompt, with its log-probabilities."""

    text: str  # without the stop text
    ids: list[int]  # with the stop text, but without the end token
    score: float  # the sum of `logs`
    logs: list[float]  # log-probability of each token, and of the end token if it was reached
    finished: bool  # by the end token or a stop text, not by the maximum length


def generate(
    author: Author[Text],
    prompts: Sequence[str],
    how: LanguageDecoding,
    first: int = 0,
    drafter: Drafter | None = None,
) -> list[list[Continuation]]:
    """Return the continuations of each prompt; a beam may give several, the best first.

    `first` is the number of the first prompt in the whole input: samples are seeded by the number
    of the prompt, so that they do not depend on the batch. A text may grow beyond the context; the
    model then sees at least the last half of the context (see `Moving`).
    """
    return write_on(author, encode_prompts(author.codec, prompts, how), how, first, drafter)


def stream(
    author: Author[Text],
    prompt: str,
    how: LanguageDecoding,
    number: int = 0,
    drafter: Drafter | None = None,
) -> Iterator[str]:
    """Yield the text that `generate` returns for the prompt with this number, piece by piece."""
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
    """Prepend the start tokens, unless they are there; a chat template has its own."""
    starts = [*codec.special_tokens.bos]
    return [*ids] if how.chat or (starts and [*ids[: len(starts)]] == starts) else [*starts, *ids]


def write_on(
    author: Author[Text],
    prompts: Sequence[Ids],
    how: LanguageDecoding,
    first: int = 0,
    drafter: Drafter | None = None,
) -> list[list[Continuation]]:
    """Batch prompts of one length. With a drafter, write one by one; on a CPU, draft only a few."""
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
        if can_be_recorded(author, start, how):  # faster than fewer passes without a graph
            recorded = CudaGraphDecoder(network, len(start), start.shape[1] + how.max_new_tokens)
            written = [[one] for one in recorded.sample(start, bounds, how, numbers)]
        else:
            step, read = make_step(author, how, start), [begun[i] for i in rows]
            written = decode(step, start, bounds, how, numbers, ended, drafter, read)
        for i, hypotheses in zip(rows, written, strict=True):
            found[i] = [detokenize(codec, prompts[i], one, how.stop) for one in hypotheses]
    return [found[i] for i in range(len(prompts))]


def detokenize(codec: Text, prompt: Ids, one: Hypothesis, stops: Sequence[str]) -> Continuation:
    # Decode again: the search does not check for stop texts after the last possible token.
    detokenizer = Detokenizer(codec, prompt, stops)
    text = detokenizer.all(one.ids)
    return Continuation(text, one.ids, one.log_prob, one.logs, one.finished or detokenizer.stopped)


def can_be_recorded(author: Author[Text], start: Tensor, how: LanguageDecoding) -> bool:
    """Whether CUDA graphs can write the text without the host: sampled, within the context, without
    stop texts. This is faster only where launching a kernel takes longer than running it.
    """
    free = how.chosen == "sample" and not how.stop and how.repetition_penalty == 1
    fits = start.shape[1] + how.max_new_tokens <= author.context
    network = author.network
    plain = isinstance(network, Decoder) and not is_wrapper(network.stack.kernel)
    plain = plain and not torch.is_autocast_enabled(start.device.type)
    return free and fits and start.device.type in RECORDED_ON and plain


def group_by_length(prompts: Sequence[Ids], rows: int) -> Iterator[list[int]]:
    """Group prompt numbers by length, at most `rows` each: [[a b], [c], [d e]] -> [1], [0, 2]"""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for _, same in groupby(order, key=lambda i: len(prompts[i])):
        numbers = [*same]
        yield from (numbers[i : i + rows] for i in range(0, len(numbers), rows))


def make_start(author: Author[Text], prompts: Sequence[Ids], how: LanguageDecoding) -> Tensor:
    """Return prompts of one length as a tensor (B, T), start tokens included."""
    if not prompts[0]:
        raise ValueError("a prompt has at least one token, and none of this one is known")
    read = [fit_context(ids, author.context, how.truncate, "prompt") for ids in prompts]
    return torch.tensor(read, device=next(author.network.parameters()).device)


def make_step(
    author: Author[Text], how: LanguageDecoding, start: Tensor | None = None
) -> RewindableStep:
    """Return a decoding step: a CUDA graph if it is for one prompt and stays within the context."""
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
