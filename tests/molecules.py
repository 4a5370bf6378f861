"""Molecules in a table, and a run that learns a little from them within a second."""

from functools import cache
from pathlib import Path

from typed import trained

SETTINGS = [
    "members=1",
    "network.width=16",
    "network.heads=2",
    "network.depth=1",
    "training.steps=4",
    "training.validate_every=2",
]
MOLECULES = ["C" * n + end for n in range(1, 7) for end in ("", "O", "N", "Cl")]


def write_table(path: Path, molecules: list[str]) -> Path:
    rows = [f"{one},{len(one)}.5\n" for one in molecules]
    path.write_text("smiles,y\n" + "".join(rows))
    return path


@cache
def train_model(base: Path) -> Path:
    """One run that all tests ask; its molecules are beside it."""
    folder = base / "molecules"
    folder.mkdir()
    table = write_table(folder / "train.csv", MOLECULES)
    given = ("graph", "--molecules", table, "--target", "y")
    return trained(folder / "run", *given, settings=SETTINGS)
