"""Declare settings: the default, a sentence of description, and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, get_type_hints

TYPES: dict[Any, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
}


def setting(
    default: Any = MISSING,
    about: str = "",
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    **typed: str,
) -> Any:
    """Declare a field of a dataclass with its description; limits of a list apply to each item.

    `typed` describes the option of a command: its `flag`, the `panel` of the help, what is shown
    `instead` of its default, and its name as an `argument`.
    """
    limits = {"least": least, "most": most, "above": above, "below": below}
    return field(default=default, metadata={"about": about, **limits, **typed})


def with_default(kind: Any, name: str, default: Any) -> Any:
    """Copy a setting of another dataclass, with another default."""
    return field(default=default, metadata=kind.__dataclass_fields__[name].metadata)


def describe_misfit_of(limits: Mapping[str, Any], value: Any) -> str:
    """Return what a value should be, to follow `is`; empty where the value is right."""
    if isinstance(value, tuple):
        each = next((words for one in value if (words := describe_misfit_of(limits, one))), "")
        return each and f"a list, each {each}"
    if isinstance(value, bool) or not isinstance(value, Real):
        return ""
    least, most, above, below = (limits.get(name) for name in ("least", "most", "above", "below"))
    if least is None and above is None:
        return ""
    if (
        (isinstance(value, Integral) or math.isfinite(value))
        and (least is None or value >= least)
        and (most is None or value <= most)
        and (above is None or value > above)
        and (below is None or value < below)
    ):
        return ""
    if below == 1:
        return "a share from 0 to below 1" if above is None else "a share between 0 and 1"
    if most is not None and value > most:
        return f"{most} at most"
    return f"{least} or more" if above is None else f"above {above:g}"


class Settings:
    """The base of frozen dataclasses of settings: refuses wrong values, with a line for each."""

    def __post_init__(self) -> None:
        own: Any = self
        values = ((one, getattr(self, one.name)) for one in fields(own))
        wrong = [
            f"{one.name} is {words}, got {show_value(value)}"
            for one, value in values
            if (words := describe_misfit_of(one.metadata, value))
        ]
        if wrong := [*wrong, *self.misfits()]:
            raise ValueError("\n".join(wrong))

    def misfits(self) -> Iterator[str]:
        """Yield a sentence for each combination of values that is wrong."""
        yield from ()


# The type hints of a class; cached, because evaluating them takes long.
find_types: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


class TypedSettings(Settings):
    """Settings that also check types, for values that come from Python: beam="3" is refused, beam
    is a whole number, got '3'
    """

    def __post_init__(self) -> None:
        own: Any = self
        declared = find_types(type(self))
        for one in fields(own):
            kind, value = declared[one.name], getattr(self, one.name)
            allowed, named = TYPES.get(kind, (object, ""))
            if not isinstance(value, allowed) or (isinstance(value, bool) and kind in (int, float)):
                raise ValueError(f"{one.name} is {named}, got {value!r}")
        super().__post_init__()


def show_value(value: Any) -> str:
    return str([*value] if isinstance(value, tuple) else value)


def help_of(one: Field[Any]) -> str:
    return str(one.metadata.get("about", ""))
