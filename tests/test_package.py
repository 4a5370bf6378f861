"""What `import manyheads` gives."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import manyheads

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("name", manyheads.__all__)
def test_every_listed_name_is_there(name: str) -> None:
    assert getattr(manyheads, name) is not None


def test_a_star_leaves_common_words_alone() -> None:
    for name in ("read", "line", "plan", "kernel", "choose", "sample"):
        assert name not in manyheads.__all__
        assert callable(getattr(manyheads, name)), "asked for by name it is there"


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(AttributeError, match="manyheads has no 'Casual'; it has line, grid"):
        _ = manyheads.Casual


def test_every_file_says_which_question_it_answers() -> None:
    for path in (ROOT / "manyheads").rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_constraints_pin_every_dependency() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *extras["dev"], *extras["export"], *extras["music"]]
    asked += extras["graphs"]
    names = {re.split(r"[<>=\[ ]", line)[0].lower() for line in asked} - {"manyheads"}
    pinned = dict(
        line.lower().split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert names <= set(pinned)
    assert pinned["torch"] == "2.13.0"


def test_what_the_package_imports_it_asks_for() -> None:
    """What another dependency happens to bring is there on one machine and not on the next."""
    names = {"yaml": "pyyaml"}  # where the module is called otherwise than its package
    asked = {re.split(r"[<>=\[]", line)[0] for line in PROJECT["dependencies"]}
    met: set[str] = set()
    for path in (ROOT / "manyheads").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                met |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                met.add(node.module.split(".")[0])
    others = met - sys.stdlib_module_names - {"manyheads"}
    assert {names.get(name, name) for name in others} <= asked


SETTINGS = ["modules.config", "training.config", "tasks.recipe", "tasks.table"] + [
    f"tasks.{path.parent.name}.settings"
    for path in sorted((ROOT / "manyheads" / "tasks").glob("*/settings.py"))
]


def test_settings_are_read_without_torch_and_numpy() -> None:
    lines = [f"import manyheads.{name}" for name in SETTINGS]
    lines += ["import sys", "print([name for name in ('torch', 'numpy') if name in sys.modules])"]
    answer = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
