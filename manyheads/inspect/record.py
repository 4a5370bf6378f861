"""What every head of a model looks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from torch import nn

from manyheads.attention.kernels import Kernel, Recorded, Seen
from manyheads.attention.layer import Attention


@contextmanager
def recording(model: nn.Module) -> Iterator[list[Seen]]:
    """Inside, every attention of the model leaves its weights in the list, in the order it ran.

    with recording(model) as seen:
        model(source, target)
    seen[-1].layer -> "decoder.stack.blocks.5.cross_attention"
    """
    seen: list[Seen] = []
    owners = {name: part for name, part in model.named_modules() if hasattr(part, "kernel")}
    with ExitStack() as undo:
        for name, stack in owners.items():
            recorder = Recorded(cast(Kernel, stack.kernel))
            recorder.seen, recorder.layer = seen, name
            undo.callback(setattr, stack, "kernel", stack.kernel)
            cast(Any, stack).kernel = recorder
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
