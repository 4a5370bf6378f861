"""A pattern as text, there and back: `read(str(pattern)) == pattern`."""

from __future__ import annotations

import ast
import difflib
from dataclasses import fields
from typing import Any, cast

from manyheads.attention.patterns import PATTERNS, Pattern


def read(text: str) -> Pattern:
    """The pattern that is written: only the patterns' own constructors are called."""
    try:
        return pattern_of(ast.parse(text.strip(), mode="eval").body, text)
    except SyntaxError:
        raise ValueError(f"{text!r} is not a pattern; one reads like {EXAMPLE!r}") from None
    except (RecursionError, MemoryError):
        raise ValueError("that pattern is nested too deeply to be read") from None


EXAMPLE = "Causal() & Window(2)"


def pattern_of(node: ast.AST, text: str) -> Pattern:
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return pattern_of(left, text) & pattern_of(right, text)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return pattern_of(left, text) | pattern_of(right, text)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~pattern_of(operand, text)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=named):
            if any(n.arg is None for n in named):
                raise ValueError(f"{name} takes its numbers one by one, as in Window(2)")
            return built(
                name,
                [literal(a, text) for a in args],
                {n.arg or "": literal(n.value, text) for n in named},
            )
        case ast.Name(id=name):
            known(name)
            raise ValueError(f"{name} is called to be a pattern: {name}(...); {EXAMPLE!r} is one")
    raise ValueError(
        f"{ast.unparse(node)!r} in {text!r} is not a pattern; "
        f"patterns join with &, | and ~, as in {EXAMPLE!r}"
    )


def known(name: str) -> type[Pattern]:
    if name not in PATTERNS:
        near = difflib.get_close_matches(name, PATTERNS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"there is no pattern {name!r}; {hint}There are {', '.join(PATTERNS)}")
    return PATTERNS[name]


def built(name: str, values: list[Any], named: dict[str, Any]) -> Pattern:
    kind = known(name)
    takes = [field.name for field in fields(cast(Any, kind)) if field.compare]
    try:
        if not set(named) <= set(takes):
            raise TypeError(name)
        return kind(*values, **named)
    except TypeError:
        given = ", ".join([*map(repr, values), *(f"{k}={v!r}" for k, v in named.items())])
        raise ValueError(f"{name} takes ({', '.join(takes)}), got ({given})") from None


def literal(node: ast.AST, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise ValueError(
            f"{ast.unparse(node)!r} in {text!r} is not a number or a list of numbers"
        ) from None
