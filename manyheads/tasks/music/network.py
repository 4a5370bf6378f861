"""A decoder that knows the voice, step and pitch of each token of music.

The input is [start, S A T B, S A T B, ...], or single events for one voice: the voice and step of
a token follow from its place in the sequence, the pitch follows from its id.

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
    """A decoder whose token types, if it has any, are the voices. With `measured`, tokens lie on a
    grid of time, step and pitch, and the relative position uses the distance in each of them.
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
        """`pitches` is the pitch of every token id of the vocabulary."""
        super().__init__(embedding, stack, head)
        self.voices, self.measured = voices, measured
        self.typed = getattr(embedding, "types", None) is not None
        # Not saved with the weights: the codec gives it.
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
        """Return the places and token types, from the time and the id of each token."""
        if not isinstance(at, Grid) or len(at.axes) != 1:
            raise ValueError(f"music is read along a line, but {at.name} arrived")
        turn = at.axes[0] + self.voices - 1  # the start token has the place of a last voice
        if self.typed:
            types = (turn % self.voices).expand(ids.shape)
        if self.measured:
            axes, sizes = [*at.axes], [*at.sizes]
            if self.voices > 1:
                axes.append(turn // self.voices)
                sizes.append((at.sizes[0] + self.voices - 2) // self.voices + 1)
            axes.append(self.pitch_of[ids])
            sizes.append(PITCHES)
            # Documents that share a row are no longer one line each.
            at = replace(at, axes=tuple(axes), sizes=tuple(sizes), documents=False)
        return at, types


class Timed(Position):
    """A position encoding that sees only the time of each place."""

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
    """Build a network that writes music: `pitches` is the pitch of every token id, and `voices` is
    how many voices take turns.
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
        axes = 3 if voices > 1 else 2  # time, step and pitch; with one voice, step is time
        layers = Stack.of(
            network,
            patterns,
            position=below and Timed(below),
            relative=value.build(network, axes, PITCHES),
        )
    else:
        layers = build_stack(network, patterns)
    return MusicDecoder(table, layers, head, pitches=pitches, voices=voices, measured=measured)
