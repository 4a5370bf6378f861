"""Record the attention weights of every head of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from manyheads.attention.kernels import Edited, Kernel, Recorded, Seen
from manyheads.attention.layer import Attention


@contextmanager
def recording(model: nn.Module) -> Iterator[list[Seen]]:
    """In this context every attention call appends its weights to the list, in the order of calls.

    with recording(model) as seen:
        model(source, target)
    seen[-1].layer -> "decoder.stack.blocks.5.cross_attention"
    """
    seen: list[Seen] = []

    def record(kernel: Kernel) -> Recorded:
        recorder = Recorded(kernel)
        recorder.seen = seen
        return recorder

    with wrap_kernels(model, record):
        yield seen


@contextmanager
def wrap_kernels(model: nn.Module, wrap: Callable[[Kernel], Recorded | Edited]) -> Iterator[None]:
    """In this context every kernel of the model is wrapped, and knows the name of its layer."""
    with ExitStack() as undo:
        for name, owner in owners_of_kernels(model).items():
            wrapped = wrap(owner.kernel)
            wrapped.layer = name
            undo.callback(setattr, owner, "kernel", owner.kernel)
            owner.kernel = wrapped
            for layer, attention in attentions_of(name, owner):
                hook = attention.register_forward_pre_hook(name_layer(wrapped, layer))
                undo.callback(hook.remove)
        yield


def owners_of_kernels(model: nn.Module) -> dict[str, Any]:
    return {name: part for name, part in model.named_modules() if hasattr(part, "kernel")}


def attentions_of(name: str, owner: nn.Module) -> Iterator[tuple[str, Attention]]:
    for inner, attention in owner.named_modules():
        if isinstance(attention, Attention):
            yield ".".join(filter(None, (name, inner.removesuffix(".part")))), attention


def name_layer(wrapped: Recorded | Edited, layer: str) -> Any:
    def before(module: nn.Module, arguments: Any) -> None:
        wrapped.layer = layer

    return before
