"""Draw images with a decoding step that is recorded once as a CUDA graph and replayed.

On other devices the same code runs without a graph.

B images, N tokens, P values of a token, F tokens read for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from typing import cast

import torch
from torch import Tensor

from manyheads.attention.cache import Ring, Static
from manyheads.attention.kernels import Fastest
from manyheads.attention.kernels.single import Single
from manyheads.attention.layer import Attention
from manyheads.attention.places import Grid, Pairs
from manyheads.decoding.config import Sampling
from manyheads.decoding.cuda_graph import attention_of, capture, swap_kernel, weigh_on_device
from manyheads.decoding.sample import as_keys, draw_key, make_noise, pick_first
from manyheads.modules.fused import fuse_sublayers
from manyheads.modules.stack import Block
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.network import PixelNetwork


class ImageRecorder:
    """A batch of images, and a step that draws one token of each; all data stays on the device."""

    def __init__(
        self,
        network: PixelNetwork,
        codec: PixelCodec,
        condition: Tensor | None,
        how: Sampling,
        batch: int,
    ):
        self.network, self.codec, self.how = network, codec, how
        device = network.nearby.device
        self.places, _ = codec.on(device)
        self.canvas = torch.full((batch, codec.tokens + 1), codec.start, device=device)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.keys = torch.zeros(batch, codec.tokens * codec.parts, dtype=torch.int32, device=device)
        self.cache = network.make_ring(self.places) or Static(self.places)
        self.condition = None if condition is None else condition.clone()  # (B, 1 or N, D)
        self.said = torch.zeros(batch, network.likelihood.outputs, device=device)

    def start(self, condition: Tensor | None) -> None:
        """Start new images at their first token."""
        if self.condition is not None and condition is not None:
            self.condition.copy_(condition)
        self.place.zero_()

    @torch.no_grad()
    def __call__(self, new: Tensor) -> Tensor:
        """Last tokens (B, 1) -> outputs of the head for the next (B, O), to score tokens without
        drawing them. The next call overwrites the result.
        """
        self.canvas.index_copy_(1, self.place, new)
        self.score()
        self.place.add_(1)
        return self.said

    def draw(
        self,
        given: Tensor,
        condition: Tensor | None,
        numbers: Sequence[int],
        told: Callable[[float], None] = lambda more: None,
    ) -> Tensor:
        """Complete the `given` tokens (B, n) to images (B, N); samples are seeded by `numbers`."""
        begun = given.shape[1]
        self.start(condition)
        chances = [Random(f"{self.how.seed} {number}") for number in numbers]
        drawn = (self.codec.tokens - begun) * self.codec.parts
        rows = [[draw_key(chance) for _ in range(drawn)] for chance in chances]
        self.keys[:, begun * self.codec.parts :] = as_keys(rows, given.device)
        self.canvas[:, 1 : begun + 1] = given
        if begun == self.codec.tokens:
            return given
        if isinstance(self.cache, Ring):
            for _ in range(begun):
                self.play()
                self.canvas[:, 1 : begun + 1] = given  # restore what the step overwrote
        elif begun:  # all but the last, which is read by the first step
            first = torch.arange(begun, device=given.device)
            self.read(self.canvas[:, self.network.nearby[:begun]], self.places[:begun], first)
            self.place.fill_(begun)
        for _ in range(begun, self.codec.tokens):
            self.play()
            told(len(given))
        return self.canvas[:, 1:].clone()

    def read(self, near: Tensor, at: Grid, rows: Tensor) -> Tensor:
        """Tokens (B, T, F) at these places (T,) -> outputs of the head after the last, (B, O)"""
        added = self.condition
        if added is not None and added.shape[1] > 1:
            added = added.index_select(1, rows)
        states = self.network.states(near, at, added, self.cache)
        return self.network.say(states[:, -1])

    def look(self) -> None:
        """Write the outputs of the head after the token at this place into `said`."""
        near = self.network.nearby.index_select(0, self.place)  # (1, F)
        axes = tuple(axis.index_select(0, self.place) for axis in self.places.axes)
        at = Grid(self.place, axes, self.places.sizes)
        with fuse_sublayers(self.network.writer, len(self.canvas)):
            self.said.copy_(self.read(self.canvas[:, near], at, self.place))

    def step(self) -> None:
        self.look()
        parts, levels = self.codec.parts, self.codec.levels
        which = self.place * parts + torch.arange(parts, device=self.place.device)
        keys = self.keys.index_select(1, which).flatten()
        noise = make_noise(keys, levels).unflatten(0, (-1, parts))  # of all values at once

        def draw(logs: Tensor, part: int) -> Tensor:
            if self.how.chosen == "greedy":
                return logs.argmax(-1)
            return pick_first(weigh_on_device(logs, self.how), noise[:, part])

        values = self.network.likelihood.choose_values(self.said, draw)
        self.canvas.index_copy_(1, self.place + 1, self.codec.join(values)[:, None])
        self.place.add_(1)

    @cached_property
    def play(self) -> Callable[[], None]:
        return self.record(self.step)

    @cached_property
    def score(self) -> Callable[[], None]:
        return self.record(self.look)

    def record(self, step: Callable[[], None]) -> Callable[[], None]:
        """Record a step as a CUDA graph and return its replay; elsewhere return the step itself."""
        if not self.place.is_cuda:
            return step
        with swap_kernel(self.network.writer, self.choose_kernel()):
            return capture(self.place, step, [self.place])  # all else is written again

    def choose_kernel(self) -> Fastest | Single:
        """Return a kernel that reads only the filled part of the cache, if it fits all layers."""
        stack, single = self.network.writer.stack, Single()
        at = Grid(self.place, self.places.axes, self.places.sizes)
        for block, pattern in zip(cast(list[Block], stack.blocks), stack.patterns, strict=True):
            layer: Attention = attention_of(block)
            pairs = Pairs(len(self.canvas), layer.heads, at, self.places)
            if single.refuses(layer.work(pattern, pairs, layer.out.weight)):
                return Fastest()
        return single
