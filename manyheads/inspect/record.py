"""What every head of a model looks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from manyheads.attention.kernels import Recorded, Seen
from manyheads.attention.layer import Attention
from manyheads.model.stack import Stack


@contextmanager
def recording(model: nn.Module) -> Iterator[list[Seen]]:
    """Inside, every attention of the model leaves its weights in the list, in the order it ran.

    with recording(model) as seen:
        model(source, target)
    seen[-1].layer -> "decoder.stack.blocks.5.cross_attention"
    """
    seen: list[Seen] = []
    stacks = {name: stack for name, stack in model.named_modules() if isinstance(stack, Stack)}
    with ExitStack() as undo:
        for name, stack in stacks.items():
            recorder = Recorded(stack.kernel)
            recorder.seen = seen
            undo.callback(setattr, stack, "kernel", stack.kernel)
            stack.kernel = recorder
            for inner, attention in stack.named_modules():
                if isinstance(attention, Attention):
                    where = ".".join(filter(None, (name, inner.removesuffix(".part"))))
                    hook = attention.register_forward_pre_hook(naming(recorder, where))
                    undo.callback(hook.remove)
        yield seen


def naming(recorder: Recorded, layer: str) -> Any:
    def before(module: nn.Module, arguments: Any) -> None:
        recorder.layer = layer

    return before
