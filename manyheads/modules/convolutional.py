"""Networks of gated convolutions, which see more tokens with each layer (ConvS2S, ByteNet).

B batch, T tokens, D model width, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.cache import Growing, Slot, check_crop, put_row, same_batch
from manyheads.attention.kernels import Kernel, Plan, plan
from manyheads.attention.kernels import kernel as named_kernel
from manyheads.attention.layer import Attention
from manyheads.attention.places import Pairs
from manyheads.attention.positions import Position, Sinusoidal
from manyheads.modules.checks import (
    check_dropout,
    embed_sequences,
    goes_on,
    looked_at,
    mask_padding,
    same_width,
)
from manyheads.modules.config import ConvolutionalConfig
from manyheads.modules.layers import init_convolution, init_linear
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Embedding, SequenceNetwork, Tokens

HALF = math.sqrt(0.5)  # the sum of two tensors, times this, keeps their variance


class Gated(nn.Module):
    """A convolution with a gated linear unit (GLU): (B, D, T) -> (B, D, T').

    It does not pad: the caller knows what comes before and after the tokens.
    """

    def __init__(self, width: int, span: int, dilation: int, dropout: float):
        super().__init__()
        self.convolution = nn.Conv1d(width, 2 * width, span, dilation=dilation)
        self.reach = (span - 1) * dilation  # how many other tokens it sees
        init_convolution(self.convolution, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(self.convolution(x), 1)


class ConvolutionalEncoder(SequenceNetwork):
    """A bidirectional encoder; a layer sees `span` tokens. Tokens (B, T) -> states (B, T, D)."""

    def __init__(
        self,
        embedding: nn.Module,
        width: int,
        dilations: tuple[int, ...] = (1, 1, 1, 1),
        *,
        span: int = 3,
        position: Position | None = None,
        dropout: float = 0.1,
    ):
        super().__init__()
        check_convolution(dilations, position, dropout, width=width, span=span)
        same_width(width, embedding)
        if span % 2 == 0:
            raise ValueError(
                f"an encoder sees as far left as right, so its span is odd, got {span}; "
                f"{span - 1} or {span + 1} would do"
            )
        self.width, self.embedding = width, embedding
        self.position, self.dropout = position or Position(), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Gated(width, span, step, dropout) for step in dilations)

    def forward(self, tokens: Tokens) -> Tensor:
        x = embed_sequences(self.embedding, tokens, self.width, "a convolutional network")
        x = self.dropout(self.position(x, tokens.at)).mT  # (B, D, T)
        counts = mask_padding(tokens.seen, tokens.at, len(x))
        # Padding is set to zero, like the places beyond the end of an unpadded sequence.
        kept = 1 if counts is None else counts[:, None].to(x.dtype)
        x = x * kept
        for block in cast(list[Gated], self.blocks):
            side = block.reach // 2
            x = (x + block(F.pad(self.dropout(x), (side, side)))) * HALF * kept
        return x.mT


class ConvolutionalBlock(nn.Module):
    """A convolution over the last tokens, then attention to the memory."""

    def __init__(self, width: int, heads: int, span: int, dilation: int, dropout: float):
        super().__init__()
        self.gated = Gated(width, span, dilation, dropout)
        self.attention = Attention(width, heads)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        before: Tensor,
        word: Tensor,
        memory: Tensor,
        across: Plan,
        slot: Slot | None,
    ) -> Tensor:
        """x and the word embeddings are (B, T, D), the inputs `before` x are (B, reach, D)."""
        near = self.gated(self.dropout(torch.cat([before, x], 1)).mT).mT
        found = self.attention((near + word) * HALF, across, memory=memory, slot=slot)
        return (x + (near + found) * HALF) * HALF


class ConvolutionalDecoder(SequenceNetwork):
    """A decoder that sees its last tokens, and attends to the memory in every layer.

    Tokens (B, T) -> scores of the next token (B, T, V). `dilations` of (1, 2, 4, 8) see 31 tokens
    with a span of 3, (1, 1, 1, 1) see 9.
    """

    causal = True

    def __init__(
        self,
        embedding: nn.Module,
        head: nn.Module,
        width: int,
        dilations: tuple[int, ...] = (1, 1, 1, 1),
        *,
        heads: int = 1,
        span: int = 3,
        position: Position | None = None,
        dropout: float = 0.1,
        kernel: Kernel | str | None = None,
    ):
        super().__init__()
        check_convolution(dilations, position, dropout, width=width, span=span)
        same_width(width, embedding, head)
        self.width, self.embedding, self.head = width, embedding, head
        self.position, self.dropout = position or Position(), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            ConvolutionalBlock(width, heads, span, dilation, dropout) for dilation in dilations
        )
        self.out = nn.Linear(width, width)
        self.kernel: Kernel = named_kernel(kernel or "fastest")
        init_linear(self.out)

    def new_cache(self) -> Recent:
        return Recent()

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, cache: Recent | None = None
    ) -> Tensor:
        x = embed_sequences(self.embedding, tokens, self.width, "a convolutional network")
        memory = looked_at(memory, x, self.width, "a convolutional network")
        if cache is not None:
            as_recent(cache).resume(tokens, len(x))
        x = word = self.dropout(self.position(x, tokens.at))
        blocks = cast(list[ConvolutionalBlock], self.blocks)
        attention = blocks[0].attention
        pairs = Pairs(len(x), attention.heads, tokens.at, memory.at)
        across = plan(self.kernel, attention.work(memory.seen, pairs, x))
        for i, block in enumerate(blocks):
            reach = block.gated.reach
            if cache is None:
                before, slot = x.new_zeros(len(x), reach, self.width), None
            else:
                before, slot = cache.before(i, x, reach), Slot(cache.memory, i)
            x = block(x, before, word, memory.states, across, slot)
        if cache is not None:
            cache.first, cache.read = cache.read, cache.read + x.shape[1]
        return self.head(self.dropout(self.out(x)))


class Recent:
    """The cache of a convolutional decoder: each layer's last inputs, and the memory's keys.

    It also keeps the inputs of the whole last pass, so that it can go back to any token of it.
    """

    def __init__(self) -> None:
        self.inputs: dict[int, Tensor] = {}  # each (B, reach + tokens of the last pass, D)
        self.memory = Growing()  # holds only keys and values of the memory
        self.read = 0
        self.first = 0  # the first token of the last pass
        self.apart = False  # True after `put`: each row is at its own place

    def resume(self, tokens: Tokens, batch: int) -> None:
        if not self.apart:
            goes_on(tokens, self.read)
        for kept in self.inputs.values():
            same_batch(kept, batch)

    def before(self, layer: int, x: Tensor, reach: int) -> Tensor:
        """Return the inputs before x, zeros at the beginning; keep x for the next step."""
        held = self.inputs.get(layer)
        if held is None:
            before = x.new_zeros(len(x), reach, x.shape[2])
        else:
            before = held[:, held.shape[1] - reach :]
        self.inputs[layer] = torch.cat([before, x], 1)
        return before

    def select(self, rows: Tensor) -> None:
        """Keep these sequences of the batch, in this order."""
        self.reorder(rows)
        self.memory.select(rows)

    def reorder(self, rows: Tensor) -> None:
        """Take the inputs of these rows, but keep the memories."""
        self.inputs = {layer: kept[rows] for layer, kept in self.inputs.items()}

    def put(self, row: int, alone: Recent, batch: int, memory_tokens: int) -> None:
        """Replace this row by the one sequence of another cache; other rows do not change."""
        for layer, new in alone.inputs.items():
            if layer not in self.inputs:
                self.inputs[layer] = new.new_zeros(batch, *new.shape[1:])
            kept = self.inputs[layer]
            last = new[0, max(new.shape[1] - kept.shape[1], 0) :]
            kept[row].zero_()
            kept[row, kept.shape[1] - len(last) :] = last
        put_row(self.memory.memory, row, alone.memory.memory, batch, memory_tokens)
        self.apart = True

    def crop(self, length: int) -> None:
        """Go back to the first `length` tokens, as if the others had never been read."""
        check_crop(length, self.read)
        if length == 0:
            self.inputs = {}
        elif length < self.first:
            raise ValueError(
                f"a convolutional decoder holds what its last {self.read - self.first} tokens saw: "
                f"of {self.read} it goes back to {self.first} or more, or to 0, not to {length}"
            )
        spare = self.read - length
        self.inputs = {i: kept[:, : kept.shape[1] - spare] for i, kept in self.inputs.items()}
        self.read, self.first = length, min(self.first, length)

    def forget(self) -> None:
        self.inputs, self.read, self.first, self.apart = {}, 0, 0, False
        self.memory.forget()


def check_convolution(dilations: Any, position: Any, dropout: float, **measures: int) -> None:
    """Refuse wrong arguments of a convolutional network."""
    check_dropout(dropout, **measures)
    steps = dilations if isinstance(dilations, tuple) else ()
    if not steps or not all(isinstance(step, int) and step >= 1 for step in steps):
        raise ValueError(
            "dilations are a whole number from 1 up for each layer, as in (1, 2, 4), "
            f"got {dilations!r}"
        )
    if not isinstance(position, Position | None):
        raise ValueError(
            f"position= takes a part that changes embeddings, like Sinusoidal(), got {position!r}"
        )


def as_recent(cache: Any) -> Recent:
    if not isinstance(cache, Recent):
        raise ValueError(
            f"a convolutional decoder keeps what it sees in a Recent, a {type(cache).__name__} "
            "arrived; its new_cache() makes one"
        )
    return cache


# ---- from settings ---------------------------------------------------------------------------


def build_encoder_side(network: ConvolutionalConfig, embedding: Embedding) -> nn.Module:
    return ConvolutionalEncoder(
        embedding,
        network.width,
        network.dilations or (1,) * network.one_depth(),
        position=Sinusoidal(),
        dropout=network.dropout,
    )


def build_decoder_side(
    network: ConvolutionalConfig, embedding: Embedding, head: nn.Module, cross: bool
) -> nn.Module:
    if not cross:
        raise ValueError(
            "a convolutional network writes from a source and has none here; "
            "transformer or recurrent would do"
        )
    return ConvolutionalDecoder(
        embedding,
        head,
        network.width,
        network.dilations or (1,) * network.one_depth(),
        position=Sinusoidal(),
        dropout=network.dropout,
    )
