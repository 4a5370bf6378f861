"""Compile the blocks of a network, or all of it."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import nn


def compile_network(network: nn.Module, *, whole: bool = False, **options: Any) -> None:
    """Compile a network in place, for its calls in training mode; `options` are torch.compile's.

    Without `whole`, block by block: all blocks of a kind share the code compiled for the first,
    which takes seconds instead of minutes, and attention is planned outside, so that packed
    documents may have other lengths in every batch. Only a size that changes between batches
    becomes dynamic, once.

    `whole` is for batches that all have one shape and no documents: it also fuses what lies between
    blocks. Nothing is compiled in evaluation: a cache changes its shape at every token.
    """
    parts = [network] if whole else blocks_of(network)
    if not parts:
        raise ValueError(
            f"a {type(network).__name__} has no blocks that could be compiled one by one; "
            "training.compile=false learns without, and compile_network(network, whole=True) "
            "takes it whole"
        )
    options = {"dynamic": False if whole else None, **options}
    kinds: set[Any] = set(map(type, parts))
    quick = {kind: torch.compile(kind.forward, **options) for kind in kinds}
    for part in parts:
        # A method, not a closure over the part: a copy of the network then calls its own parts.
        part.forward = MethodType(in_training(quick[type(part)]), part)


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """Return the modules of every ModuleList called `blocks`, in any network."""
    lists = (getattr(module, "blocks", None) for module in network.modules())
    return [block for blocks in lists if isinstance(blocks, nn.ModuleList) for block in blocks]


def in_training(quick: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward that is compiled in training mode and plain in evaluation."""

    def forward(module: nn.Module, *args: Any, **named: Any) -> Any:
        run = quick if module.training else type(module).forward
        return run(module, *args, **named)

    return forward
