"""Record the encoding of a single source as a CUDA graph, for each length that occurs twice.

An encoder launches as many kernels as a decoder, and a single text waits for the launches. Without
CUDA the same code runs without recording.
"""

from __future__ import annotations

from typing import cast
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from manyheads.attention.kernels import Fastest
from manyheads.attention.patterns import Everything
from manyheads.attention.places import line
from manyheads.decoding.cuda_graph import capture, list_addresses
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Encoder, EncoderDecoder, Tokens

MOST = 64  # how many lengths are kept


class GraphedEncoder:
    """A recorded encoder for sources of one length."""

    @torch.inference_mode(False)  # its ids are written to again, where no such mode may be on
    def __init__(self, encoder: Encoder, ids: Tensor):
        self.find_encoder = ref(encoder)  # a weak reference: do not keep the encoder alive
        self.ids, self.states = ids.clone(), torch.zeros(0)
        self.tokens = Tokens(self.ids, line(ids.shape[1], device=ids.device))
        self.play = capture(ids, self.compute) if ids.is_cuda else self.compute

    def compute(self) -> None:
        self.states = cast(Encoder, self.find_encoder()).forward(self.tokens)

    def encode(self, ids: Tensor) -> Tensor:
        self.ids.copy_(ids)
        self.play()
        return self.states.clone()


class EncoderRecordings:
    """The recordings of an encoder, and the addresses its weights had when they were made."""

    def __init__(self, places: tuple[int, ...]):
        self.places = places
        self.held: dict[int, GraphedEncoder | None] = {}  # by length; None: seen only once

    def find(self, encoder: Encoder, ids: Tensor) -> GraphedEncoder | None:
        length = ids.shape[1]
        met, found = length in self.held, self.held.pop(length, None)
        self.held[length] = found or (GraphedEncoder(encoder, ids) if met else None)
        if len(self.held) > MOST:
            self.held.pop(next(iter(self.held)))
        return self.held[length]


KEPT: WeakKeyDictionary[nn.Module, EncoderRecordings] = WeakKeyDictionary()


@torch.no_grad()
def encode_one(network: EncoderDecoder, read: Tokens) -> Memory:
    """Encode one source, with the same bits as the network's `encode`."""
    encoder = network.encoder
    plain = type(encoder) is Encoder and isinstance(encoder.stack.kernel, Fastest)
    plain = plain and not torch.is_autocast_enabled(read.ids.device.type)
    if not plain or len(read.ids) != 1 or read.seen != Everything() or read.types is not None:
        return network.encode(read)
    places = list_addresses(encoder)
    if encoder not in KEPT or KEPT[encoder].places != places:
        KEPT[encoder] = EncoderRecordings(places)
    found = KEPT[encoder].find(encoder, read.ids)
    if found is None:
        return network.encode(read)
    states = found.encode(read.ids)
    for hook in encoder._forward_hooks.values():  # a replayed graph calls no hooks
        hook(encoder, (read,), states)
    return Memory(states, read.at, read.seen)
