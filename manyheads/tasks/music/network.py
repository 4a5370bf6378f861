"""A decoder that reads music as it stands on paper: voices, steps and pitches.

What is read is [start, S A T B, S A T B, ...], or single events where there is one voice: each
token's voice and step follow from its time, and its pitch from what it is.

B batch, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from manyheads.attention.cache import Cache, Static
from manyheads.attention.places import Grid, Places
from manyheads.attention.positions import Position
from manyheads.modules.build import (
    build_decoder,
    build_embedding,
    build_head,
    build_position,
    build_stack,
    causal_patterns,
)
from manyheads.modules.config import NetworkConfig, TransformerConfig
from manyheads.modules.stack import Memory, Stack
from manyheads.modules.transformer import Decoder, Tokens
from manyheads.tasks.music.notes import PITCHES
from manyheads.tasks.music.settings import ScoreContentValue


class MusicDecoder(Decoder):
    """Tells `voices` apart where its embedding has types; `measured`, its tokens lie on a grid
    of time, step and pitch, so that one relative position knows how far apart two are in each.
    """

    pitch_of: Tensor

    def __init__(
        self,
        embedding: nn.Module,
        stack: Stack,
        head: nn.Module,
        *,
        pitches: Sequence[int],
        voices: int = 1,
        measured: bool = False,
    ):
        """`pitches` says of every number of the vocabulary which pitch it speaks of."""
        super().__init__(embedding, stack, head)
        self.voices, self.measured = voices, measured
        self.typed = getattr(embedding, "types", None) is not None
        # Not among the weights: the codec says it again.
        self.register_buffer("pitch_of", torch.tensor(pitches), persistent=False)

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, cache: Cache | None = None
    ) -> Tensor:
        if self.measured and isinstance(cache, Static):
            raise ValueError(
                "a Static cache knows the places of its slots and not the pitches that will be "
                "in them; a Growing cache would do, or a network without ScoreContent"
            )
        return super().forward(tokens, memory, cache)

    def places_and_types(
        self, ids: Tensor, at: Places, types: Tensor | None = None
    ) -> tuple[Places, Tensor | None]:
        """Places and types, made from the time and the number of each token."""
        if not isinstance(at, Grid) or len(at.axes) != 1:
            raise ValueError(f"music is read along a line, but {at.name} arrived")
        turn = at.axes[0] + self.voices - 1  # the start is in the place of a last voice
        if self.typed:
            types = (turn % self.voices).expand(ids.shape)
        if self.measured:
            axes, sizes = [*at.axes], [*at.sizes]
            if self.voices > 1:
                axes.append(turn // self.voices)
                sizes.append((at.sizes[0] + self.voices - 2) // self.voices + 1)
            axes.append(self.pitch_of[ids])
            sizes.append(PITCHES)
            # Documents that share a row are no longer a line each.
            at = replace(at, axes=tuple(axes), sizes=tuple(sizes), documents=False)
        return at, types


class Timed(Position):
    """A position that is given only the time of each place."""

    def __init__(self, position: Position):
        super().__init__()
        self.position = position

    def forward(self, x: Tensor, at: Places) -> Tensor:
        if isinstance(at, Grid):
            at = replace(at, axes=at.axes[:1], sizes=at.sizes[:1])
        placed: Tensor = self.position(x, at)
        return placed


def music_decoder(
    network: NetworkConfig, vocabulary: int, pitches: Sequence[int], voices: int
) -> nn.Module:
    """A network that writes music: `pitches` says of which pitch each number of the vocabulary
    speaks, and so many `voices` take turns.
    """
    if not isinstance(network, TransformerConfig):
        return build_decoder(network, vocabulary)
    value = network.relative_value or network.position_value
    measured = isinstance(value, ScoreContentValue)
    if not (measured or network.token_types):
        return build_decoder(network, vocabulary)
    table = build_embedding(network, vocabulary)
    head, patterns = build_head(network, table), causal_patterns(network)
    if isinstance(value, ScoreContentValue):
        below = build_position(network)
        axes = 3 if voices > 1 else 2  # time and pitch, and between them steps where they differ
        layers = Stack.of(
            network,
            patterns,
            position=below and Timed(below),
            relative=value.build(network, axes, PITCHES),
        )
    else:
        layers = build_stack(network, patterns)
    return MusicDecoder(table, layers, head, pitches=pitches, voices=voices, measured=measured)
