"""Read graphs from tables: molecules, or the nodes and edges of one graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from manyheads.data.filters import LeftOut
from manyheads.data.labelled import ROWS, check_width
from manyheads.data.sources import kind_of
from manyheads.tasks.graph.schema import FEW_VALUES, RawGraph, are_numbers, is_number

SEPARATOR = re.compile(r"[,;|\s]")
MISSING = {"na", "n/a", "#n/a", "null"}  # what other programs write for a missing value
CIP = "_CIPCode"  # RDKit's name for the property

ATOMS = {
    "atom": lambda atom: atom.GetSymbol(),
    "charge": lambda atom: atom.GetFormalCharge(),
    "hydrogens": lambda atom: atom.GetTotalNumHs(),
    "degree": lambda atom: atom.GetDegree(),
    "valence": lambda atom: atom.GetTotalValence(),
    "aromatic": lambda atom: int(atom.GetIsAromatic()),
    "ring": lambda atom: min(atom.GetOwningMol().GetRingInfo().AtomRingSizes(atom.GetIdx()) or [0]),
    "rings": lambda atom: atom.GetOwningMol().GetRingInfo().NumAtomRings(atom.GetIdx()),
    "hybrid": lambda atom: atom.GetHybridization(),
    # R or S: the chiral tag depends on the order in which a SMILES names the neighbours.
    "chirality": lambda atom: atom.GetProp(CIP) if atom.HasProp(CIP) else "CHI_UNSPECIFIED",
}


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of a .csv or .tsv; raise if a row has another width."""
    head: list[str] = []
    for number, row in ROWS[".tsv" if kind_of(path) == ".tsv" else ".csv"](path):
        head = head or row
        check_width(path, number, row, len(head))
        # A first column without a name is the row index that pandas writes.
        yield number, [cell.strip() for cell in (row if head[0].strip() else row[1:])]


