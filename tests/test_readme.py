"""README and docs are true: code runs, tables are the measured ones, commands and files exist."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import manyheads
from manyheads import draw, grid, read
from manyheads.attention.patterns import PATTERNS
from manyheads.catalog import built_in
from manyheads.cli.app import app
from manyheads.cli.options import make_command
from manyheads.cli.train import TaskGroup
from manyheads.cli.verbs import VerbCommand, find_typed_model, make_help_run, make_model_run
from manyheads.tasks.describing import settings_of
from manyheads.tasks.table import trained_tasks

ROOT = Path(__file__).parent.parent
FILES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PAGES = {path.name: path.read_text(encoding="utf-8") for path in FILES}
README, HEART, MAP = PAGES["README.md"], PAGES["heart.md"], PAGES["map.md"]


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [block for kind, block in found if kind == language]


def code_of(page: str) -> str:
    return "\n".join(blocks(page, "python"))


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


# ---- Python ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["README.md", "python.md", "music.md", "inspect.md"])
def test_the_code_runs_from_top_to_bottom(
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)  # it reads files and writes pictures
    for file, words in (("train.de", "ein hund rennt"), ("train.en", "a dog is running")):
        lines = "".join(f"{words} {'so ' * (i + 1)}\n" for i in range(40))
        Path(file).write_text(lines, encoding="utf-8")
    exec(code_of(PAGES[name]), {})
    printed = capsys.readouterr().out.strip()
    assert name != "README.md" or f"\n# {printed}\n" in README


def test_the_sentence_quoted_is_the_sentence_given() -> None:
    quoted = re.search(r">>> (Attention\(.*\))\nValueError: (.*)", PAGES["python.md"])
    assert quoted
    with pytest.raises(ValueError, match=re.escape(quoted[2])):
        exec(f"from manyheads import *\n{quoted[1]}", {})


def test_the_account_of_the_heart_quotes_what_is_printed() -> None:
    quoted = re.search(r">>> print\((choose\(.*\))\)\n(.*?)```", HEART, re.DOTALL)
    assert quoted
    names: dict[str, object] = {}
    words = "from manyheads import *\nfrom manyheads import choose, line\n"
    exec(f"{words}found = str({quoted[1]})", names)
    assert names["found"] == quoted[2].strip()
    exec("from manyheads import *\n" + code_of(HEART) + "\nstr(Causal() & Strided(8))", names)


def test_the_translations_shown_are_the_ones_that_are_written() -> None:
    shown = re.search(r'manyheads translate "(.*)"\n```\n```\n(.*)\n```', README)
    assert shown
    model = manyheads.load("de-en", "cpu")
    assert model.translate([shown[1]], beam=5) == [shown[2]]
    (best,) = model.translate_nbest(["Ich habe keine Zeit."], 3)
    lines = "".join(f"1\t{one.score:.4f}\t{one.text}\n" for one in best)
    assert lines in README
    assert lines in PAGES["translation.md"]


# ---- tables and drawings ---------------------------------------------------------------------


def test_the_drawing_is_what_the_command_prints() -> None:
    drawing = str(draw(read("Causal() & Window(2)"), grid(8, 8)))
    assert drawing.splitlines()[0] in HEART
    assert drawing.split("\n\n")[-1] in HEART
    assert all(f"`{name}(" in HEART for name in PATTERNS)


@pytest.fixture(scope="module")
def tables() -> Any:
    """What makes them."""
    spec = importlib.util.spec_from_file_location("tables", ROOT / "results" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    return tables


def test_the_page_of_settings_is_made_from_the_code(tables: Any) -> None:
    """`python results/tables.py --write` makes it anew."""
    assert tables.SETTINGS.read_text(encoding="utf-8") == tables.describe_settings()


def test_the_tables_are_made_from_what_was_measured(tables: Any) -> None:
    pages = [PAGES[path.name] for path in tables.PAGES]
    assert [tables.with_tables(page) for page in pages] == pages
    assert all(f"<!-- {name} -->\n|" in "".join(pages) for name in tables.TABLES)


# ---- files and links -------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\((?!http)([^)]+)\)", PAGES[path.name]):
        name, _, heading = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not heading or heading in headings(target.read_text(encoding="utf-8")), link


def headings(page: str) -> set[str]:
    """ "## Classes, tags" -> "classes-tags" """
    found = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in found}


def test_every_page_can_be_reached_from_the_readme() -> None:
    assert all(f"(docs/{path.name})" in README for path in FILES[1:])


def test_the_map_names_what_is_there() -> None:
    for name in re.findall(r"`((?:\w+/)*\w+\.py)`", MAP):
        assert (ROOT / name).exists() or [*(ROOT / "manyheads").rglob(name)], name
    for name in re.findall(r"`((?:\w+/)+)`", MAP):
        assert (ROOT / name).is_dir() or (ROOT / "manyheads" / name).is_dir(), name
    for file, rest in re.findall(r"`(\w+/[\w/]+\.py)`: ([^|]*)", MAP):
        source = (ROOT / "manyheads" / file).read_text(encoding="utf-8")
        for table in re.findall(r"a line in `([A-Z]+)`(?! \()", rest.partition("`;")[0]):
            assert re.search(rf"^{table}\b.*= {{", source, re.MULTILINE), (file, table)


# ---- commands --------------------------------------------------------------------------------


def commands_in(page: str) -> Iterator[list[str]]:
    """What the page says to type, without what the shell reads."""
    for block in blocks(page, ""):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("manyheads "):
                words = shlex.split(line, comments=True)[1:]
                kept = zip(words, ["", *words], strict=False)
                yield [one for one, before in kept if one not in "<>" and before not in ("<", ">")]


TYPED = [
    pytest.param(words, id=f"{name}: {' '.join(words)}")
    for name, page in PAGES.items()
    for words in commands_in(page)
]


@pytest.mark.parametrize("words", TYPED)
def test_every_command_has_the_options_that_it_is_typed_with(words: list[str]) -> None:
    name, *rest = words
    if name == "decompress" and "--model" not in rest:  # the file says by which one
        rest += ["--model", "a-run"]
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    if isinstance(command, VerbCommand):
        model = find_typed_model(rest)
        own = make_model_run(name, model) if model in built_in() else make_help_run(name)
        command = make_command(name, own)
    elif isinstance(command, TaskGroup):
        name, *rest = rest
        command = make_command(name, command.get_command(None, name).make(name))
        if name in trained_tasks():
            known = {one.name for one in settings_of(name)}
            assert {one.partition("=")[0] for one in rest if re.match(r"[\w.]+=", one)} <= known
    command.make_context(name, rest)


def test_every_command_named_in_a_sentence_is_one() -> None:
    known = {*get_command(app).commands}  # type: ignore[attr-defined]
    named = {one for page in PAGES.values() for one in re.findall(r"`manyheads (\w+)", page)}
    typed = {words.values[0][0] for words in TYPED}  # type: ignore[index]
    assert named - {"COMMAND"} <= known
    assert known - typed - {"env", "demo", "predict", "resume"} == set()
