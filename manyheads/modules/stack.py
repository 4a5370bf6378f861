"""A stack of Transformer blocks; each pass makes one attention plan for each different pattern.

B batch, T tokens, D model width.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from manyheads.attention.cache import Cache, Slot
from manyheads.attention.evaluate import counts_rows, horizon, looks_ahead
from manyheads.attention.kernels import Kernel, Plan, refuse_nonfinite
from manyheads.attention.kernels import kernel as named_kernel
from manyheads.attention.kernels.base import make_plan
from manyheads.attention.layer import Attention, describe_misplaced
from manyheads.attention.patterns import Causal, Everything, Lengths, Pattern, Prefix, is_builtin
from manyheads.attention.places import Pairs, Places
from manyheads.attention.positions import Position, Relative, share_pass
from manyheads.modules.config import TransformerConfig
from manyheads.modules.layers import FEED_FORWARDS, NORMS, Sublayer, init_parts

T = TypeVar("T")


class Memory(NamedTuple):
    """What a decoder attends to: the encoder's states, their places, and a mask of padding."""

    states: Tensor  # (B, T, D)
    at: Places
    seen: Pattern = Everything()

    def select(self, rows: Tensor) -> Memory:
        """Return the memory of these sequences of the batch, in this order."""
        return Memory(self.states[rows], self.at.select(rows), self.seen.select(rows))


class Block(nn.Module):
    """Self-attention, cross-attention if there is a memory, then the feed-forward layer."""

    def __init__(
        self,
        self_attention: Sublayer,
        feed_forward: Sublayer,
        cross_attention: Sublayer | None = None,
    ):
        super().__init__()
        self.self_attention, self.cross_attention = self_attention, cross_attention
        self.feed_forward = feed_forward

    def forward(
        self,
        x: Tensor,
        within: Plan,
        memory: Tensor | None = None,
        across: Plan | None = None,
        slot: Slot | None = None,
        given_values: Tensor | None = None,
    ) -> Tensor:
        x = self.self_attention(x, within, slot=slot, given_values=given_values)
        if self.cross_attention is not None:
            x = self.cross_attention(x, across, memory=memory, slot=slot)
        return self.feed_forward(x)


