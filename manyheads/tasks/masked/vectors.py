"""Vectors of texts.

N texts, B rows, T tokens, D model width.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from manyheads.codecs.text import Text
from manyheads.data.batches import map_by_length
from manyheads.decoding.bounds import find_room
from manyheads.devices import use_threads_for
from manyheads.modules.checks import mean_states
from manyheads.modules.config import Pooling
from manyheads.modules.heads import EncoderHead
from manyheads.modules.transformer import Encoder, Tokens, words_of

AT_ONCE = 16384  # tokens in a batch


@torch.no_grad()
def embed(
    encoder: nn.Module,
    codec: Text,
    read: Sequence[str],
    pooling: Pooling = "mean",
    normalise: bool = True,
    tokens: int = AT_ONCE,
    longest: int = sys.maxsize,
) -> NDArray[np.float32]:
    """Return a vector for each text, (N, D), in order; similar texts have similar vectors.

    Any encoder will do; its head is not used. A text with more than `longest` tokens, special
    tokens included, or more than a learned position has, is cut, and a warning says how many
    texts were.
    """
    if isinstance(read, str):
        raise ValueError("texts come as a list, got one text; [text] would do")
    if pooling not in ("first", "mean"):
        raise ValueError(f"a text is pooled by first or mean, got {pooling!r}")
    encoder = encoder.encoder if isinstance(encoder, EncoderHead) else encoder
    encoder.eval()
    special, device = codec.special_tokens, next(encoder.parameters()).device
    most = min(longest, find_room(encoder))
    encoded, room = codec.encode_all(list(read)), most - len(special.encoder_bos) - 1
    if over := sum(len(ids) > room for ids in encoded):
        warnings.warn(
            f"{over} of {len(read)} texts are longer than the {most} tokens this encoder reads; "
            "their ends were not read",
            stacklevel=2,
        )
    framed = [[*special.encoder_bos, *ids[:room], special.eos] for ids in encoded]

    def read_rows(rows: list[int]) -> Tensor:
        batch = Tokens.padded([framed[i] for i in rows], special.pad).to(device)
        states = states_of(encoder, batch)
        vectors = states[:, 0] if pooling == "first" else mean_states(states, batch.seen, batch.at)
        vectors = F.normalize(vectors, dim=-1) if normalise else vectors
        return vectors.float().cpu()

    found = map_by_length(read_rows, framed, tokens)
    return torch.stack(found).numpy() if found else np.zeros((0, 0), np.float32)


def states_of(encoder: nn.Module, tokens: Tokens) -> Tensor:
    """Return the states (B, T, D) of the encoder, without its head."""
    with use_threads_for(encoder, tokens.ids):
        if not isinstance(encoder, Encoder):
            return encoder(tokens)
        x = words_of(encoder.embedding, tokens.ids, tokens.types)
        return encoder.stack(x, tokens.at, tokens.seen)
