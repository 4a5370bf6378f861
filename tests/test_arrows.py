"""Which part may know of which: the sources are read, and no import points the wrong way."""

import ast
from pathlib import Path

import counts
import pytest

import manyheads

ROOT = Path(manyheads.__file__).parent

# Lower to higher; a part knows of itself and of what stands before it on every path to it.
KNOWS: dict[str, set[str]] = {
    "declare": set(),
    "attention.calls": set(),
    "attention.intervals": set(),
    "devices": set(),
    "attention.tables": {"attention.intervals", "devices"},
    "attention.places": {"attention.tables"},
    "attention.graphs": {"attention.places"},
    "attention.patterns": {"attention.places"},
    "attention.evaluate": {"attention.patterns"},
    "attention.notation": {"attention.calls", "attention.patterns"},
    "attention.positions": {"attention.biases"},
    "attention.rules": {"attention.places"},
    "attention.biases": {"attention.rules"},
    "attention.scores": {"attention.biases"},
    "attention.kernels": {"attention.evaluate", "attention.scores"},
    "attention.cache": {"attention.patterns"},
    "attention.layer": {"attention.kernels", "attention.cache", "attention.positions"},
    "config": set(),
    "metrics": set(),
    "codecs": set(),
    "inspect.record": {"attention.layer"},
    "modules.positions": {"attention.positions", "config"},
    "modules.config": {"attention.notation", "attention.scores", "modules.positions"},
    "modules": {"attention.layer", "modules.config", "inspect.record"},
    "decoding": {"modules", "codecs"},
    "training.config": {"config"},
    "training.files": set(),
    "training.weights": {"training.files"},
    "training.distributed": {"devices"},
    "tasks.recipe": {"training.config", "modules.config"},
    "tasks.model": {"config", "devices", "training.files", "training.weights"},
    "tasks.task": {"tasks.recipe", "tasks.model", "training.distributed"},
    "training": {"attention.kernels", "config", "tasks.task"},
    "data.packed": {"training.files"},
    "data": {"codecs", "modules"},
    "inspect": {"modules"},
    "tasks.verbs": {"tasks.recipe"},
    "tasks.words": {"codecs", "metrics"},
    "tasks.inspection": {"inspect", "tasks.words"},
    # a room for each task
    "tasks.portable": {"decoding"},
    "tasks.packing": {"data.packed", "decoding", "tasks.model"},
    "tasks.row_packing": {"tasks.packing", "data.packed"},
    "tasks.draft_file": {"decoding", "training"},
    "tasks.drafted": {"decoding", "tasks.model", "tasks.draft_file"},
    "tasks.drafting": {"tasks.drafted"},
    "tasks.vocabulary": {"codecs", "tasks.task"},
    "tasks.continuation": {"data", "training", "tasks.vocabulary", "tasks.drafted"},
    "tasks.seq2seq": {
        "catalog",
        "tasks.drafted",
        "tasks.vocabulary",
        "tasks.portable",
        "training",
        "tasks.verbs",
        "decoding",
        "data",
        "tasks.inspection",
    },
    "tasks.language": {
        "tasks.drafted",
        "data.packed",
        "tasks.row_packing",
        "tasks.inspection",
        "tasks.portable",
        "tasks.continuation",
        "metrics",
        "tasks.verbs",
    },
    "tasks.masked": {"tasks.language"},
    "tasks.classification": {"tasks.masked"},
    "tasks.pointing": {"tasks.seq2seq", "tasks.masked"},
    "tasks.music": {
        "data.packed",
        "tasks.row_packing",
        "tasks.drafted",
        "tasks.portable",
        "tasks.continuation",
        "tasks.verbs",
        "metrics",
        "tasks.inspection",
    },
    "tasks.image": {
        "tasks.packing",
        "tasks.portable",
        "tasks.verbs",
        "data",
        "data.packed",
        "tasks.inspection",
        "metrics",
        "training",
    },
    "tasks.graph": {
        "attention.graphs",
        "tasks.portable",
        "tasks.task",
        "tasks.verbs",
        "data",
        "metrics",
        "tasks.inspection",
        "training",
    },
    # rooms are found by name, and nothing below here imports one
    "tasks.table": {"tasks.task", "tasks.seq2seq", "tasks.music"},
    "tasks.describing": {"tasks.table"},
    "catalog": {"config", "training.files"},
    # what is written once, over all tasks
    "models": {"tasks.table", "catalog", "training", "modules"},
    "learn": {"models", "codecs"},
    "api": {"learn", "cli.run_screen"},
    "estimate": {"learn"},
    "comparing": {"estimate"},
    "decoders": {"learn", "tasks.seq2seq", "lab"},
    "interop.importing": {"models", "interop"},
    "interop": {"tasks.portable", "tasks.language", "training"},
    "verifying": {"interop.importing"},
    "lab.table": {"tasks.table"},
    "lab": {"lab.table", "modules", "decoding", "metrics", "training"},
    "cli.incoming": {"data"},
    "cli.screen": {"metrics"},
    "cli.run_screen": {"training"},
    "cli.options": {"catalog", "models"},
    "cli.live": {"inspect", "models"},
    # the commands of a room
    "tasks.seq2seq.commands": {"tasks.seq2seq", "cli.screen", "cli.incoming", "models"},
    "tasks.language.commands": {"tasks.language", "cli.screen", "cli.incoming"},
    "tasks.masked.commands": {"tasks.masked", "cli.screen", "cli.incoming"},
    "tasks.pointing.commands": {"tasks.pointing", "tasks.seq2seq.commands"},
    "tasks.classification.commands": {"tasks.classification", "cli.screen", "cli.incoming"},
    "tasks.music.commands": {"tasks.music", "cli.screen", "cli.live"},
    "tasks.image.commands": {"tasks.image", "cli.screen", "cli.live"},
    "tasks.graph.commands": {"tasks.graph", "cli.screen", "cli.incoming"},
    "demo": {"models", "learn", "cli.run_screen", "tasks.seq2seq"},
    "cli": {
        "cli.incoming",
        "cli.live",
        "cli.options",
        "cli.screen",
        "tasks.drafting",
        "data.packed",
        "tasks.verbs",
        "tasks.describing",
        "comparing",
        "decoders",
        "demo",
        "lab",
        "verifying",
    },
    "__main__": {"cli"},
}


