"""The three Transformer networks: encoder, decoder and encoder-decoder.

B batch, T tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.cache import Cache, Growing
from manyheads.attention.evaluate import looks_ahead
from manyheads.attention.patterns import Causal, Everything, Lengths, Pattern, Segments, all_of
from manyheads.attention.places import Places, line, packed
from manyheads.devices import send
from manyheads.inspect.record import recording
from manyheads.modules.layers import init_table
from manyheads.modules.stack import Memory, Stack


@dataclass(frozen=True, eq=False)
class Tokens:
    """A batch of sequences: token ids, their places, and a pattern that hides padding."""

    ids: Tensor  # (B, T), or (B, T, features) if tokens are not looked up in a table
    at: Places
    seen: Pattern = Everything()
    types: Tensor | None = None  # (B, T) token type ids, if the network has token types

    @staticmethod
    def padded(sequences: Sequence[Sequence[int]], pad: int = 0) -> Tokens:
        """One sequence per row, padded: [[5, 6, 7], [8]] -> [[5, 6, 7], [8, 0, 0]]."""
        lengths = [len(s) for s in rows_of(sequences, "[[5, 6, 7], [8]]")]
        ids = torch.full((len(sequences), max(lengths, default=0)), pad)
        there = torch.arange(ids.shape[1]) < torch.tensor(lengths, dtype=torch.long)[:, None]
        flat = [int(token) for sequence in sequences for token in sequence]
        ids[there] = torch.tensor(flat, dtype=torch.long)
        seen = Lengths(torch.tensor(lengths)) if len(set(lengths)) > 1 else Everything()
        return Tokens(ids, line(ids.shape[1]), seen)

    @staticmethod
    def packed(rows: Sequence[Sequence[Sequence[int]]], width: int, pad: int = 0) -> Tokens:
        """Several sequences per row of `width` tokens: [[[5, 6], [8]]], 4 -> [[5, 6, 8, 0]]."""
        example = "[[[5, 6], [8]]]: rows of sequences of numbers"
        lengths = [[len(s) for s in rows_of(row, example)] for row in rows_of(rows, example)]
        segments = Segments.of(lengths, width)
        ids = torch.full((len(rows), width), pad)
        for target, row in zip(ids, rows, strict=True):
            flat = [token for sequence in row for token in sequence]
            target[: len(flat)] = torch.as_tensor(flat)
        return Tokens(ids, packed(lengths, width), segments)

    def lengths(self) -> Tensor:
        """How many tokens of each row are no padding, (B,)"""
        for part in self.seen.parts():
            if isinstance(part, Lengths):
                return part.lengths
            if isinstance(part, Segments):
                return (part.ids != Segments.PADDING).sum(1)
        return torch.full((len(self.ids),), self.ids.shape[1], device=self.ids.device)

    def to(self, device: torch.device | str) -> Tokens:
        types = None if self.types is None else send(self.types, device)
        return Tokens(send(self.ids, device), self.at.to(device), self.seen.to(device), types)


def rows_of(value: Any, example: str) -> Any:
    """Return the value; raise an error if it is not a list of lists."""
    if not all(hasattr(row, "__len__") and not isinstance(row, str) for row in value):
        raise ValueError(f"tokens come as {example}, got {value!r}")
    return value


def as_tokens(value: Any, lengths: Tensor | Sequence[int] | None = None) -> Tokens:
    """Make Tokens of plain ids (B, T); with `lengths`, the rest of each row is padding."""
    if isinstance(value, Tokens):
        if lengths is not None:
            raise ValueError(
                "lengths came with Tokens, which say what counts; with ids they would do"
            )
        return value
    if not isinstance(value, Tensor) or value.dim() < 2:
        came = f"a {type(value).__name__}"
        if isinstance(value, Tensor):
            came = f"a tensor of {tuple(value.shape)}"
        raise ValueError(
            f"a network reads ids of (B, T) or Tokens, {came} arrived; "
            "Tokens.padded([[5, 6], [7]]) makes them"
        )
    at = line(value.shape[1], device=value.device)
    if lengths is None:
        return Tokens(value, at)
    counts = torch.as_tensor(lengths, device=value.device)
    plain = counts.device.type == "cpu" and not torch.compiler.is_compiling()
    if plain and bool(((counts < 0) | (counts > value.shape[1])).any()):
        raise ValueError(
            f"of {value.shape[1]} ids 0 to {value.shape[1]} count, lengths say {counts.tolist()}"
        )
    return Tokens(value, at, Lengths(counts))


class SequenceNetwork(nn.Module):
    """The base of all networks: it takes plain ids as well as Tokens, and shows its attention."""

    def __call__(
        self, tokens: Any, *more: Any, lengths: Tensor | Sequence[int] | None = None, **named: Any
    ) -> Any:
        """network(ids), network(ids, lengths=[3, 1]) or network(Tokens.packed(...))."""
        return super().__call__(as_tokens(tokens, lengths), *more, **named)

    @torch.no_grad()
    def attention_weights(self, *inputs: Any, **named: Any) -> dict[str, Tensor]:
        """Call the network; return its attention weights, (B, H, T, T), by the layer's name."""
        with recording(self) as seen:
            self(*inputs, **named)
        return {one.layer: one.weights for one in seen}


