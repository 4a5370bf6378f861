"""What a network would say if it stopped after some of its layers (a logit lens)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from manyheads.modules.stack import Stack


def find_last_stack(network: nn.Module) -> Stack | None:
    """The one that what is said comes from; none where later layers mix in the first states."""
    stacks = [part for part in network.modules() if isinstance(part, Stack)]
    return stacks[-1] if stacks and stacks[-1].keeps is None else None


@contextmanager
def leaving_early(stack: Stack, layers: int) -> Iterator[None]:
    """Inside, states go from the first so many layers straight to the norm above the last."""
    with ExitStack() as undo:
        for block in stack.blocks[layers:]:
            undo.callback(block.register_forward_hook(pass_on).remove)
        yield


def pass_on(block: nn.Module, arguments: tuple[Any, ...], said: Any) -> Any:
    return arguments[0]