def part_of(module: str) -> str:
    return max((p for p in KNOWS if module == p or module.startswith(f"{p}.")), key=len, default="")


def allowed(part: str) -> set[str]:
    return {part}.union(*(allowed(lower) for lower in KNOWS[part]))


def imports(path: Path) -> set[str]:
    """The modules of the package that this file imports, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("manyheads."):
            found.add((node.module or "").removeprefix("manyheads."))
        if isinstance(node, ast.Import):
            found |= {
                a.name.removeprefix("manyheads.") for a in node.names if "manyheads." in a.name
            }
    return found


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
    if path != ROOT / "__init__.py"
}


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_arrows(module: str) -> None:
    part = part_of(module)
    if not part and MODULES[module].name == "__init__.py":  # a folder's own page imports nothing
        assert imports(MODULES[module]) == set()
        return
    assert part, f"{module} has no place among the arrows"
    wrong = {other for other in imports(MODULES[module]) if part_of(other) not in allowed(part)}
    assert not wrong, f"{module} imports {wrong}, which its part may not know of"


def test_nothing_outside_its_room_knows_of_music() -> None:
    for module, path in MODULES.items():
        if not module.startswith("tasks.music") and module != "tasks.table":
            text = path.read_text(encoding="utf-8").lower().replace("music transformer", "")
            assert not any(word in text for word in ("music", "chorale", "midi")), module


def test_only_the_command_line_knows_of_typer_and_rich() -> None:
    for module, path in MODULES.items():
        names = {
            alias.name if isinstance(node, ast.Import) else node.module or ""
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        if module.split(".")[0] not in ("cli", "demo") and not module.endswith(".commands"):
            assert not any(name.split(".")[0] in ("typer", "rich") for name in names), module


def test_the_measures_of_the_house_are_kept() -> None:
    assert not [str(one) for one in counts.measure() if one.broken]
