"""Settings to and from YAML: every mistake at once, with its place and what was perhaps meant."""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

T = TypeVar("T")


class Mistakes(ValueError):  # noqa: N818 - it is all of them, not an error
    """All that is wrong with some settings, a line each: recipe.yaml:4:10: what is wrong there"""

    def __init__(self, lines: Sequence[str]):
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def load(kind: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """The settings in a file."""
    if path.is_dir():
        raise ValueError(f"settings are read from a file, {path} is a folder")
    if not path.exists():
        raise ValueError(f"settings are read from a file, and there is no {path}")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"settings are UTF-8 text, byte {error.start} of {path} is 0x{byte:02x}"
        ) from None
    return read(kind, text, str(path), overrides)


def peek(path: Path, field: str) -> str | None:
    """What a file says of one field, if it is text and the file can be read at all."""
    try:
        tree = Source(Reader(), path.read_text(encoding="utf-8"), str(path)).tree()
    except (OSError, UnicodeDecodeError):
        return None
    _, node = tree.entries.get(field, (None, None)) if isinstance(tree, Group) else (None, None)
    return node.text if isinstance(node, Scalar) else None


def read(kind: type[T], text: str, file: str = "recipe.yaml", overrides: Sequence[str] = ()) -> T:
    """YAML as a frozen dataclass, each value read as its field is declared.

    An override, `training.steps=20000`, replaces what the file says. A field that is not given
    has its default; a group given in part keeps the rest of the default of the field it is in.
    """
    reader = Reader()
    tree = Source(reader, text, file).tree()
    for number, override in enumerate(overrides, start=1):
        tree = overridden(reader, tree, override, number)
    # A tree cut short by a syntax error would only seem to lack fields.
    value = BAD if isinstance(tree, Refused) else reader.value(kind, tree, "")
    if reader.mistakes:
        reader.mistakes.sort(key=lambda mistake: mistake[0].order)
        raise Mistakes([f"{place.text}: {sentence}" for place, sentence in reader.mistakes])
    return value


