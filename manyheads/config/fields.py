"""Read the fields of a dataclass from YAML by their declared types, and write them as YAML."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from manyheads.config.declare import describe_misfit_of
from manyheads.config.declare import show_value as show_value
from manyheads.config.tree import (
    GROUP,
    ITEMS,
    TEXT,
    Group,
    Items,
    Mistakes,
    Node,
    Refused,
    Scalar,
    Source,
    SourcePlace,
    apply_override,
    show_node,
    text_of,
)

BAD: Any = object()  # stands for a value with a mistake, until all mistakes are found


def parse_number(text: str) -> float:
    """ "1e-3" -> 0.001, which YAML takes for text; also YAML's own .inf and .nan."""
    bare = text.lower().lstrip("+-")
    return float(text.replace(".", "") if bare in (".inf", ".nan") else text.encode("ascii"))


TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

KINDS: dict[Any, tuple[str, Callable[[str], object]]] = {
    int: ("a whole number", lambda text: int(text) if text.isascii() else BAD),
    float: ("a number", parse_number),
    bool: ("true or false", lambda text: TRUTHS.get(text.lower(), BAD)),
    str: ("text", str),
    Path: ("a path", Path),
}


def read_scalar(kind: Any, node: Scalar) -> Any:
    """Return the text as this kind; BAD where it is something else."""
    if get_origin(kind) is Literal:
        for choice in sorted(get_args(kind), key=lambda choice: isinstance(choice, str)):
            value = read_scalar(type(choice), node)
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
    """Say what a field of this kind is, to follow `is`."""
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
    if dataclasses.is_dataclass(kind):
        return f"a group of {', '.join(field.name for field in dataclasses.fields(kind))}"
    raise TypeError(f"settings are not read as {kind}")


def node_kind_of(kind: Any) -> type:
    """Return the class of the node that holds this kind."""
    if get_origin(kind) is tuple:
        return Items
    return Group if dataclasses.is_dataclass(kind) else Scalar


