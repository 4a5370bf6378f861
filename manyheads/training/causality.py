"""Test whether a network's output for a token depends on later tokens or other documents.

B batch, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.patterns import Segments

DRAWS = 2  # places that are tried in each row
ROUNDING = 1e-5  # share of the largest score: smaller differences are rounding


def largest_leak(network: nn.Module, run: Callable[[], Any], *, documents: bool = False) -> float:
    """Return how far scores move when only hidden tokens change, as a share of the largest score.

    `run` calls the network on a batch, in whatever way it is to be used. In every row a token is
    drawn: all tokens are exchanged except those up to it in its document or, with `documents`,
    except those of its document. 0 is right.
    """
    drawing = torch.Generator().manual_seed(0)
    with same_chances(network):
        plain, found = record_outputs(network, run, tuple), 0.0
        for _ in range(DRAWS):
            kept: list[Tensor] = []

            def change(inputs: Any, kept: list[Tensor] = kept) -> tuple[Any, ...]:
                changed, stays = changed_inputs(inputs, drawing, documents)
                kept.append(stays)
                return changed

            for one, before, stays in zip(
                record_outputs(network, run, change), plain, kept, strict=True
            ):
                if stays.any():  # not so where a share of a batch is empty
                    moved = (one - before)[stays].abs().amax()
                    found = max(found, float(moved / before.abs().amax().clamp(min=1e-30)))
        if found > ROUNDING:  # a nondeterministic device is no leak
            again = zip(record_outputs(network, run, tuple), plain, strict=True)
            noise = max(float((a - b).abs().amax() / b.abs().amax()) for a, b in again)
            found = 0.0 if found <= 2 * noise else found
    return found


def record_outputs(
    network: nn.Module, run: Callable[[], Any], change: Callable[[Any], tuple[Any, ...]]
) -> list[Tensor]:
    """Return the output of the network at each call within `run`, with its inputs changed."""
    said: list[Tensor] = []
    hooks = [
        network.register_forward_pre_hook(lambda _, inputs: change(inputs)),
        network.register_forward_hook(lambda _, __, out: said.append(out.detach().float())),
    ]
    try:
        torch.manual_seed(0)  # the same dropout each time
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return said


def changed_inputs(
    inputs: tuple[Any, ...], drawing: torch.Generator, documents: bool
) -> tuple[tuple[Any, ...], Tensor]:
    """Return the inputs with other tokens, and which target tokens did not change: (B, T)."""
    *sources, written = inputs
    rows, tokens = written.ids.shape[:2]
    drawn = torch.rand(rows, generator=drawing).to(written.ids.device)
    place = (drawn * written.lengths()).long()[:, None]  # (B, 1)
    order = written.at.order.expand(rows, tokens)
    own = documents_of(written)
    document = own.gather(1, place)
    stays = own == document
    if not documents:
        stays = stays & (order <= order.gather(1, place))
    changed = [
        replace(read, ids=exchange_ids(read.ids, documents_of(read) == document))
        for read in sources
    ]
    compared = stays & (own != Segments.PADDING)
    return (*changed, replace(written, ids=exchange_ids(written.ids, stays))), compared


def documents_of(read: Any) -> Tensor:
    """Return the document of each token, (B, T): 0 where a row is one document."""
    packed = [part.ids for part in read.seen.parts() if isinstance(part, Segments)]
    return packed[0] if packed else read.ids.new_zeros(read.ids.shape[:2], dtype=torch.long)


def exchange_ids(ids: Tensor, stays: Tensor) -> Tensor:
    """Replace each token that does not stay by another one of the batch."""
    if ids.is_floating_point():
        return torch.where(stays[..., None], ids, ids + 1)
    known = ids.unique()
    if len(known) == 1:
        known = torch.cat([known, (known == 0).to(known.dtype)]).sort().values
    following = known.roll(-1)[torch.searchsorted(known, ids.contiguous())]
    return torch.where(stays, ids, following)


@contextmanager
def same_chances(network: nn.Module) -> Iterator[None]:
    """Allow random numbers inside; restore the random state afterwards."""
    device = next(network.parameters()).device
    # cuDNN has a random state of its own, which no seed resets.
    recurrent = [part for part in network.modules() if isinstance(part, nn.RNNBase)]
    dropped = [part.dropout for part in recurrent]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            for part in recurrent:
                part.dropout = 0.0
            yield
        finally:
            for part, share in zip(recurrent, dropped, strict=True):
                part.dropout = share