def read_table(path: Path, wanted: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, {column: cell}), with the names from the header; each of those that are
    `wanted`, by default all, is there once.
    """
    rows = read_rows(path)
    _, head = next(rows, (0, []))
    for name in wanted if head else ():  # an empty file has no columns, and no rows
        require_column(path, name, head)
    counted = Counter(name for name in head if name and (not wanted or name in wanted))
    if twice := next((name for name, n in counted.items() if n > 1), None):
        raise ValueError(f"{path} has two columns {twice!r}; each has a name of its own")
    for number, row in rows:
        yield number, {name: cell for name, cell in zip(head, row, strict=True) if name}


def read_molecules(
    path: Path, smiles: str, targets: Sequence[str], left_out: LeftOut
) -> list[RawGraph]:
    found = []
    table = [*read_table(path, (smiles, *targets))]
    import_rdkit()  # refuses all at once: without it no line would be a molecule
    for name in targets:
        refuse_odd_numbers(path, name, {number: row[name] for number, row in table})
    for number, row in table:
        cells = [read_cell(row[name]) for name in targets]
        try:
            found.append(replace(parse_smiles(row[smiles]), targets=cells))
        except ValueError as error:
            left_out.add("no molecule", f"line {number}: {error}")
    if not found:
        raise ValueError(f"{path} has no molecule that can be read")
    return found


def parse_smiles(text: str) -> RawGraph:
    """Read the atoms and bonds of a molecule; its name is the canonical SMILES of RDKit."""
    chemistry = import_rdkit()
    molecule = chemistry.MolFromSmiles(text) if text else None
    if molecule is None or not molecule.GetNumAtoms():
        raise ValueError(f"{text!r} is not a molecule in SMILES")
    atoms = [*molecule.GetAtoms()]
    columns = {name: [str(of(atom)) for atom in atoms] for name, of in ATOMS.items()}
    edges = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), describe_bond(bond))
        for bond in molecule.GetBonds()
    ]
    return RawGraph(columns, edges, [], chemistry.MolToSmiles(molecule))


def describe_bond(bond: Any) -> str:
    """Return the label of a bond, such as "DOUBLE conjugated ring STEREOE"."""
    stereo = str(bond.GetStereo())
    told = (
        str(bond.GetBondType()),
        "conjugated" if bond.GetIsConjugated() else "",
        "ring" if bond.IsInRing() else "",
        stereo if stereo != "STEREONONE" else "",
    )
    return " ".join(filter(None, told))


def import_rdkit() -> Any:
    try:
        chemistry, logs = import_module("rdkit.Chem"), import_module("rdkit.RDLogger")
    except ImportError:
        raise ValueError(
            "molecules are read by RDKit: pip install 'manyheads[graphs]' would do"
        ) from None
    logs.DisableLog("rdApp.*")  # errors are reported by our own messages
    return chemistry


def read_nodes(nodes: Path, edges: Path, target: str) -> tuple[RawGraph, list[str]]:
    """Read one graph; return it and the names of its nodes."""
    rows = read_node_rows(nodes, target)
    _, *others = next(iter(rows.values()))
    columns = {name: [row[name] for row in rows.values()] for name in others if name != target}
    number = {name: i for i, name in enumerate(rows)}
    targets = [row[target] for row in rows.values()]
    joined = [*read_edges(edges, number)]
    refuse_two_labels(joined, [*rows])
    return RawGraph(columns, joined, targets), [*rows]


def refuse_two_labels(edges: Sequence[tuple[int, int, str]], names: Sequence[object]) -> None:
    """Raise if two nodes have edges with two labels: edges have no direction, and one label."""
    labels: dict[tuple[int, int], str] = {}
    for i, j, label in edges:
        before = labels.setdefault((min(i, j), max(i, j)), label)
        if before != label:
            raise ValueError(
                f"the nodes {names[i]} and {names[j]} are joined twice, as {before!r} and as "
                f"{label!r}; edges have no direction, and two nodes have one label"
            )


def read_node_rows(path: Path, target: str) -> dict[str, dict[str, str]]:
    """Return the rows of a table by their first column, the name of a node."""
    table = [*read_table(path)]
    if not table:
        raise ValueError(f"{path} has no nodes")
    key, *others = table[0][1]
    require_column(path, target, [key, *others])
    if target == key:
        raise ValueError(f"{path}: the first column, {key!r}, names the nodes and is no target")
    for name in others:
        refuse_odd_numbers(path, name, {number: row[name] for number, row in table})
    rows = [
        {name: read_cell(cell) if name in others else cell for name, cell in row.items()}
        for _, row in table
    ]
    named = {row[key]: row for row in rows}
    if len(named) < len(rows):
        raise ValueError(f"{path} names a node twice; the first column is a name for each")
    return named


def refuse_odd_numbers(path: Path, name: str, cells: dict[int, str]) -> None:
    """Raise if words for a missing value, or decimal commas, make categories of numbers."""
    given = {read_cell(cell) for cell in cells.values() if cell.lower() not in MISSING}
    if not are_numbers([cell.replace(",", ".") for cell in given]):
        return
    if are_numbers([*given]) or any("." in cell for cell in given) or len(given) > FEW_VALUES:
        for number, cell in cells.items():
            if read_cell(cell) and not is_number(cell):
                raise ValueError(f"{path}:{number}: {describe_odd(name, cell)}")


def read_cell(cell: str) -> str:
    """ "nan" -> "" """
    return "" if cell.lower() == "nan" else cell


def describe_odd(name: str, cell: str) -> str:
    if "," in cell:
        return f"{name} is {cell!r}; a number is written with a point, as 3.14, and without commas"
    return f"{name} is {cell!r}; an empty cell, or nan, is a missing value"


def read_edges(path: Path, number: dict[str, int]) -> Iterator[tuple[int, int, str]]:
    """Yield edges (node, node, label); a first line that names no node is a header."""
    found = 0
    for i, (at, row) in enumerate(read_rows(path)):
        if len(row) not in (2, 3):
            raise ValueError(
                f"{path} has {count_columns(row)}; edges have two names of nodes on a line, and a "
                f"label if they have one{name_separator(path, row)}"
            )
        one, other, *label = row
        known = [name in number for name in (one, other)]
        if i == 0 and not any(known):
            continue
        if not all(known):
            raise ValueError(f"{path}:{at}: there is no node {other if known[0] else one!r}")
        yield number[one], number[other], label[0] if label else ""
        found += 1
    if not found:
        raise ValueError(f"{path} has no edges between these nodes")


def count_columns(row: Sequence[str]) -> str:
    counted = "one column" if len(row) == 1 else f"{len(row)} columns"
    return f"{counted}, {', '.join(row)}"


def name_separator(path: Path, row: Sequence[str]) -> str:
    """Return what separates cells, for an error about a row in one piece; "" for others."""
    if len(row) > 1 or not SEPARATOR.search(row[0]):
        return ""
    by = "a tab" if kind_of(path) == ".tsv" else "a comma"
    return f"; {by} separates the columns of this file"


def require_column(path: Path, name: str, head: Sequence[str]) -> None:
    if name not in head:
        raise ValueError(
            f"{path} has no column {name!r}; its columns are {', '.join(head)}"
            f"{name_separator(path, head)}"
        )
