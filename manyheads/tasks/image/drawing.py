"""Draw images token by token.

B images, N tokens, P values of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from random import Random

import torch
from torch import Tensor

from manyheads.attention.cache import Ring
from manyheads.attention.kernels import is_wrapper
from manyheads.decoding.config import Sampling
from manyheads.decoding.sample import as_keys, draw_key, pick, weigh_tokens
from manyheads.decoding.step import CachedStep
from manyheads.modules.transformer import Decoder
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.network import PixelNetwork
from manyheads.tasks.image.recorded import ImageRecorder

AT_ONCE = 64  # images in a batch


class ImageStep(CachedStep):
    """A decoding step that keeps all tokens: the next one also reads those near it."""

    decoder: PixelNetwork

    def __init__(self, decoder: PixelNetwork, codec: PixelCodec, condition: Tensor | None):
        places, _ = codec.on(decoder.nearby.device)
        super().__init__(decoder, cache=decoder.make_ring(places), places=places)
        self.condition = condition  # (B, 1 or N, D)
        self.canvas: Tensor | None = None  # (B, N)

    @torch.no_grad()
    def read(self, ids: Tensor) -> Tensor:
        """New tokens (B, T) -> outputs of the head for the token after each (B, T, O)."""
        if isinstance(self.cache, Ring) and ids.shape[1] > 1:
            return torch.cat([self.read(one) for one in ids.split(1, 1)], 1)
        assert self.places is not None
        if self.canvas is None:
            self.canvas = ids.new_zeros(len(ids), len(self.places))
        end = self.length + ids.shape[1]
        self.canvas[:, self.length : end] = ids
        near = self.canvas[:, self.decoder.nearby[self.length : end]]  # (B, T, F)
        at = self.places[self.length : end]
        added = self.condition
        if added is not None and added.shape[1] > 1:
            added = added[:, self.length : end]
        said = self.decoder.states(near, at, added, self.cache)
        self.length = end
        return self.decoder.say(said)


@torch.no_grad()
def draw_images(
    network: PixelNetwork,
    codec: PixelCodec,
    given: Tensor,
    condition: Tensor | None,
    how: Sampling,
    first: int = 0,
    told: Callable[[float], None] = lambda more: None,
) -> Tensor:
    """Complete the `given` tokens (B, n) to images (B, N), under the `condition` of the network;
    `told` is called with the number of tokens drawn.

    Samples are seeded by the number of the image, from `first` on: the batch does not change them.
    """
    network.eval()
    writer, parts = network.writer, list[Tensor]()
    recorder: ImageRecorder | None = None
    plain = isinstance(writer, Decoder) and not is_wrapper(writer.stack.kernel)
    each = repeat(None) if condition is None else condition.split(AT_ONCE)
    for some, kept in zip(given.split(AT_ONCE), each, strict=False):
        numbers = range(first, first + len(some))
        first += len(some)
        if some.is_cuda and plain:
            if recorder is None or len(recorder.canvas) != len(some):
                recorder = ImageRecorder(network, codec, kept, how, len(some))
            parts.append(recorder.draw(some, kept, numbers, told))
        else:
            parts.append(draw_batch(network, codec, some, kept, how, numbers, told))
    return torch.cat(parts)


def draw_batch(
    network: PixelNetwork,
    codec: PixelCodec,
    given: Tensor,
    condition: Tensor | None,
    how: Sampling,
    numbers: Sequence[int],
    told: Callable[[float], None],
) -> Tensor:
    chances = [Random(f"{how.seed} {number}") for number in numbers]
    step = ImageStep(network, codec, condition)
    begin = torch.full((len(given), 1), codec.start, device=given.device)
    ids, new = given, torch.cat([begin, given], 1)
    while ids.shape[1] < codec.tokens:
        said = step(new)
        new = draw_token(network, codec, said, how, chances)[:, None]
        ids = torch.cat([ids, new], 1)
        told(len(ids))
    return ids


def draw_token(
    network: PixelNetwork, codec: PixelCodec, said: Tensor, how: Sampling, chances: Sequence[Random]
) -> Tensor:
    """Draw one token for each output of the head (B, O) -> (B,), value by value."""

    def draw(logs: Tensor, part: int) -> Tensor:
        if how.chosen == "greedy":
            return logs.argmax(-1)
        keys = as_keys([draw_key(chance) for chance in chances], logs.device)
        return pick(weigh_tokens(logs, how), keys)

    return codec.join(network.likelihood.choose_values(said, draw))
