"""The scripts in bench/ and results/ are not run by the tests: what they import must be there."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("bench/*.py"), *ROOT.glob("results/*.py")])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_what_the_package_has(path: Path) -> None:
    missing = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "manyheads":
            held = import_module(node.module or "")
            for name in node.names:
                if not hasattr(held, name.name):
                    try:
                        import_module(f"{node.module}.{name.name}")
                    except ModuleNotFoundError:
                        missing.append(f"{node.module}.{name.name}")
    assert missing == []