class Embedding(nn.Module):
    """Word embeddings, and token type embeddings if `types` is above 0.

    With `scaled` they are multiplied by sqrt(width), to be as large as sinusoidal positions.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        scaled: bool = True,
        types: int = 0,
        value_widths: Sequence[int] = (),
    ):
        """`value_widths`: widths of further tables, whose vectors are mixed into layers' values."""
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.scale = width**0.5 if scaled else 1.0
        init_table(self.table, scaled)
        self.types = nn.Embedding(types, width) if types else None
        if self.types is not None:
            init_table(self.types)
        self.value_tables = nn.ModuleList(nn.Embedding(vocabulary, w) for w in value_widths)
        for table in self.value_tables:
            init_table(cast(nn.Embedding, table))

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """ids (B, T) -> (B, T, D); without `types` every token has type 0."""
        check_ids("words", ids, self.table)
        words = self.table(ids)
        words = words if self.scale == 1 else words * self.scale
        if self.types is None:
            if types is not None:
                raise ValueError(
                    "types came to an embedding that has none; Tokens(ids, at) would do"
                )
            return words
        if types is None:
            return words + self.types.weight[0]
        check_ids("types", types, self.types)
        return words + self.types(types)


def check_ids(what: str, ids: Tensor, table: nn.Embedding) -> None:
    """Refuse numbers that are no rows of a table."""
    if ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"{what} are numbers of torch.int64 or torch.int32, {ids.dtype} arrived; "
            ".long() makes whole numbers"
        )
    if not ids.is_cpu or not ids.numel() or torch.compiler.is_compiling():
        return
    low, high = (int(end) for end in ids.aminmax())
    if low < 0 or high >= table.num_embeddings:
        raise ValueError(
            f"{what} are numbered 0 to {table.num_embeddings - 1}, "
            f"{low if low < 0 else high} arrived"
        )


class Tied(nn.Module):
    """The output layer with tied weights: a word's logit is the product of state and embedding."""

    def __init__(self, embedding: Embedding, bias: bool = False):
        super().__init__()
        self.read_backwards = (embedding,)  # in a tuple, so that its weight is saved only once
        words = embedding.table.num_embeddings
        self.bias = nn.Parameter(torch.zeros(words)) if bias else None

    def forward(self, states: Tensor) -> Tensor:
        return F.linear(states, self.read_backwards[0].table.weight, self.bias)


class Capped(nn.Module):
    """A head with a soft cap: cap * tanh(logits / cap), which hardly changes small logits."""

    def __init__(self, head: nn.Module, cap: float):
        super().__init__()
        self.scores, self.cap = head, cap

    def forward(self, states: Tensor) -> Tensor:
        return self.cap * torch.tanh(self.scores(states) / self.cap)


class Encoder(SequenceNetwork):
    """A bidirectional encoder. Tokens (B, T) -> states (B, T, D), or a head's output."""

    def __init__(self, embedding: nn.Module, stack: Stack, head: nn.Module | None = None):
        super().__init__()
        same_width(embedding, stack)
        self.embedding, self.stack, self.head = embedding, stack, head or nn.Identity()

    def forward(self, tokens: Tokens) -> Tensor:
        x = words_of(self.embedding, tokens.ids, tokens.types)
        return self.head(self.stack(x, tokens.at, tokens.seen))


