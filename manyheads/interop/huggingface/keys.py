"""What import does with every key of a settings file: each file has one closed table of keys.

A key that is in no table is refused by its name, since its effect is unknown.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

CONFIG = "config.json"
LONGEST = 2**24  # the longest context, in tokens
Form = Literal[
    "", "size", "layers", "span", "flag", "word", "words", "list", "object", "list or object"
]


@dataclass(frozen=True)
class Read:
    """A key that is read."""

    what: str
    form: Form = ""  # the form that is checked before it is read
    null: bool = False  # null is allowed, and means the default


@dataclass(frozen=True)
class Field(Read):
    """A key that is the field `what` of a network config, read and written."""

    default: Any = None  # if the key is missing; None: the key is required
    values: Mapping[str, str] | None = None  # theirs to ours; of equal ones the last is written
    more: str = ""  # for the docs


@dataclass(frozen=True)
class Idle:
    """A key that changes nothing in what is computed."""

    why: str


@dataclass(frozen=True)
class Only:
    """A key that is refused unless it has one of these values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Same:
    """Another name of a key: refused unless both have the same value."""

    name: str


@dataclass(frozen=True)
class Left:
    """A default for generation that is not taken over, but left to each call; `import` says so."""

    how: str  # what to do instead
    values: tuple[Any, ...] = (None,)  # values that need no note


Key: TypeAlias = Read | Idle | Only | Same | Left
Keys: TypeAlias = Mapping[str, Key]


class Measure(NamedTuple):
    """Limits for sizes, from the tensors in the file, before anything of that size is made."""

    largest: float = math.inf  # rows or columns of any tensor
    tensors: float = math.inf


# ---- checking --------------------------------------------------------------------------------


def check_keys(
    held: Mapping[str, Any], keys: Keys, file: str, measure: Measure = Measure()
) -> list[str]:
    """Refuse unknown keys and values; return a note for each key that is left to the call."""
    notes = []
    for name, value in held.items():
        key = keys.get(name)
        if key is None:
            raise ValueError(
                f"{file}: {name} is not known here, so nobody can tell what it changes; "
                "take it out if it changes nothing"
            )
        if isinstance(key, Read):
            check_form(name, value, key, file, measure)
        elif isinstance(key, Only) and not is_among(value, key.values):
            would_do = join_values(key.values)
            raise ValueError(
                f"{file}: {name}: {shorten_value(value)} is not computed here; {would_do} would do"
            )
        elif isinstance(key, Same):
            check_same(name, held, key.name, file)
        elif isinstance(key, Left) and not is_among(value, key.values):
            notes.append(f"{name}: {shorten_value(value)} ({key.how})")
    return notes


def check_same(name: str, held: Mapping[str, Any], other: str, file: str) -> None:
    if other not in held:
        raise ValueError(f"{file}: {name} is called {other} here; that name would do")
    if held[name] != held[other]:
        both = " and ".join(f"{one}: {shorten_value(held[one])}" for one in (name, other))
        raise ValueError(f"{file}: {both} are two names of one setting and differ")


def is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


FORMS: dict[str, tuple[str, Any]] = {
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "word": ("a word", lambda value: isinstance(value, str)),
    "words": ("a list of words", is_words),
    "list": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "list or object": ("a list or an object", lambda value: isinstance(value, list | dict)),
}


def check_form(name: str, value: Any, key: Read, file: str, measure: Measure) -> None:
    if value is None and key.null:
        return
    if key.form in FORMS:
        wanted, holds = FORMS[key.form]
        if not holds(value):
            raise ValueError(f"{file}: {name} is {wanted}, got {shorten_value(value)}")
    elif value is None:
        raise ValueError(f"{file}: {name} is null; leave it out, or say it")
    elif key.form:
        most, said = {
            "size": (measure.largest, "no tensor has more than {} rows or columns"),
            "layers": (measure.tensors, "there are {} tensors"),
            "span": (LONGEST, "{} tokens are the most"),
        }[key.form]
        if check_whole(name, value, file) > most:
            raise ValueError(f"{file}: {name} is {value}, and {said.format(most)}")


def check_whole(name: str, value: Any, file: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{file}: {name} is a whole number from 1 up, got {value!r}")
    return value


def is_among(value: Any, values: Sequence[Any]) -> bool:
    """Whether value is one of these; 1 is not True."""
    return any(value == each and (value is True) == (each is True) for each in values)


def join_values(values: Sequence[Any]) -> str:
    return " or ".join("nothing" if value is None else shorten_value(value) for value in values)


def shorten_value(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---- reading ---------------------------------------------------------------------------------


class Config:
    """The settings of a config.json, each read with a default.

    Only keys that the table lists as `Read` can be read.
    """

    def __init__(self, held: dict[str, Any], keys: Keys):
        self.held, self.keys = held, keys

    def get(self, name: str, default: Any = None) -> Any:
        if not isinstance(self.keys[name], Read):
            raise KeyError(name)
        value = self.held.get(name)
        return default if value is None else value

    def get_whole(self, name: str, default: int | None = None) -> int:
        return check_whole(name, self.get(name, default), CONFIG)

    def get_number(self, name: str, default: float) -> float:
        value, most = self.get(name, default), sys.float_info.max
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
            raise ValueError(f"{CONFIG}: {name} is a number, got {value!r}")
        return float(value)

    def require_value(self, name: str, value: Any) -> None:
        """Refuse every value but this one, which is also the default."""
        if (got := self.get(name, value)) != value:
            raise ValueError(f"{CONFIG}: {name}: {got} is not computed here; {value} would do")

    def get_field(self, name: str, key: Field) -> Any:
        if key.values is not None:
            if (value := self.get(name, key.default)) not in key.values:
                there = ", ".join(key.values)
                raise ValueError(
                    f"{CONFIG}: {name}: {value} is not computed here; there are {there}"
                )
            return key.values[value]
        if key.form == "flag":
            return self.get(name, key.default)
        return (self.get_whole if key.form else self.get_number)(name, key.default)

    def list_fields(self) -> dict[str, Any]:
        """Return the fields of our network config; keys of the same field must agree."""
        found: dict[str, tuple[str, Any]] = {}
        for name, key in self.keys.items():
            if isinstance(key, Field):
                value = self.get_field(name, key)
                first, before = found.setdefault(key.what, (name, value))
                if value != before:
                    raise ValueError(
                        f"{CONFIG}: {first}: {before}, {name}: {value}; "
                        "a network here has the same on both sides"
                    )
        return {field: value for field, (_, value) in found.items()}
