"""A logit lens: what a network would predict after only some of its layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from manyheads.modules.stack import Stack


def find_last_stack(network: nn.Module) -> Stack | None:
    """Return the stack below the output head; None if its layers mix in the first states."""
    stacks = [part for part in network.modules() if isinstance(part, Stack)]
    return stacks[-1] if stacks and stacks[-1].keeps is None else None


@contextmanager
def leaving_early(stack: Stack, layers: int) -> Iterator[None]:
    """In this context the stack skips all blocks after the first `layers`."""
    with ExitStack() as undo:
        for block in stack.blocks[layers:]:
            undo.callback(block.register_forward_hook(pass_on).remove)
        yield


def pass_on(block: nn.Module, arguments: tuple[Any, ...], said: Any) -> Any:
    return arguments[0]