class SettingsReader:
    """Reads a YAML text with overrides by declared types, and goes on after a mistake."""

    def __init__(self, text: str, file: str = "", overrides: Sequence[str] = ()) -> None:
        self.mistakes: list[tuple[SourcePlace, str]] = []
        self.tree = Source(self.note_mistake, text, file).read_tree()
        for number, override in enumerate(overrides, start=1):
            self.tree = apply_override(self.note_mistake, self.tree, override, number)

    def find(self, field: str) -> Node | None:
        """Return the node of one field."""
        if not isinstance(self.tree, Group) or field not in self.tree.entries:
            return None
        return self.tree.entries[field][1]

    def note_mistake(self, place: SourcePlace, sentence: str) -> Any:
        self.mistakes.append((place, sentence))
        return BAD

    def refuse_kind(self, kind: Any, node: Node, path: str, hint: str = "") -> Any:
        return self.note_mistake(
            node.place, f"{path} is {describe_kind(kind)}, got {show_node(node)}{hint}"
        )

    def read_value(self, kind: Any, node: Node, path: str, default: object = None) -> Any:
        """Read a node; `default` is the field's: a group given in part keeps the rest of it."""
        if isinstance(node, Refused):
            return BAD
        if dataclasses.is_dataclass(kind):
            return self.read_group(kind, node, path, default)
        if members := groups_by_tag(kind):
            return self.read_tagged_group(members, node, path, default)
        if get_origin(kind) in (Union, UnionType):
            return self.read_union(kind, node, path, default)
        if get_origin(kind) is tuple:
            return self.read_items(kind, node, path)
        found = read_scalar(kind, node) if isinstance(node, Scalar) else BAD
        if found is not BAD:
            return found
        hint = ""
        if get_origin(kind) is Literal and isinstance(node, Scalar):
            near = find_nearest_name(node.text, map(str, get_args(kind)))
            hint = f"; did you mean {near}?" if near else ""
        return self.refuse_kind(kind, node, path, hint)

    def read_tagged_group(
        self, members: dict[str, Any], node: Node, path: str, default: object
    ) -> Any:
        """Read the group of a union that the tag names: as given, else the default's, else the
        first.
        """
        tag = getattr(default, TAG, next(iter(members)))
        if isinstance(node, Group) and TAG in node.entries:
            child = node.entries[TAG][1]
            tag = self.read_value(Literal[*members], child, f"{path}.{TAG}".lstrip("."))
            if tag is not BAD and child.place.order[0]:
                node = drop_others(node, members[tag], members.values())
        return BAD if tag is BAD else self.read_group(members[tag], node, path, default, members)

    def read_group(
        self,
        kind: Any,
        node: Node,
        path: str,
        default: object,
        others: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        """Read a dataclass; a field that it does not have may belong to one of `others`, by tag."""
        own = kind.__name__.lower()  # Seq2SeqRecipe is called a recipe in messages
        called = path or ("recipe" if own.endswith("recipe") else own)
        if isinstance(node, Scalar) and node.null:  # `training:` and nothing under it
            node = Group(node.place, {})
        if not isinstance(node, Group):
            return self.refuse_kind(kind, node, called)
        inside = path and f"{path}."
        types = get_type_hints(kind)
        fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
        rest = {name: default_of(field, default) for name, field in fields.items()}
        if others:  # a default of another kind keeps everything except the tag
            rest[TAG] = fields[TAG].default
        values: dict[str, Any] = {}
        meant: set[str | None] = set()
        for name, (place, child) in node.entries.items():
            if name in fields:
                values[name] = self.read_value(types[name], child, inside + name, rest[name])
                if words := describe_misfit_of(fields[name].metadata, values[name]):
                    values[name] = self.note_mistake(
                        child.place, f"{inside}{name} is {words}, got {show_value(values[name])}"
                    )
                continue
            near = find_nearest_name(name, fields)
            meant.add(near)  # not also reported as missing
            hint = f"did you mean {near}?" if near else f"its fields are {', '.join(fields)}"
            if owners := [tag for tag, other in others.items() if name in field_names(other)]:
                hint = f"it is of {' and '.join(owners)}, and this is {fields[TAG].default}"
            self.note_mistake(place, f"{called} has no field {name!r}; {hint}")
        for name in fields:
            if name not in values and rest[name] is BAD and name not in meant:
                what = describe_kind(types[name])
                self.note_mistake(node.place, f"{inside}{name} is missing; it is {what}")
        values = rest | values
        if BAD in values.values():
            return BAD
        try:
            return kind(**values)
        except ValueError as error:
            for sentence in str(error).splitlines():
                self.note_mistake(find_blamed_place(node, sentence, inside), sentence)
            return BAD

    def read_union(self, kind: Any, node: Node, path: str, default: object) -> Any:
        """Read `int | None`: a scalar is the first kind that fits, text only if nothing else."""
        kinds = sorted(get_args(kind), key=lambda one: one in (str, Path))
        if isinstance(node, Scalar):
            found = (read_scalar(one, node) for one in kinds if node_kind_of(one) is Scalar)
            value = next((one for one in found if one is not BAD), BAD)
            return self.refuse_kind(kind, node, path) if value is BAD else value
        fitting = [one for one in kinds if node_kind_of(one) is type(node)]
        if len(fitting) > 1:
            raise TypeError(f"{path}: YAML does not tell the kinds of {kind} apart")
        if not fitting:
            return self.refuse_kind(kind, node, path)
        return self.read_value(fitting[0], node, path, default)

    def read_items(self, kind: Any, node: Node, path: str) -> Any:
        if not isinstance(node, Items):
            return self.refuse_kind(kind, node, path)
        kinds = get_args(kind)
        if kinds[1:] == (...,):
            kinds = kinds[:1] * len(node.items)
        if len(kinds) != len(node.items):
            return self.refuse_kind(kind, node, path, f" of {len(node.items)}")
        values = [
            self.read_value(one, item, f"{path}[{i}]")
            for i, (one, item) in enumerate(zip(kinds, node.items, strict=True))
        ]
        return BAD if BAD in values else tuple(values)


TAG = "kind"  # the field that tells the groups of a union apart


def groups_by_tag(kind: Any) -> dict[str, Any]:
    """Return the groups of a union by tag: `Train | Ship`, each with a `kind: Literal["..."]`."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    if not all(dataclasses.is_dataclass(one) and TAG in field_names(one) for one in members):
        return {}
    return {tag: one for one in members for tag in get_args(get_type_hints(one)[TAG])}


def drop_others(group: Group, kind: Any, kinds: Iterable[Any]) -> Group:
    """Drop what a file says about other kinds, where an override changes the kind."""
    others = set().union(*map(field_names, kinds)) - field_names(kind)
    entries = {
        name: (place, child)
        for name, (place, child) in group.entries.items()
        if name not in others or child.place.order[0]
    }
    return replace(group, entries=entries)


def field_names(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def default_of(field: dataclasses.Field[Any], group: object) -> Any:
    """Return the default of the group where there is one, else the field's; BAD if it has none."""
    if dataclasses.is_dataclass(group) and hasattr(group, field.name):
        return getattr(group, field.name)
    return BAD if field.default is dataclasses.MISSING else field.default


def find_blamed_place(group: Group, sentence: str, inside: str) -> SourcePlace:
    """Return the place of a failed check: the first field that its sentence names, else the group.

    An override in the group may be the reason, so it is named too.
    """
    place = group.place
    for name in re.findall(r"[a-z_.]+", sentence):
        if found := find_place_within(group, name.removeprefix(inside).strip(".").split(".")):
            place = found
            break
    others = [text for text in dict.fromkeys(group.overrides) if text != place.text]
    with_these = f" with {' '.join(others)}" if others else ""
    return replace(place, text=place.text + with_these)


def find_place_within(group: Node, names: Sequence[str]) -> SourcePlace | None:
    """Return the place of a nested field of a group, if it was given and is not a group itself."""
    if not isinstance(group, Group) or names[0] not in group.entries:
        return None
    place, child = group.entries[names[0]]
    if names[1:]:
        return find_place_within(child, names[1:])
    return None if isinstance(child, Group) else place


def find_nearest_name(name: str, names: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), None)


