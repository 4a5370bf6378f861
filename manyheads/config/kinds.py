"""What kinds of values fields may have: read from text, and described in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from manyheads.config.tree import Group, Items, Scalar

BAD: Any = object()  # stands for a value with a mistake, until all mistakes are found


def bad(values: Iterable[object]) -> bool:
    return any(value is BAD for value in values)


def whole(text: str) -> int:
    """ "2_000" -> 2000"""
    return int(text) if text.isascii() else BAD


def number(text: str) -> float:
    """ "1e-3" -> 0.001, which YAML takes for text; and its own .inf and .nan."""
    bare = text.lower().lstrip("+-")
    return float(text.replace(".", "") if bare in (".inf", ".nan") else text.encode("ascii"))


def truth(text: str) -> bool:
    return TRUTHS.get(text.lower(), BAD)


TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

KINDS: dict[Any, tuple[str, Callable[[str], object]]] = {
    int: ("a whole number", whole),
    float: ("a number", number),
    bool: ("true or false", truth),
    str: ("text", str),
    Path: ("a path", Path),
}


def scalar(kind: Any, node: Scalar) -> Any:
    """The text as the kind; BAD where it is something else."""
    if get_origin(kind) is Literal:
        for choice in sorted(get_args(kind), key=lambda choice: isinstance(choice, str)):
            value = scalar(type(choice), node)
            if value is not BAD and value == choice:
                return choice
        return BAD
    if kind is NoneType:
        return None if node.null else BAD
    describe_kind(kind)  # raises for what cannot be read
    if node.null or (node.quoted and kind not in (str, Path)):
        return BAD
    try:
        return KINDS[kind][1](node.text)
    except ValueError:
        return BAD


def describe_kind(kind: Any) -> str:
    """What a field of this kind is, after `is`."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in KINDS:
        return KINDS[kind][0]
    if kind is NoneType:
        return "null"
    if origin is Literal:
        choices = ["null" if choice is None else str(choice) for choice in inner]
        return f"one of {', '.join(choices)}" if choices[1:] else choices[0]
    if origin in (Union, UnionType):
        return " or ".join(describe_kind(one) for one in inner)
    if origin is tuple and inner[1:] == (...,):
        return f"a list, each {describe_kind(inner[0])}"
    if origin is tuple:
        return f"a list of {len(inner)}"
    if origin is dict:
        return f"a mapping, each {describe_kind(inner[1])}"
    if dataclasses.is_dataclass(kind):
        return f"a group of {', '.join(field.name for field in dataclasses.fields(kind))}"
    raise TypeError(f"settings are not read as {kind}")


def shape(kind: Any) -> type:
    """Which node holds this kind."""
    if get_origin(kind) is tuple:
        return Items
    return Group if get_origin(kind) is dict or dataclasses.is_dataclass(kind) else Scalar
