"""The README is true: its code runs, its tables are the measured ones, its drawing is drawn."""

import importlib.util
import re
from pathlib import Path

import pytest

from manyheads import draw, grid, read

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_code_runs_from_top_to_bottom(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # it writes a picture
    exec("\n".join(CODE), {})
    shown = capsys.readouterr().out.strip()
    assert f"# {shown}" in README


def test_the_page_on_python_runs_from_top_to_bottom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, words in (("train.de", "ein hund rennt"), ("train.en", "a dog is running")):
        lines = "".join(f"{words} {'so ' * (i + 1)}\n" for i in range(40))
        Path(name).write_text(lines, encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    exec(code, {})


def test_the_drawing_is_what_the_command_prints() -> None:
    (
        title,
        _,
        *_,
    ) = str(draw(read("Causal() & Window(2)"), grid(8, 8))).splitlines()
    view = str(draw(read("Causal() & Window(2)"), grid(8, 8))).split("\n\n")[-1]
    assert title in README
    assert view in README


def test_the_sentence_quoted_is_the_sentence_given() -> None:
    quoted = re.search(r">>> (Attention\(.*\))\nValueError: (.*)", README)
    assert quoted
    with pytest.raises(ValueError, match=re.escape(quoted[2])):
        exec(f"from manyheads import *\n{quoted[1]}", {})


def test_the_tables_are_made_from_what_was_measured() -> None:
    path = ROOT / "results" / "tables.py"
    spec = importlib.util.spec_from_file_location("tables", path)
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert tables.with_tables(README) == README
    assert all(f"<!-- {name} -->\n|" in README for name in tables.TABLES)


def test_every_pattern_and_file_it_names_is_there() -> None:
    from manyheads.attention.patterns import PATTERNS

    assert all(f"`{name}(" in README for name in PATTERNS)
    links = re.findall(r"\]\((?!http)([^)]+)\)", README)
    assert links
    headings = {
        "#" + line[3:].lower().replace(" ", "-")
        for line in README.splitlines()
        if line[:3] == "## "
    }
    assert all(link in headings if link[0] == "#" else (ROOT / link).exists() for link in links)


def test_the_account_of_the_heart_quotes_what_is_printed() -> None:
    account = (ROOT / "docs" / "heart.md").read_text(encoding="utf-8")
    quoted = re.search(r">>> print\((choose\(.*\))\)\n(.*?)```", account, re.DOTALL)
    assert quoted
    names: dict[str, object] = {}
    words = "from manyheads import *\nfrom manyheads import choose, line\n"
    exec(f"{words}found = str({quoted[1]})", names)
    assert names["found"] == quoted[2].strip()
    classes = re.findall(r"```python\n(class .*?)```", account, re.DOTALL)
    assert classes
    exec("from manyheads import *\n" + classes[0] + "\nstr(Causal() & Strided(8))", names)


def test_the_translation_shown_is_the_one_that_is_written() -> None:
    import manyheads

    shown = re.search(r'manyheads translate "(.*)"\n```\n```\n(.*)\n```', README)
    assert shown
    assert manyheads.load("de-en", "cpu").translate([shown[1]], beam=5) == [shown[2]]


def test_every_command_it_names_is_one() -> None:
    from manyheads.cli.app import app

    known = {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback
    } | {group.name for group in app.registered_groups}
    named = set(re.findall(r"(?:^|`)manyheads (\w+)", README, re.MULTILINE))
    assert {"train", "translate", "evaluate", "resume", "compare", "models", "draw"} <= named
    assert named <= known