def write(value: object, note: str = "") -> str:
    """The settings as YAML that reads back as the same value, under the note as a comment."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in note.splitlines())
    # No line is folded: a value stays on the line of its name.
    text = yaml.serialize(
        written(value), Dumper=yaml.BaseDumper, allow_unicode=True, width=sys.maxsize
    )
    return comment + text


# ---- YAML as a tree that knows its places ----


@dataclass(frozen=True)
class Place:
    """Where something was said, and how to put places in order."""

    order: tuple[int, int, int]  # 0 for the file or the number of an override; line; column
    text: str


@dataclass(frozen=True)
class Scalar:
    place: Place
    text: str
    quoted: bool

    @property
    def null(self) -> bool:
        return not self.quoted and self.text.lower() in ("", "~", "null")


@dataclass(frozen=True)
class Items:
    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Group:
    place: Place
    entries: dict[str, tuple[Place, Node]]  # by name: where the name stands, and the value
    overrides: tuple[str, ...] = ()  # those that changed something in here


@dataclass(frozen=True)
class Refused:
    """A mistake is noted for this; nothing more is said about it."""

    place: Place


Node = Scalar | Items | Group | Refused


class Source:
    """One YAML text: the file, or the value of an override."""

    def __init__(self, reader: Reader, text: str, name: str, number: int = 0):
        self.reader, self.text, self.name, self.number = reader, text, name, number
        self.done: dict[int, Node] = {}  # aliases share a node: each is looked at once
        self.open: set[int] = set()

    def place(self, line: int, column: int) -> Place:
        text = self.name if self.number else f"{self.name}:{line + 1}:{column + 1}"
        return Place((self.number, line, column), text)

    def marked(self, mark: yaml.Mark | None) -> Place:
        return self.place(mark.line, mark.column) if mark else self.place(0, 0)

    def tree(self) -> Node:
        """Only composed, so no tag constructs anything; BaseLoader leaves every scalar a text."""
        try:
            loader = yaml.BaseLoader(self.text)
        except yaml.reader.ReaderError as error:
            before = self.text[: error.position].split("\n")
            return self.refuse(
                self.place(len(before) - 1, len(before[-1])),
                f"not YAML: the character {self.text[error.position]!a} is not allowed",
            )
        try:
            node = loader.get_single_node()
            return self.node(node) if node else Scalar(self.place(0, 0), "", quoted=False)
        except yaml.MarkedYAMLError as error:
            reason = ", ".join(part for part in (error.context, error.problem) if part)
            return self.refuse(self.marked(error.problem_mark), f"not YAML: {one_line(reason)}")
        except RecursionError:
            return self.refuse(self.place(0, 0), "nested too deep to be settings")
        except (ValueError, OverflowError):  # from chr(), in the scanner
            return self.refuse(
                self.marked(loader.get_mark()), "not YAML: an escape names no character"
            )

    def refuse(self, place: Place, sentence: str) -> Refused:
        self.reader.mistake(place, sentence)
        return Refused(place)

    def node(self, node: yaml.Node) -> Node:
        if id(node) in self.open:
            return self.refuse(
                self.marked(node.start_mark), "an alias stands inside its own anchor"
            )
        if id(node) not in self.done:
            self.open.add(id(node))
            self.done[id(node)] = self.plain(node)
            self.open.remove(id(node))
        return self.done[id(node)]

    def plain(self, node: yaml.Node) -> Node:
        place = self.marked(node.start_mark)
        if node.tag not in (TEXT, ITEMS, GROUP):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            return self.refuse(
                place, f"the tag {tag} is not read; write the plain value without a tag"
            )
        if isinstance(node, yaml.ScalarNode):
            return Scalar(place, node.value, quoted=node.style is not None)
        if isinstance(node, yaml.SequenceNode):
            return Items(place, tuple(self.node(item) for item in node.value))
        entries: dict[str, tuple[Place, Node]] = {}
        for key, item in node.value:
            where = self.marked(key.start_mark)
            value = self.node(item)
            name = self.node(key)
            if isinstance(name, Items | Group):
                self.refuse(where, f"a field's name is text, got {shown(name)}")
            elif isinstance(name, Scalar) and name.text == "<<" and not name.quoted:
                self.refuse(where, "merging with << is not read; write the fields out")
            elif isinstance(name, Scalar) and name.text in entries:
                first = entries[name.text][0].text
                self.refuse(where, f"{name.text!r} is given twice, first at {first}")
            elif isinstance(name, Scalar):
                entries[name.text] = where, value
        return Group(place, entries)


TEXT, ITEMS, GROUP = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


def overridden(reader: Reader, tree: Node, override: str, number: int) -> Node:
    """The tree with `training.steps=20000` in it."""
    path, equals, text = override.partition("=")
    names = [name.strip() for name in path.split(".")]
    said = override if override.isprintable() else repr(override)
    source = Source(reader, text, said, number)
    if not equals or not all(names):
        source.refuse(source.place(0, 0), "an override reads like field=value or group.field=value")
        return tree
    value = source.tree()
    return tree if isinstance(tree, Refused) else put(tree, names, value, source.place(0, 0))


def put(tree: Node, names: Sequence[str], value: Node, place: Place) -> Group:
    """A new tree, because an alias may show the old one elsewhere too."""
    group = tree if isinstance(tree, Group) else Group(place, {})
    name, *rest = names
    where, old = group.entries.get(name, (place, Scalar(place, "", quoted=False)))
    new = put(old, rest, value, place) if rest else value
    return replace(
        group,
        entries={**group.entries, name: (where, new)},
        overrides=(*group.overrides, place.text),
    )


# ---- the tree as what the fields declare ----

BAD: Any = object()  # stands for a value with a mistake, until all mistakes are found


def bad(values: Iterable[object]) -> bool:
    return any(value is BAD for value in values)


class Reader:
    """Reads nodes by declared type, and goes on after a mistake."""

    def __init__(self) -> None:
        self.mistakes: list[tuple[Place, str]] = []

    def mistake(self, place: Place, sentence: str) -> Any:
        self.mistakes.append((place, sentence))
        return BAD

    def wrong(self, kind: Any, node: Node, path: str, hint: str = "") -> Any:
        return self.mistake(node.place, f"{path} is {described(kind)}, got {shown(node)}{hint}")

    def value(self, kind: Any, node: Node, path: str, default: object = None) -> Any:
        """The default is that of the field: a group given in part keeps the rest of it."""
        if isinstance(node, Refused):
            return BAD
        if dataclasses.is_dataclass(kind):
            return self.group(kind, node, path, default)
        if get_origin(kind) in (Union, UnionType):
            return self.either(kind, node, path, default)
        if get_origin(kind) is tuple:
            return self.items(kind, node, path)
        if get_origin(kind) is dict:
            return self.table(kind, node, path)
        found = scalar(kind, node) if isinstance(node, Scalar) else BAD
        if found is not BAD:
            return found
        hint = ""
        if get_origin(kind) is Literal and isinstance(node, Scalar):
            near = nearest(node.text, map(str, get_args(kind)))
            hint = f"; did you mean {near}?" if near else ""
        return self.wrong(kind, node, path, hint)

    def group(self, kind: Any, node: Node, path: str, default: object) -> Any:
        called = path or kind.__name__.lower()
        if isinstance(node, Scalar) and node.null:  # `training:` and nothing under it
            node = Group(node.place, {})
        if not isinstance(node, Group):
            return self.wrong(kind, node, called)
        inside = path and f"{path}."
        types = get_type_hints(kind)
        fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
        rest = {name: default_of(field, default, kind) for name, field in fields.items()}
        values: dict[str, Any] = {}
        meant: set[str | None] = set()
        for name, (place, child) in node.entries.items():
            if name in fields:
                values[name] = self.value(types[name], child, inside + name, rest[name])
                continue
            near = nearest(name, fields)
            meant.add(near)  # not also reported as missing
            hint = f"did you mean {near}?" if near else f"its fields are {', '.join(fields)}"
            self.mistake(place, f"{called} has no field {name!r}; {hint}")
        for name in fields:
            if name not in values and rest[name] is BAD and name not in meant:
                what = described(types[name])
                self.mistake(node.place, f"{inside}{name} is missing; it is {what}")
        values = rest | values
        if bad(values.values()):
            return BAD
        try:
            return kind(**values)
        except ValueError as error:
            return self.mistake(blamed(node), one_line(str(error)))

    def either(self, kind: Any, node: Node, path: str, default: object) -> Any:
        """`int | None`: a scalar is what it reads as first, and text only if nothing else."""
        kinds = sorted(get_args(kind), key=lambda one: one in (str, Path))
        if isinstance(node, Scalar):
            found = (scalar(one, node) for one in kinds if shape(one) is Scalar)
            value = next((one for one in found if one is not BAD), BAD)
            return self.wrong(kind, node, path) if value is BAD else value
        fitting = [one for one in kinds if shape(one) is type(node)]
        if len(fitting) > 1:
            raise TypeError(f"{path}: YAML does not tell the kinds of {kind} apart")
        if not fitting:
            return self.wrong(kind, node, path)
        return self.value(fitting[0], node, path, default)

    def items(self, kind: Any, node: Node, path: str) -> Any:
        if not isinstance(node, Items):
            return self.wrong(kind, node, path)
        kinds = get_args(kind)
        if kinds[1:] == (...,):
            kinds = kinds[:1] * len(node.items)
        if len(kinds) != len(node.items):
            return self.wrong(kind, node, path, f" of {len(node.items)}")
        values = [
            self.value(one, item, f"{path}[{i}]")
            for i, (one, item) in enumerate(zip(kinds, node.items, strict=True))
        ]
        return BAD if bad(values) else tuple(values)

    def table(self, kind: Any, node: Node, path: str) -> Any:
        if not isinstance(node, Group):
            return self.wrong(kind, node, path)
        key, item = get_args(kind)
        if key is not str:
            raise TypeError(f"{path}: the names in a dict are str, got {kind}")
        values = {
            name: self.value(item, child, f"{path}.{name}")
            for name, (_, child) in node.entries.items()
        }
        return BAD if bad(values.values()) else values


def default_of(field: dataclasses.Field[Any], group: object, kind: type) -> Any:
    """From the default of the group where there is one; BAD where there is none at all."""
    if isinstance(group, kind):
        return getattr(group, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return BAD if field.default is dataclasses.MISSING else field.default


def blamed(group: Group) -> Place:
    """Where a group's own check failed: an override in it may be the reason, so it is named."""
    others = [text for text in dict.fromkeys(group.overrides) if text != group.place.text]
    with_these = f" with {' '.join(others)}" if others else ""
    return replace(group.place, text=group.place.text + with_these)


