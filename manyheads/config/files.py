"""Settings in a file: read as a dataclass, and written as text that reads back."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_type_hints

import yaml

from manyheads.config.fields import BAD, SettingsReader, scalar
from manyheads.config.tree import (
    GROUP,
    ITEMS,
    TEXT,
    Group,
    Node,
    Refused,
    Scalar,
    Source,
    SourcePlace,
    overridden,
)

T = TypeVar("T")


class Mistakes(ValueError):  # noqa: N818 - it is all of them, not an error
    """All that is wrong with some settings, a line each: recipe.yaml:4:10: what is wrong there"""

    def __init__(self, lines: Sequence[str]):
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def load(kind: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """The settings in a file."""
    return read(kind, text_of(path), str(path), overrides)


def text_of(path: Path) -> str:
    """What a file of settings says."""
    if path.is_dir():
        raise ValueError(f"settings are read from a file, {path} is a folder")
    if not path.exists():
        raise ValueError(f"settings are read from a file, and there is no {path}")
    if not path.is_file():  # a pipe would be waited for
        raise ValueError(f"settings are read from a file, {path} is none")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"settings are UTF-8 text, byte {error.start} of {path} is 0x{byte:02x}"
        ) from None


def peek(path: Path, field: str) -> str | None:
    """What a file says of one field, if it is text and the file can be read at all."""
    if not path.is_file():
        return None
    try:
        tree = Source(SettingsReader().mistake, path.read_text(encoding="utf-8"), str(path)).tree()
    except (OSError, UnicodeDecodeError):
        return None
    _, node = tree.entries.get(field, (None, None)) if isinstance(tree, Group) else (None, None)
    return node.text if isinstance(node, Scalar) else None


def read(
    kind: type[T],
    text: str,
    file: str = "recipe.yaml",
    overrides: Sequence[str] = (),
    default: T | None = None,
) -> T:
    """YAML as a frozen dataclass, each value read as its field is declared.

    An override, `training.steps=20000`, replaces what the file says. A field that is not given
    has the value of `default`, or its own; a group given in part keeps the rest of it.
    """
    reader = SettingsReader()
    tree = tree_of(reader, text, file, overrides)
    # A tree cut short by a syntax error would only seem to lack fields.
    value = BAD if isinstance(tree, Refused) else reader.value(kind, tree, "", default)
    if reader.mistakes:
        reader.mistakes.sort(key=lambda mistake: mistake[0].order)
        raise Mistakes([f"{place.text}: {sentence}" for place, sentence in reader.mistakes])
    return value


def part(
    kind: type, field: str, text: str, overrides: Sequence[str] = (), only: Sequence[str] = ()
) -> Any:
    """What settings say of one field, or of these of its fields; None if nothing, or a mistake."""
    reader = SettingsReader()
    tree = tree_of(reader, text, "", overrides)
    _, node = tree.entries.get(field, (None, None)) if isinstance(tree, Group) else (None, None)
    if isinstance(node, Group) and only:
        node = replace(node, entries={n: node.entries[n] for n in only if n in node.entries})
        node = node if node.entries else None
    value = BAD if node is None else reader.value(get_type_hints(kind)[field], node, field)
    return None if value is BAD else value


def tree_of(reader: SettingsReader, text: str, file: str, overrides: Sequence[str]) -> Node:
    tree = Source(reader.mistake, text, file).tree()
    for number, override in enumerate(overrides, start=1):
        tree = overridden(reader.mistake, tree, override, number)
    return tree


def write(value: object, note: str = "") -> str:
    """The settings as YAML that reads back as the same value, under the note as a comment."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in note.splitlines())
    # No line is folded: a value stays on the line of its name.
    text = yaml.serialize(
        written(value), Dumper=yaml.BaseDumper, allow_unicode=True, width=sys.maxsize
    )
    return comment + text


def inline(value: object) -> str:
    """What stands behind the = of an override: (1, 2) -> "[1, 2]" """
    return write(value).removesuffix("\n").removesuffix("\n...")


# ---- and back ----


def written(value: object) -> yaml.Node:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if field.init
        }
        return written(named)
    if isinstance(value, dict):
        pairs = [(written(name), written(item)) for name, item in value.items()]
        return yaml.MappingNode(GROUP, pairs, flow_style=False)
    if isinstance(value, tuple):
        nodes = [written(item) for item in value]
        # [1, 2] on one line, but groups below each other
        flow = not any(isinstance(node, yaml.MappingNode) for node in nodes)
        return yaml.SequenceNode(ITEMS, nodes, flow_style=flow)
    if isinstance(value, str | Path):
        text = str(value)
        return yaml.ScalarNode(TEXT, text, style='"' if needs_quotes(text) else None)
    return yaml.ScalarNode(TEXT, digits(value))


def digits(value: object) -> str:
    """None, truths and numbers as YAML has them, numbers to the last digit."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}".replace("inf", ".inf").replace("nan", ".nan")
    if isinstance(value, float):
        text = repr(value)  # 1e-05 is a number to YAML only as 1.0e-05
        return text if "." in text else text.replace("e", ".0e")
    if isinstance(value, int):
        return repr(value)
    raise TypeError(f"settings hold no {type(value).__name__}, got {value!r}")


def needs_quotes(text: str) -> bool:
    """Whether this or another reader of YAML would take the text for something else."""
    node = Scalar(SourcePlace((0, 0, 0), ""), text, quoted=False)
    other = any(scalar(kind, node) is not BAD for kind in (NoneType, bool, int, float))
    tag = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))
    return other or tag != TEXT or not text.isprintable()
