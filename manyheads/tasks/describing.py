"""List all settings of a task: what each does, and its default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from manyheads.config import write_inline
from manyheads.config.declare import help_of
from manyheads.config.fields import TAG, describe_kind
from manyheads.tasks.recipe import Choice, Recipe
from manyheads.tasks.table import find_recipe

FEW, MANY = 0, 10**12  # tokens of a corpus: a default that differs between them depends on it
EXAMPLE = Path("x.tsv")


class Described(NamedTuple):
    """A setting; or a group of settings, whose default is None."""

    name: str
    kind: str
    default: str | None
    about: str


class Way(NamedTuple):
    """What a preset chooses on a machine, for a small corpus and a large one."""

    preset: str
    device: str
    few: Any
    many: Any

    def of(self, name: str, default: Any) -> Way:
        """Return the choices of one setting; the default where the network does not have it."""
        few, many = (getattr(one, name, default) for one in (self.few, self.many))
        return self._replace(few=few, many=many)


def settings_of(task: str) -> list[Described]:
    """Return all settings of a task, in the order of a recipe."""
    family = find_recipe(task)
    types = get_type_hints(get_type_hints(family)["data"])
    files = {name for name in family.files if "Path" in str(types[name])}
    return [
        *walk_settings([family], list_ways(task, family), "", {"task", *files}, family.networks)
    ]


def list_ways(task: str, family: type[Recipe]) -> list[Way]:
    data = example_data(family)
    return [
        Way(name, device, *(family.choose(task, data, tokens, asked) for tokens in (FEW, MANY)))
        for name in family.presets
        for device in ("cpu", "cuda")
        for asked in [Choice(device, preset=name)]
    ]


def example_data(family: type[Recipe]) -> Any:
    """Return `data` as if one file were given, by the first option that is enough alone."""
    types = get_type_hints(get_type_hints(family)["data"])
    for name in family.files:
        several = get_origin(types[name]) is tuple
        with suppress(ValueError):
            return family.data_of({name: (EXAMPLE,) if several else EXAMPLE})
    raise ValueError(f"no file alone is enough to learn from: {', '.join(family.files)}")


def walk_settings(
    kinds: Sequence[Any], chosen: Sequence[Way], path: str, asked: set[str], networks: Sequence[str]
) -> Iterator[Described]:
    """Yield the settings of these classes, each name once; those that the user must give, `asked`,
    have no default.
    """
    known: set[str] = set()
    for kind in kinds:
        types = get_type_hints(kind)
        for one in (one for one in fields(kind) if one.name not in known):
            known.add(one.name)
            own = [way.of(one.name, getattr(kind, one.name, None)) for way in chosen]
            name, hint = path + one.name, types[one.name]
            groups = [each for each in (hint, *get_args(hint)) if is_dataclass(each)]
            if groups:
                yield Described(name, "", None, help_of(one))
                here = [each for each in groups if not groups[1:] or tag_of(each) in networks]
                yield from walk_settings(here, own, f"{name}.", asked, networks)
                continue
            default = "" if one.name in asked else default_of(own)
            if kinds[1:] and one.name == TAG:
                hint = Literal[*map(tag_of, kinds)]
            alone = f" For {tag_of(kind)} networks only." if kind is not kinds[0] else ""
            yield Described(name, describe_kind(hint), default, help_of(one) + alone)


def tag_of(kind: Any) -> str:
    return str(getattr(kind, TAG))


def default_of(chosen: Sequence[Way]) -> str:
    """Return the default value, or what decides it."""
    if any(way.few != way.many for way in chosen):
        return "by the corpus"
    values = [way.few for way in chosen]
    if all(value == values[0] for value in values):
        return write_inline(values[0])
    cpu, cuda = ([way.few for way in chosen if way.device == d] for d in ("cpu", "cuda"))
    if cpu == cuda:
        names = [way.preset for way in chosen if way.device == "cpu"]
        return ", ".join(f"{n} {write_inline(v)}" for n, v in zip(names, cpu, strict=True))
    return f"{write_inline(cpu[0])}; on a GPU {write_inline(cuda[0])}"


def list_settings(task: str) -> str:
    """Format all settings of a task for a terminal."""
    lines = []
    for one in settings_of(task):
        if one.default is None:
            lines += ["", f"{one.name}: {one.about}"]
            continue
        default = f" = {one.default}" if one.default else ""
        lines += [f"  {one.name}{default}   ({one.kind})", f"      {one.about}"]
    return "\n".join(lines)