T = TypeVar("T")


def load(kind: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """Load the settings in a file."""
    return read(kind, text_of(path), str(path), overrides)


def peek_field(path: Path, field: str) -> str | None:
    """Return the text of one field of a file; None if it has none or cannot be read."""
    if not path.is_file():
        return None
    try:
        node = SettingsReader(path.read_text(encoding="utf-8")).find(field)
    except (OSError, UnicodeDecodeError):
        return None
    return node.text if isinstance(node, Scalar) else None


def read(
    kind: type[T],
    text: str,
    file: str = "recipe.yaml",
    overrides: Sequence[str] = (),
    default: T | None = None,
) -> T:
    """Read YAML as a frozen dataclass, each value by the declared type of its field.

    An override, `training.steps=20000`, replaces what the file says. A field that is not given has
    the value of `default`, or its own; a group given in part keeps the rest of it.
    """
    reader = SettingsReader(text, file, overrides)
    # A tree cut short by a syntax error is Refused: otherwise its fields would seem missing.
    value = reader.read_value(kind, reader.tree, "", default)
    if reader.mistakes:
        reader.mistakes.sort(key=lambda mistake: mistake[0].order)
        raise Mistakes([f"{place.text}: {sentence}" for place, sentence in reader.mistakes])
    return value


def read_part(
    kind: type, field: str, text: str, overrides: Sequence[str] = (), only: Sequence[str] = ()
) -> Any:
    """Read one field, or `only` these fields of it; None if it is not given, or is a mistake."""
    reader = SettingsReader(text, overrides=overrides)
    node = reader.find(field)
    if isinstance(node, Group) and only:
        node = replace(node, entries={n: node.entries[n] for n in only if n in node.entries})
        node = node if node.entries else None
    value = BAD if node is None else reader.read_value(get_type_hints(kind)[field], node, field)
    return None if value is BAD else value


def write(value: object) -> str:
    """Write settings as YAML that reads back as the same value."""
    # No line is folded: a value stays on the line of its name.
    text: str = yaml.serialize(
        to_node(value), Dumper=yaml.BaseDumper, allow_unicode=True, width=sys.maxsize
    )
    return text


def write_inline(value: object) -> str:
    """Write a value as after the = of an override: (1, 2) -> "[1, 2]" """
    return write(value).removesuffix("\n").removesuffix("\n...")


def to_node(value: object) -> yaml.Node:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = [
            (to_node(field.name), to_node(getattr(value, field.name)))
            for field in dataclasses.fields(value)
            if field.init
        ]
        return yaml.MappingNode(GROUP, pairs, flow_style=False)
    if isinstance(value, tuple):
        nodes = [to_node(item) for item in value]
        # [1, 2] on one line, but groups below each other
        flow = not any(isinstance(node, yaml.MappingNode) for node in nodes)
        return yaml.SequenceNode(ITEMS, nodes, flow_style=flow)
    if isinstance(value, str | Path):
        text = str(value)
        return yaml.ScalarNode(TEXT, text, style='"' if needs_quotes(text) else None)
    return yaml.ScalarNode(TEXT, write_scalar(value))


def write_scalar(value: object) -> str:
    """Write None, booleans and numbers as in YAML, numbers to the last digit."""
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
    """Whether this reader or another reader of YAML would take the text for something else."""
    node = Scalar(SourcePlace((0, 0, 0), ""), text, quoted=False)
    other = any(read_scalar(kind, node) is not BAD for kind in (NoneType, bool, int, float))
    tag = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))
    return other or tag != TEXT or not text.isprintable()