class Decoder(SequenceNetwork):
    """A decoder, usually with causal patterns, so that each token sees only earlier ones.

    Tokens (B, T) -> logits of the next token (B, T, V).
    """

    def __init__(self, embedding: nn.Module, stack: Stack, head: nn.Module, *, causal: bool = True):
        """Patterns that see later tokens are refused, unless `causal=False`."""
        super().__init__()
        self.causal = causal
        same_width(embedding, stack)
        for pattern in dict.fromkeys(stack.patterns if causal else ()):
            if ahead := looks_ahead(pattern, stack.heads):
                raise ValueError(
                    f"a decoder that sees {pattern} sees what it is to write: {ahead}; "
                    f"{pattern & Causal()} would do, or Decoder(..., causal=False) for one that "
                    "is meant to"
                )
        self.embedding, self.stack, self.head = embedding, stack, head

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, cache: Cache | None = None
    ) -> Tensor:
        if memory is not None:
            if not isinstance(memory, Memory):
                raise ValueError(
                    f"a memory is Memory(states, places), a {type(memory).__name__} arrived; "
                    "EncoderDecoder.encode makes one"
                )
            memory = memory._replace(seen=cross_pattern(tokens.seen, memory.seen))
        parts = tokens.ids, tokens.at, tokens.seen, tokens.types
        return self.head(self.states(*parts, memory, cache))

    def states(
        self,
        ids: Tensor,
        at: Places,
        seen: Pattern,
        types: Tensor | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Return the states (B, T, D) that the head reads. It takes no Tokens, since torch 2.11
        cannot make them in compiled code.
        """
        at, types = self.places_and_types(ids, at, types)
        x = words_of(self.embedding, ids, types)
        values = [table(ids) for table in getattr(self.embedding, "value_tables", ())]
        return self.stack(x, at, seen, memory, cache, values)

    def places_and_types(
        self, ids: Tensor, at: Places, types: Tensor | None = None
    ) -> tuple[Places, Tensor | None]:
        """Derive places and types from the ids, for a subclass; text changes nothing."""
        return at, types

    def new_cache(self) -> Growing:
        """Return an empty cache for decoding."""
        return Growing()


class EncoderDecoder(SequenceNetwork):
    """Reads a source, then writes a target: translation, summaries, answers."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module):
        """Take any encoder and decoder with the inputs and outputs of `Encoder` and `Decoder`."""
        super().__init__()
        self.encoder: Any = encoder
        self.decoder: Any = decoder
        self.causal = bool(getattr(decoder, "causal", False))  # generates from left to right

    def encode(
        self, source: Tokens | Tensor, lengths: Tensor | Sequence[int] | None = None
    ) -> Memory:
        source = as_tokens(source, lengths)
        return Memory(self.encoder(source), source.at, source.seen)

    def forward(
        self,
        source: Tokens,
        target: Tokens | Tensor,
        *,
        target_lengths: Tensor | Sequence[int] | None = None,
    ) -> Tensor:
        """network(ids, target_ids, lengths=..., target_lengths=...): `lengths` are the source's."""
        return self.decoder(as_tokens(target, target_lengths), self.encode(source))


def words_of(embedding: nn.Module, ids: Tensor, types: Tensor | None) -> Tensor:
    """Embed ids; pass `types` only if there are any, so that any module can be an embedding."""
    return embedding(ids) if types is None else embedding(ids, types)


def same_width(embedding: nn.Module, stack: Stack) -> None:
    if isinstance(embedding, Embedding) and embedding.table.embedding_dim != stack.width:
        raise ValueError(
            f"an embedding of width {embedding.table.embedding_dim} came with a stack of width "
            f"{stack.width}"
        )


def cross_pattern(target: Pattern, source: Pattern) -> Pattern:
    """Return the cross-attention pattern: a packed target document sees its source document."""
    ours, theirs = (
        [part for part in pattern.parts() if isinstance(part, Segments)]
        for pattern in (target, source)
    )
    if len(ours) != len(theirs):
        packed_one = "target" if ours else "source"
        raise ValueError(
            f"only the {packed_one} is packed; pack both, so that documents find their own"
        )
    return all_of(
        [ours[0].towards(part) if isinstance(part, Segments) else part for part in source.parts()]
    )
