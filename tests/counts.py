"""The measures of the house, printed by `make lint`: a bar that is broken is an error.

python tests/counts.py
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from math import inf
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1] / "manyheads"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FILE = 450  # lines at the most
SEVERAL = 3  # modules may define a function of one name


def read_modules() -> dict[str, ast.Module]:
    """{"manyheads.attention.layer": its syntax}"""
    paths = sorted(ROOT.rglob("*.py"))
    return {name_module(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def name_module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def count_lines() -> dict[str, int]:
    paths = sorted(ROOT.rglob("*.py"))
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in paths
    }


def function_lengths(modules: dict[str, ast.Module]) -> list[int]:
    """Methods and functions inside functions too, each with its signature and docstring."""
    nodes = (node for tree in modules.values() for node in ast.walk(tree))
    return [
        (node.end_lineno or 0) - node.lineno + 1 for node in nodes if isinstance(node, FUNCTIONS)
    ]


def defined_in(modules: dict[str, ast.Module], kinds: Any) -> dict[str, list[str]]:
    """Where each name is defined at the level of a module: {"check": [two modules]}; _ is none."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules.items():
        for name in {node.name for node in tree.body if isinstance(node, kinds)} - {"_"}:
            found[name].append(module)
    return found


def imported_at_start(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The modules of the package without which this one does not load."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        if isinstance(node, ast.ImportFrom) and node.module in known:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else str(node.module) for name in inside)


def find_cycle(modules: dict[str, ast.Module]) -> list[str]:
    """The first ring of modules of which none loads without the others; empty where none is."""
    known = set(modules)
    graph = {
        module: {*imported_at_start(tree, known)} - {module} for module, tree in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


class Measure(NamedTuple):
    """A number of the package, the most it may be, and where it comes from."""

    name: str
    value: float
    most: float = inf
    where: list[str] = []  # noqa: RUF012

    @property
    def broken(self) -> bool:
        return self.value > self.most

    def __str__(self) -> str:
        bar = "" if self.most == inf else f", at most {self.most:g}"
        sign = ": BROKEN" if self.broken else ""
        return "\n    ".join([f"{self.name}: {self.value:g}{bar}{sign}", *self.where])


def measure() -> list[Measure]:
    modules, lines = read_modules(), count_lines()
    longest = [f"{file}: {count}" for file, count in lines.items() if count > FILE]
    classes, functions = defined_in(modules, ast.ClassDef), defined_in(modules, FUNCTIONS)
    twice = [f"{name}: {', '.join(at)}" for name, at in classes.items() if len(at) > 1]
    often = [f"{name}: {', '.join(at)}" for name, at in functions.items() if len(at) > SEVERAL]
    ninetieth = quantiles(function_lengths(modules), n=10)[-1]
    cycle = find_cycle(modules)
    return [
        Measure("lines of the package", sum(lines.values())),
        Measure("lines of a module, median", median(lines.values()), 130),
        Measure("lines of a function, 90th percentile", ninetieth, 18),
        Measure("lines of the longest file", max(lines.values()), FILE, longest),
        Measure("class names defined twice", len(twice), 0, twice),
        Measure(f"function names defined in more than {SEVERAL} modules", len(often), 0, often),
        Measure("modules in an import cycle", len(cycle), 0, cycle),
    ]


def main() -> int:
    measures = measure()
    print(*measures, sep="\n")
    return int(any(one.broken for one in measures))


if __name__ == "__main__":
    sys.exit(main())