class Stack(nn.Module):
    """Embeddings and places in, states out; `kernel` computes attention and may be swapped, and
    `fused` may be set.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        patterns: Sequence[Pattern],
        *,
        position: Position | None = None,
        entry: nn.Module | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        scalars: bool = False,
        value_tables: int = 0,
        kernel: Kernel | str | None = None,
    ):
        """`entry` is a norm before the first block, `norm` one after the last. With `scalars` each
        block reads a learned mix of its input and the first block's input. The first and the
        last `value_tables` blocks get value embeddings of the tokens.
        """
        super().__init__()
        if not blocks or len(blocks) != len(patterns):
            raise ValueError(
                f"each block has a pattern: {len(blocks)} blocks came with {len(patterns)}"
            )
        if not isinstance(position, Position | None):
            raise ValueError(describe_misplaced(position, "position", Relative))
        for pattern in patterns:
            if not isinstance(pattern, Pattern):
                raise ValueError(f"a layer's pattern is one like Causal(), got {pattern!r}")
            if not pattern.fixed:
                raise ValueError(
                    f"{pattern} belongs to one batch; a layer owns a "
                    "pattern that holds for all, like Causal()"
                )
        first = cast(Attention, blocks[0].self_attention.part)
        self.width, self.heads = first.width, first.heads
        self.blocks, self.patterns = nn.ModuleList(blocks), tuple(patterns)
        self.position = position or Position()
        self.entry, self.norm = entry or nn.Identity(), norm or nn.Identity()
        self.dropout = nn.Dropout(dropout)
        depth = len(blocks)
        # Vectors, so that weight decay, which is for matrices, leaves them alone.
        self.keeps = nn.Parameter(torch.ones(depth)) if scalars else None
        self.returns = nn.Parameter(torch.zeros(depth)) if scalars else None
        self.value_tables = value_tables
        self.kernel: Kernel = named_kernel(kernel or "fastest")
        self.fused = False  # whether recorded steps use the programs of modules/fused.py

    def forward(
        self,
        x: Tensor,
        at: Places,
        seen: Pattern = Everything(),
        memory: Memory | None = None,
        cache: Cache | None = None,
        values: Sequence[Tensor] = (),
    ) -> Tensor:
        """x is (B, T, D) at its places; `seen` is this batch's pattern: Lengths, Segments; each of
        `values` (B, T, G C) goes into one of the first layers and one of the last.
        """
        self.check(x, at, memory)
        at = share_pass(at)
        if len(values) != self.value_tables:
            raise ValueError(
                f"a stack of {self.value_tables} value embeddings got {len(values)}; an Embedding "
                "with as many makes them of tokens"
            )
        x = first = self.dropout(self.entry(self.position(x, at)))
        within, across = self.plans(x, at, seen, memory, cache)
        states = None if memory is None else memory.states
        for i, (block, own) in enumerate(zip(self.blocks, within, strict=True)):
            slot = None if cache is None else Slot(cache, i)
            if self.keeps is not None and self.returns is not None:
                x = self.keeps[i] * x + self.returns[i] * first
            x = block(x, own, states, across[i], slot, value_of(values, i, len(self.blocks)))
        return self.norm(x)

    def plans(
        self, x: Tensor, at: Places, seen: Pattern, memory: Memory | None, cache: Cache | None
    ) -> tuple[list[Plan], list[Plan | None]]:
        """Make each layer's plans for self- and cross-attention; equal layers share a plan."""
        made: dict[Any, Plan] = {}

        def planned(sublayer: nn.Module, pattern: Pattern, keys: Places, which: Any) -> Plan:
            attention = cast(Attention, cast(Sublayer, sublayer).part)
            pairs = Pairs(len(x), attention.heads, at, keys)
            work = attention.work(pattern, pairs, x)
            alike = which, work.features, work.channels, pairs.heads, work.key_heads, work.kinds
            if alike not in made:
                made[alike] = make_plan(self.kernel, work)
            return made[alike]

        if cache is not None and not cache.ragged and holds_lengths(seen):
            raise ValueError(
                "sequences of different lengths do not go on together in a Growing cache; "
                "a Static one takes each on at its own place, line(1, start=lengths)"
            )
        # A compiled step is not the first to use the cache: the patterns were tried before.
        untried = cache is not None and not torch.compiler.is_compiling()
        for own in dict.fromkeys(self.patterns if untried else ()):
            if not is_builtin(own) and counts_rows(own, self.heads):
                raise ValueError(
                    f"{own} counts rows, and with a cache they are those of the new tokens alone; "
                    "pair.q.axes[0] counts from the first token"
                )
        keys, written = (
            (at, cast(Pattern, Everything())) if cache is None else cache.reach(at, len(x))
        )
        self.refuse_ahead(at, seen, cache)
        # A causal pattern never sees a slot that is still empty.
        joined = {
            own: own & seen if Causal() in own.parts() else own & seen & written
            for own in dict.fromkeys(self.patterns)
        }
        within: list[Plan] = []
        across: list[Plan | None] = []
        for block, own in zip(cast(list[Block], self.blocks), self.patterns, strict=True):
            within.append(planned(block.self_attention, joined[own], keys, own))
            if block.cross_attention is None or memory is None:
                across.append(None)
            else:
                look = planned(block.cross_attention, memory.seen, memory.at, "memory")
                across.append(look)
        return within, across

    def refuse_ahead(self, at: Places, seen: Pattern, cache: Cache | None) -> None:
        """Refuse a prefix that would change nothing, and a cache if tokens see later ones that are
        not there yet: cached tokens are not computed again when those come."""
        if all(horizon(own) == 0 for own in self.patterns):
            if any(isinstance(part, Prefix) for part in seen.parts()):
                raise ValueError(
                    f"{seen} lets tokens see later ones, and layers that see {self.patterns[0]} do "
                    "not; a prefix language model has layers that see Everything(), in a "
                    "Decoder(..., causal=False)"
                )
            return
        for own in dict.fromkeys(self.patterns if cache is not None else ()):
            known = [place for place in (horizon(own), horizon(seen)) if place is not None]
            if not known and (ahead := looks_ahead(own, self.heads)):
                raise ValueError(
                    f"{own} needs tokens that a cache does not have yet: {ahead}; "
                    "read them all at once, or write with Causal()"
                )
            if not known:
                continue
            # How many tokens each sequence has, at least, with these.
            come = int(at.order.amax(-1).min()) + 1 if at.first is None else at.first + len(at)
            if come < min(known):
                raise ValueError(
                    f"{own & seen} lets the first {min(known)} tokens see each other and {come} "
                    f"came to the cache; read {min(known)} or more at once, then go on"
                )
            if cache is not None:
                cache.together = max(cache.together, min(known))

    def check(self, x: Tensor, at: Places, memory: Memory | None) -> None:
        """Refuse inputs that do not fit, before any kernel runs."""
        blocks = cast(list[Block], self.blocks)
        width = self.width
        check_states(x, at, width, "tokens")
        looks = any(block.cross_attention is not None for block in blocks)
        if looks != (memory is not None):
            raise ValueError(
                "this stack looks at a memory and none came; give it memory=Memory(states, places)"
                if looks
                else "a memory came to a stack that looks at none; build it with cross=True"
            )
        if memory is not None:
            if not isinstance(memory, Memory):
                raise ValueError(
                    f"a memory is Memory(states, places), a {type(memory).__name__} arrived"
                )
            check_states(memory.states, memory.at, width, "tokens of the memory")
            if len(memory.states) != len(x):
                raise ValueError(f"{len(x)} sequences came with the memory of {len(memory.states)}")
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            refuse_nonfinite(
                x.detach(), "the input of a stack"
            )  # on a GPU this would wait for it; see Checked

    @staticmethod
    def of(
        config: TransformerConfig,
        pattern: Pattern | Sequence[Pattern] = Everything(),
        *,
        position: Position | None = None,
        relative: Relative | None = None,
        cross: bool = False,
        kernel: Kernel | str | None = None,
    ) -> Stack:
        """Build a stack with the sizes of a config. Patterns and positions are given as objects:
        one pattern for all layers or one each; every layer gets a copy of `relative`.
        """
        if not isinstance(config, TransformerConfig):
            raise ValueError(
                f"a stack is of a TransformerConfig(width=..., depth=...), got {config!r}"
            )
        depth, first = config.one_depth(), config.norm_position == "pre"
        one = isinstance(pattern, Pattern | str | type)
        patterns = [pattern] * depth if one else list(cast(Sequence[Pattern], pattern))
        tables = config.value_embeddings
        blocks = [
            build_block(config, relative, cross, mix=value_of(range(tables), i, depth) is not None)
            for i in range(depth)
        ]
        parts = [cast(Sublayer, one).part for block in blocks for one in block.children()]
        init_parts(parts, config.init, residual=first and config.residual)
        return Stack(
            blocks,
            cast(list[Pattern], patterns),
            position=position,
            entry=build_norm(config) if config.embedding_norm else None,
            norm=build_norm(config) if first else None,
            dropout=config.dropout,
            scalars=config.residual_scalars,
            value_tables=tables,
            kernel=kernel,
        )


