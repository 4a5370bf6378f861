"""The scripts in bench/ and results/ are not run by the tests: they must load all the same, and
what they import in their functions must be there.
"""

import ast
import runpy
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("bench/*.py"), *ROOT.glob("results/*.py")])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_loads_and_imports_what_the_package_has(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(path.parent))
    runpy.run_path(str(path), run_name="loaded")
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
