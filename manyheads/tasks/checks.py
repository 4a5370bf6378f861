"""Whether options are what they are declared to be: from Python anything may come."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from typing import Any, get_type_hints

KINDS: dict[Any, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
}


def check_types(options: Any) -> None:
    """Refuse beam="3": beam is a whole number, got '3'"""
    declared = get_type_hints(type(options))
    for field in fields(options):
        kind, value = declared[field.name], getattr(options, field.name)
        if kind not in KINDS:
            continue
        allowed, named = KINDS[kind]
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{field.name} is {named}, got {value!r}")