def value_of(values: Sequence[T], layer: int, depth: int) -> T | None:
    """Return the value of a layer: the first layers have one each, the last ones the same again."""
    if layer < len(values):
        return values[layer]
    from_end = layer - (depth - len(values))
    return values[from_end] if from_end >= 0 else None


def holds_lengths(pattern: Pattern) -> bool:
    return any(isinstance(part, Lengths) for part in pattern.parts())


def check_states(x: Tensor, at: Places, width: int, what: str) -> None:
    if x.dim() != 3 or x.shape[2] != width:
        raise ValueError(f"{what} are (B, T, {width}), {tuple(x.shape)} arrived")
    if x.shape[1] != len(at):
        raise ValueError(f"{x.shape[1]} {what} came with places for {len(at)}; each has one")


def build_block(
    config: TransformerConfig, relative: Relative | None, cross: bool, mix: bool = False
) -> Block:
    """Build a block; `mix`: the layer gets a value embedding."""

    def sublayer(part: nn.Module) -> Sublayer:
        return Sublayer(
            part,
            build_norm(config),
            norm_position=config.norm_position,
            dropout=config.dropout,
            residual=config.residual,
        )

    attention = partial(
        Attention,
        config.width,
        config.heads,
        key_heads=config.key_heads,
        dropout=config.attention_dropout,
        bias=config.bias,
        qk_norm=config.qk_norm,
    )
    think = find_named(FEED_FORWARDS, "feed-forward layer", config.feed_forward)
    return Block(
        self_attention=sublayer(attention(relative=copy.deepcopy(relative), value_mix=mix)),
        cross_attention=sublayer(attention()) if cross else None,
        feed_forward=sublayer(
            think(config.width, config.ffn_width, dropout=config.dropout, bias=config.bias)
        ),
    )


def build_norm(config: TransformerConfig) -> nn.Module:
    return find_named(NORMS, "norm", config.norm)(config.width, config.norm_epsilon, config.bias)


def find_named(table: dict[str, T], what: str, name: str) -> T:
    if name not in table:
        raise ValueError(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]
