"""What a cell of a table of graphs holds: a value, a gap, or neither."""

from __future__ import annotations

import re

MISSING = {"na", "n/a", "#n/a", "null"}  # what other programs write for a missing value
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def read_target(name: str, cell: str) -> str:
    """ "nan" -> ""; raise for what is neither a value nor a gap."""
    if cell.lower() in MISSING or DECIMAL_COMMA.fullmatch(cell):
        raise ValueError(describe_odd(name, cell))
    return read_cell(cell)


def read_cell(cell: str) -> str:
    """ "nan" -> "" """
    return "" if cell.lower() == "nan" else cell


def describe_odd(name: str, cell: str) -> str:
    if "," in cell:
        return f"{name} is {cell!r}; a number is written with a point, as 3.14, and without commas"
    return f"{name} is {cell!r}; an empty cell, or nan, is a missing value"
