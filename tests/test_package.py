"""What `import manyheads` gives."""

import ast
import re
from pathlib import Path

import pytest

import manyheads

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", manyheads.__all__)
def test_every_listed_name_is_there(name: str) -> None:
    assert getattr(manyheads, name) is not None


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(AttributeError, match="manyheads has no 'Casual'; it has line, grid"):
        _ = manyheads.Casual


def test_every_file_says_which_question_it_answers() -> None:
    for path in (ROOT / "manyheads").rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_constraints_pin_every_dependency() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {re.split(r"[<>=\[ ]", line)[0].lower() for line in asked}
    pinned = dict(
        line.lower().split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert names <= set(pinned)
    assert pinned["torch"] == "2.13.0"
