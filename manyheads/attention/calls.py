"""Read values written as calls, `Causal() & Window(2)`; only names in a table are ever called."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import entry_points
from typing import Any


@dataclass(frozen=True)
class Notation:
    """The names that may be written: those of `table`, and the entry points of `group`."""

    what: str
    example: str
    table: Mapping[str, Any]
    group: str
    joins: Mapping[type[ast.AST], Callable[..., Any]] = field(default_factory=dict)
    joining: str = ""  # how values join, in words

    def read(self, text: str) -> Any:
        """Return the value that the text writes."""
        try:
            return self.value(ast.parse(str(text).strip(), mode="eval").body, text)
        except SyntaxError:
            raise ValueError(
                f"{text!r} is not a {self.what}; one reads like {self.example!r}"
            ) from None
        except (RecursionError, MemoryError):
            raise ValueError(f"that {self.what} is nested too deeply to be read") from None

    def value(self, node: ast.AST, text: str) -> Any:
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in self.joins:
                return self.joins[type(op)](self.value(left, text), self.value(right, text))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in self.joins:
                return self.joins[type(op)](self.value(operand, text))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=named):
                if any(n.arg is None for n in named):
                    raise ValueError(f"{name} takes its numbers one by one, as in {self.example}")
                values = [read_literal(a, text) for a in args]
                return self.call(
                    name, values, {n.arg or "": read_literal(n.value, text) for n in named}
                )
            case ast.Name(id=name):
                self.find(name)
                raise ValueError(
                    f"{name} is called to be a {self.what}: {name}(...); {self.example!r} is one"
                )
        how = self.joining or "one reads like"
        raise ValueError(
            f"{ast.unparse(node)!r} in {text!r} is not a {self.what}; {how} {self.example!r}"
        )

    def find(self, name: str) -> Any:
        """Return the class of this name, from the table or from an entry point."""
        if name in self.table:
            return self.table[name]
        if beside := entry_points(group=self.group, name=name):
            return next(iter(beside)).load()
        near = difflib.get_close_matches(name, self.table, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"there is no {self.what} {name!r}; {hint}There are {', '.join(self.table)}"
        )

    def call(self, name: str, values: list[Any], named: dict[str, Any]) -> Any:
        kind = self.find(name)
        takes = [one.name for one in fields(kind) if one.compare]
        try:
            if not set(named) <= set(takes):
                raise TypeError(name)
            return kind(*values, **named)
        except TypeError:
            given = ", ".join([*map(repr, values), *(f"{k}={v!r}" for k, v in named.items())])
            raise ValueError(f"{name} takes ({', '.join(takes)}), got ({given})") from None


def read_literal(node: ast.AST, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise ValueError(
            f"{ast.unparse(node)!r} in {text!r} is not a number or a list of numbers"
        ) from None
