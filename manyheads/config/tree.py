"""Parse YAML into a tree of nodes, each with its place in the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

TEXT, ITEMS, GROUP = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


@dataclass(frozen=True)
class SourcePlace:
    """Where something was written, and how to sort places."""

    order: tuple[int, int, int]  # 0 for the file or the number of an override; line; column
    text: str


@dataclass(frozen=True)
class Scalar:
    place: SourcePlace
    text: str
    quoted: bool

    @property
    def null(self) -> bool:
        return not self.quoted and self.text.lower() in ("", "~", "null")


@dataclass(frozen=True)
class Items:
    place: SourcePlace
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Group:
    place: SourcePlace
    entries: dict[str, tuple[SourcePlace, Node]]  # by name: the place of the name, and the value
    overrides: tuple[str, ...] = ()  # those that changed something in this group


@dataclass(frozen=True)
class Refused:
    """A node whose mistake is already reported; nothing more is said about it."""

    place: SourcePlace


Node = Scalar | Items | Group | Refused


class Mistakes(ValueError):  # noqa: N818 - it is all of them, not an error
    """All mistakes in some settings, a line each: recipe.yaml:4:10: what is wrong there"""

    def __init__(self, lines: Sequence[str]):
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class Source:
    """One YAML text: the file, or the value of an override."""

    def __init__(
        self, note: Callable[[SourcePlace, str], object], text: str, name: str, number: int = 0
    ):
        self.note, self.text, self.name, self.number = note, text, name, number
        self.done: dict[int, Node] = {}  # aliases share a node: each is read once
        self.open: set[int] = set()

    def place(self, mark: yaml.Mark | None = None) -> SourcePlace:
        line, column = (mark.line, mark.column) if mark else (0, 0)
        text = self.name if self.number else f"{self.name}:{line + 1}:{column + 1}"
        return SourcePlace((self.number, line, column), text)

    def read_tree(self) -> Node:
        """Parse the text; it is only composed: no tag constructs anything, and scalars are text."""
        try:
            loader = yaml.BaseLoader(self.text)
        except yaml.reader.ReaderError as error:
            before = self.text[: error.position].split("\n")
            return self.refuse(
                self.place(yaml.Mark("", 0, len(before) - 1, len(before[-1]), None, 0)),
                f"not YAML: the character {self.text[error.position]!a} is not allowed",
            )
        try:
            node = loader.get_single_node()
            return self.read_node(node) if node else Scalar(self.place(), "", quoted=False)
        except yaml.MarkedYAMLError as error:
            reason = ", ".join(part for part in (error.context, error.problem) if part)
            return self.refuse(
                self.place(error.problem_mark), f"not YAML: {' '.join(reason.splitlines())}"
            )
        except RecursionError:
            return self.refuse(self.place(), "nested too deep to be settings")
        except (ValueError, OverflowError):  # from chr(), in the scanner
            return self.refuse(
                self.place(loader.get_mark()), "not YAML: an escape names no character"
            )

    def refuse(self, place: SourcePlace, sentence: str) -> Refused:
        self.note(place, sentence)
        return Refused(place)

    def read_node(self, node: yaml.Node) -> Node:
        if id(node) in self.open:
            return self.refuse(self.place(node.start_mark), "an alias stands inside its own anchor")
        if id(node) not in self.done:
            self.open.add(id(node))
            self.done[id(node)] = self.read_new_node(node)
            self.open.remove(id(node))
        return self.done[id(node)]

    def read_new_node(self, node: yaml.Node) -> Node:
        place = self.place(node.start_mark)
        if node.tag not in (TEXT, ITEMS, GROUP):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            return self.refuse(
                place, f"the tag {tag} is not read; write the plain value without a tag"
            )
        if isinstance(node, yaml.ScalarNode):
            return Scalar(place, node.value, quoted=node.style is not None)
        if isinstance(node, yaml.SequenceNode):
            return Items(place, tuple(self.read_node(item) for item in node.value))
        entries: dict[str, tuple[SourcePlace, Node]] = {}
        for key, item in node.value:
            where = self.place(key.start_mark)
            value = self.read_node(item)
            name = self.read_node(key)
            if isinstance(name, Items | Group):
                self.refuse(where, f"a field's name is text, got {show_node(name)}")
            elif isinstance(name, Scalar) and name.text == "<<" and not name.quoted:
                self.refuse(where, "merging with << is not read; write the fields out")
            elif isinstance(name, Scalar) and name.text in entries:
                first = entries[name.text][0].text
                self.refuse(where, f"{name.text!r} is given twice, first at {first}")
            elif isinstance(name, Scalar):
                entries[name.text] = where, value
        return Group(place, entries)


def apply_override(
    note: Callable[[SourcePlace, str], object], tree: Node, override: str, number: int
) -> Node:
    """Return the tree with an override such as `training.steps=20000` applied."""
    path, equals, text = override.partition("=")
    names = [name.strip() for name in path.split(".")]
    said = override if override.isprintable() else repr(override)
    source = Source(note, text, said, number)
    if not equals or not all(names):
        source.refuse(source.place(), "an override reads like field=value or group.field=value")
        return tree
    value = source.read_tree()
    return tree if isinstance(tree, Refused) else put_value(tree, names, value, source.place())


def put_value(tree: Node, names: Sequence[str], value: Node, place: SourcePlace) -> Group:
    """Return a new tree with the value: an alias may use the old one elsewhere too."""
    group = tree if isinstance(tree, Group) else Group(place, {})
    name, *rest = names
    where, old = group.entries.get(name, (place, Scalar(place, "", quoted=False)))
    new = put_value(old, rest, value, place) if rest else value
    return replace(
        group,
        entries={**group.entries, name: (where, new)},
        overrides=(*group.overrides, place.text),
    )


def show_node(node: Node) -> str:
    if not isinstance(node, Scalar):
        return "a list" if isinstance(node, Items) else "a mapping"
    if node.null:
        return node.text or "nothing"
    text = node.text if len(node.text) <= 60 else node.text[:57] + "..."
    return f"the text {text!r}" if node.quoted else repr(text)


def text_of(path: Path) -> str:
    """Return the text of a file of settings."""
    if path.is_dir():
        raise ValueError(f"settings are read from a file, {path} is a folder")
    if not path.exists():
        raise ValueError(f"settings are read from a file, and there is no {path}")
    if not path.is_file():  # opening a pipe would wait
        raise ValueError(f"settings are read from a file, {path} is none")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(
            f"settings are UTF-8 text, byte {error.start} of {path} is 0x{byte:02x}"
        ) from None
