"""Check the inputs of networks that read one sequence per row.

B batch, T tokens, D model width.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from manyheads.attention.evaluate import check, evaluate
from manyheads.attention.patterns import Lengths, Pattern, Segments
from manyheads.attention.places import Grid, Pairs, Places
from manyheads.modules.stack import Memory, check_states, holds_lengths
from manyheads.modules.transformer import Embedding, Tied, Tokens, words_of

# ---- inputs ----------------------------------------------------------------------------------


def embed_sequences(embedding: nn.Module, tokens: Tokens, width: int, network: str) -> Tensor:
    """Embed tokens, (B, T) -> (B, T, D); refuse packed rows, graphs and empty sequences."""
    if not isinstance(tokens.at, Grid):
        raise ValueError(
            f"{network} reads tokens that come one after another, but {tokens.at.name} arrived"
        )
    one_a_row(tokens.seen, network)
    x = words_of(embedding, tokens.ids, tokens.types)
    check_states(x, tokens.at, width, "tokens")
    if not x.shape[1]:
        raise ValueError(f"{network} reads one token or more, none arrived")
    check(tokens.seen, Pairs(len(x), 1, tokens.at, tokens.at))
    return x


def one_a_row(seen: Pattern, network: str) -> None:
    if any(isinstance(part, Segments) for part in seen.parts()):
        raise ValueError(
            f"{network} reads one sequence a row and these are packed; Tokens.padded gives each "
            "a row, padded"
        )
    if not all(isinstance(part, Lengths) for part in seen.parts()):
        raise ValueError(f"{network} hides nothing but padding, {seen} came; Lengths(...) would do")


def mask_padding(seen: Pattern, at: Places, batch: int) -> Tensor | None:
    """Return which tokens are not padding, (B, T); None if there is no padding."""
    if not seen.parts():
        return None
    return evaluate(seen, Pairs(batch, 1, at, at).everywhere())[:, 0, 0]


def mean_states(states: Tensor, seen: Pattern, at: Places) -> Tensor:
    """Average the states without padding, (B, T, D) -> (B, D); zeros for an empty sequence."""
    counts = mask_padding(seen, at, len(states))
    if counts is None:
        return states.mean(1) if states.shape[1] else states.sum(1)  # the mean of none is NaN
    weights = counts[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def looked_at(memory: Any, x: Tensor, width: int, network: str) -> Memory:
    """Return the memory; raise an error if it does not fit these tokens."""
    if not isinstance(memory, Memory):
        came = "none" if memory is None else f"a {type(memory).__name__}"
        raise ValueError(
            f"this decoder looks at a Memory(states, places), {came} came; "
            "EncoderDecoder.encode makes one"
        )
    check_states(memory.states, memory.at, width, "tokens of the memory")
    if len(memory.states) != len(x):
        raise ValueError(f"{len(x)} sequences came with the memory of {len(memory.states)}")
    one_a_row(memory.seen, network)
    return memory


def goes_on(tokens: Tokens, read: int) -> None:
    """Refuse tokens that do not follow those already read."""
    if holds_lengths(tokens.seen):
        raise ValueError(
            "sequences of different lengths do not go on together; "
            "write those of one length in a batch of their own"
        )
    if tokens.at.first != read:
        came = "places of their own" if tokens.at.first is None else f"number {tokens.at.first}"
        raise ValueError(
            f"the cache goes on with token {read}, {came} came; line(n, start={read}) would do"
        )


# ---- arguments of constructors ---------------------------------------------------------------


def check_dropout(dropout: float, **measures: int) -> None:
    for name, value in measures.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"the {name} of a network is a whole number from 1 up, got {value!r}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is a share from 0 to below 1, got {dropout}")


def same_width(width: int, embedding: nn.Module, head: nn.Module | None = None) -> None:
    widths: dict[str, int] = {}
    if isinstance(embedding, Embedding):
        widths["an embedding"] = embedding.table.embedding_dim
    if isinstance(head, Tied):
        widths["a head"] = head.read_backwards[0].table.embedding_dim
    elif isinstance(head, nn.Linear):
        widths["a head"] = head.in_features
    for part, other in widths.items():
        if other != width:
            raise ValueError(f"{part} of width {other} came with a network of width {width}")