# ---- scalars ----


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
    described(kind)  # raises for what cannot be read
    if node.null or (node.quoted and kind not in (str, Path)):
        return BAD
    try:
        return KINDS[kind][1](node.text)
    except ValueError:
        return BAD


# ---- words ----


def described(kind: Any) -> str:
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
        return " or ".join(described(one) for one in inner)
    if origin is tuple and inner[1:] == (...,):
        return f"a list, each {described(inner[0])}"
    if origin is tuple:
        return f"a list of {len(inner)}"
    if origin is dict:
        return f"a mapping, each {described(inner[1])}"
    if dataclasses.is_dataclass(kind):
        return f"a group of {', '.join(field.name for field in dataclasses.fields(kind))}"
    raise TypeError(f"settings are not read as {kind}")


def shape(kind: Any) -> type:
    """Which node holds this kind."""
    if get_origin(kind) is tuple:
        return Items
    return Group if get_origin(kind) is dict or dataclasses.is_dataclass(kind) else Scalar


def shown(node: Node) -> str:
    if not isinstance(node, Scalar):
        return "a list" if isinstance(node, Items) else "a mapping"
    if node.null:
        return node.text or "nothing"
    text = node.text if len(node.text) <= 60 else node.text[:57] + "..."
    return f"the text {text!r}" if node.quoted else repr(text)


def nearest(name: str, names: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), None)


def one_line(text: str) -> str:
    return " ".join(text.splitlines())


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
    node = Scalar(Place((0, 0, 0), ""), text, quoted=False)
    other = any(scalar(kind, node) is not BAD for kind in (NoneType, bool, int, float))
    tag = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))
    return other or tag != TEXT or not text.isprintable()
