"""Recurrent networks, for which attention was invented.

The encoder is bidirectional; the decoder may attend to the memory with its state (Luong). The
context vector is not fed back, so that a training batch is one call over all its tokens.

B batch, T tokens, S tokens of the memory, D model width, L layers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from manyheads.attention.biases import Feature
from manyheads.attention.cache import check_crop, same_batch
from manyheads.attention.kernels import Kernel, Work, plan
from manyheads.attention.kernels import kernel as named_kernel
from manyheads.attention.layer import computed_in
from manyheads.attention.places import Pairs, Places
from manyheads.attention.scores import Score, build_score, check_score
from manyheads.modules.checks import (
    check_dropout,
    embed_sequences,
    goes_on,
    looked_at,
    mask_padding,
    mean_states,
    same_width,
)
from manyheads.modules.config import RecurrentConfig
from manyheads.modules.layers import init_cells, init_fused, init_linear
from manyheads.modules.stack import Memory, find_named
from manyheads.modules.transformer import Embedding, SequenceNetwork, Tokens

States: TypeAlias = tuple[Tensor, ...]  # each (L, B, D): hidden and cell of an LSTM, one of a GRU

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentEncoder(SequenceNetwork):
    """A bidirectional encoder, half of the width each. Tokens (B, T) -> states (B, T, D)."""

    def __init__(
        self,
        embedding: nn.Module,
        width: int,
        depth: int,
        *,
        cell: str = "lstm",
        dropout: float = 0.1,
    ):
        super().__init__()
        check_dropout(dropout, width=width, depth=depth)
        if width % 2:
            raise ValueError(
                f"two directions share a width evenly, got {width}; {width - 1 or 2} or "
                f"{width + 1} would do"
            )
        same_width(width, embedding)
        self.width, self.embedding, self.dropout = width, embedding, nn.Dropout(dropout)
        self.cells = cells_of(cell, width, depth, dropout, both_ways=True)

    def forward(self, tokens: Tokens) -> Tensor:
        x = self.dropout(embed_sequences(self.embedding, tokens, self.width, "a recurrent network"))
        counts = mask_padding(tokens.seen, tokens.at, len(x))
        if counts is None:
            return self.dropout(self.cells(x)[0])
        # An empty sequence is read as one token, whose state is then set to zero.
        lengths = counts.sum(1).clamp(min=1).cpu()
        read = self.cells(pack_padded_sequence(x, lengths, True, enforce_sorted=False))[0]
        states = pad_packed_sequence(read, True, total_length=x.shape[1])[0]
        return self.dropout(states * counts[..., None])


class Lookup(nn.Module):
    """Attention from decoder states to the memory, with one head; `kernel` may be swapped."""

    def __init__(self, score: Score, kernel: Kernel | str | None = None):
        super().__init__()
        self.score = score
        self.kernel: Kernel = named_kernel(kernel or "fastest")

    def forward(self, states: Tensor, at: Places, memory: Memory) -> Tensor:
        """States (B, T, D) attend to the memory (B, S, D) -> (B, T, D)"""
        features: set[Feature] = {*self.score.features}
        if torch.is_grad_enabled():
            features.add("gradient")
        pairs = Pairs(len(states), 1, at, memory.at)
        kind, channels = computed_in(states), memory.states.shape[-1]
        look = plan(self.kernel, Work(memory.seen, pairs, frozenset(features), kind, channels))
        query, held = states[:, None].to(kind), memory.states[:, None].to(kind)
        return look(query, held, held, score=self.score)[:, 0]


class RecurrentSide(SequenceNetwork):
    """The base of recurrent decoders. Tokens (B, T) -> logits of the next token (B, T, V)."""

    causal = True

    def __init__(
        self,
        embedding: nn.Module,
        head: nn.Module,
        width: int,
        depth: int,
        *,
        cell: str = "lstm",
        dropout: float = 0.1,
    ):
        super().__init__()
        check_dropout(dropout, width=width, depth=depth)
        same_width(width, embedding, head)
        self.width, self.embedding, self.head = width, embedding, head
        self.dropout = nn.Dropout(dropout)
        self.cells = cells_of(cell, width, depth, dropout)
        self.kinds = 2 if cell == "lstm" else 1  # kinds of state: hidden, and an LSTM's cell

    def new_cache(self) -> Carried:
        return Carried()

    def read(self, x: Tensor, begin: States | None) -> tuple[Tensor, States]:
        """Return the state after each token of x (B, T, D), and the last state of each layer."""
        states, end = self.cells(x, begin if begin is None or self.kinds == 2 else begin[0])
        return states, end if self.kinds == 2 else (end,)


class RecurrentDecoder(RecurrentSide):
    """A recurrent decoder whose state attends to the memory of an encoder."""

    def __init__(
        self,
        embedding: nn.Module,
        head: nn.Module,
        width: int,
        depth: int,
        *,
        cell: str = "lstm",
        attention: Score | None,
        dropout: float = 0.1,
        kernel: Kernel | str | None = None,
    ):
        super().__init__(embedding, head, width, depth, cell=cell, dropout=dropout)
        if attention is not None:
            check_score(attention, width, name="attention", where="this network")
        self.first = nn.Linear(width, self.kinds * depth * width)
        self.attention = None if attention is None else Lookup(attention, kernel)
        self.mix = nn.Linear(2 * width, width)
        init_fused(self.first, width)
        init_linear(self.mix)

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, cache: Carried | None = None
    ) -> Tensor:
        x = self.dropout(embed_sequences(self.embedding, tokens, self.width, "a recurrent network"))
        memory = looked_at(memory, x, self.width, "a recurrent network")

        def read(x: Tensor, begin: States | None) -> tuple[Tensor, States]:
            return self.read(x, self.beginning(memory) if begin is None else begin)

        begin = None if cache is None else as_carried(cache).resume(tokens, len(x), read)
        states, end = read(x, begin)
        if self.attention is None:
            context = mean_of(memory)[:, None].expand(-1, x.shape[1], -1)
        else:
            context = self.attention(states, tokens.at, memory)
        if cache is not None:
            cache.keep(begin, x, end)
        mixed = torch.tanh(self.mix(torch.cat([context, states], -1)))
        return self.head(self.dropout(mixed))

    def beginning(self, memory: Memory) -> States:
        """Compute the first state from the mean of the memory."""
        flat = torch.tanh(self.first(mean_of(memory)))  # (B, kinds L D)
        layers = flat.unflatten(-1, (self.kinds, -1, self.width)).permute(1, 2, 0, 3)
        return tuple(layers.contiguous())


class RecurrentWriter(RecurrentSide):
    """A recurrent language model: no source, no attention."""

    def forward(self, tokens: Tokens, memory: None = None, cache: Carried | None = None) -> Tensor:
        if memory is not None:
            raise ValueError("a memory came to a network that writes without one")
        x = self.dropout(embed_sequences(self.embedding, tokens, self.width, "a recurrent network"))
        begin = None if cache is None else as_carried(cache).resume(tokens, len(x), self.read)
        states, end = self.read(x, begin)
        if cache is not None:
            cache.keep(begin, x, end)
        return self.head(self.dropout(states))


class Carried:
    """The cache of a recurrent decoder: one state, for any length.

    The inputs of the last pass are kept with the state before it, so that `crop` can go back there.
    """

    def __init__(self) -> None:
        self.states: States | None = None
        self.before: States | None = None
        self.last: Tensor | None = None  # (B, T, D), the inputs between the two
        self.read = 0
        self.apart = False  # True after `put`: each row is at its own place

    def resume(
        self,
        tokens: Tokens,
        batch: int,
        read: Callable[[Tensor, States | None], tuple[Tensor, States]],
    ) -> States | None:
        """Return the state to continue from; None before the first token."""
        if not self.apart:
            goes_on(tokens, self.read)
        if self.last is not None:
            same_batch(self.last, batch)
            if self.states is None:  # after a crop into the last pass
                self.states = read(self.last, self.before)[1]
        return self.states

    def keep(self, before: States | None, x: Tensor, after: States) -> None:
        """Keep x and the states before and after it."""
        self.before, self.last, self.states = before, x, after
        self.read += x.shape[1]

    def select(self, rows: Tensor) -> None:
        """Keep these sequences of the batch, in this order."""
        self.states, self.before = (
            states and tuple(state[:, rows].contiguous() for state in states)
            for states in (self.states, self.before)
        )
        self.last = None if self.last is None else self.last[rows]

    def put(self, row: int, alone: Carried, batch: int, memory_tokens: int) -> None:
        """Replace this row by the one sequence of another cache; other rows do not change."""
        new = alone.states or ()
        held = self.states or [state.new_zeros(len(state), batch, state.shape[2]) for state in new]
        at = torch.tensor([row], device=new[0].device)
        both = zip(held, new, strict=True)
        self.states = tuple(state.index_copy(1, at, one) for state, one in both)
        self.before, self.last, self.apart = None, None, True

    def crop(self, length: int) -> None:
        """Go back to the first `length` tokens, as if the others had never been read."""
        check_crop(length, self.read)
        last = 0 if self.last is None else self.last.shape[1]
        if length == 0:
            self.forget()
        elif self.last is None or length < self.read - last:
            raise ValueError(
                f"a recurrent decoder holds one state and the {last} tokens that came in last: of "
                f"{self.read} it goes back to {self.read - last} or more, or to 0, not to {length}"
            )
        elif length < self.read:
            kept = last - (self.read - length)
            self.last, self.states = self.last[:, :kept], None
            if not kept:
                self.last, self.states, self.before = None, self.before, None
            self.read = length

    def reorder(self, rows: Tensor) -> None:
        """Take the states of these rows; this cache holds no memory."""
        self.select(rows)

    def forget(self) -> None:
        self.states, self.before, self.last, self.read = None, None, None, 0
        self.apart = False


def cells_of(
    cell: str, width: int, depth: int, dropout: float, both_ways: bool = False
) -> nn.LSTM | nn.GRU:
    """Make recurrent layers, initialised so that states neither vanish nor explode."""
    cells = find_named(CELLS, "cell", cell)(
        width,
        width // 2 if both_ways else width,
        depth,
        batch_first=True,
        bidirectional=both_ways,
        dropout=dropout if depth > 1 else 0.0,  # torch warns of dropout in a single layer
    )
    init_cells(cells)
    return cells


def mean_of(memory: Memory) -> Tensor:
    return mean_states(memory.states, memory.seen, memory.at)


def as_carried(cache: Any) -> Carried:
    if not isinstance(cache, Carried):
        raise ValueError(
            f"a recurrent decoder keeps its state in a Carried, a {type(cache).__name__} arrived; "
            "its new_cache() makes one"
        )
    return cache


# ---- from settings ---------------------------------------------------------------------------


def build_encoder_side(network: RecurrentConfig, embedding: Embedding) -> RecurrentEncoder:
    return RecurrentEncoder(
        embedding, network.width, network.one_depth(), cell=network.cell, dropout=network.dropout
    )


def build_decoder_side(
    network: RecurrentConfig, embedding: Embedding, head: nn.Module, cross: bool
) -> nn.Module:
    measures: Any = {
        "width": network.width,
        "depth": network.one_depth(),
        "cell": network.cell,
        "dropout": network.dropout,
    }
    if not cross:
        return RecurrentWriter(embedding, head, **measures)
    attention = build_score(network.score, network.width)
    return RecurrentDecoder(embedding, head, **measures, attention=attention)
