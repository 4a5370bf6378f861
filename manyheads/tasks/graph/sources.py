"""Graphs from files: molecules of a table, or the nodes and edges of one graph."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from manyheads.data.sources import lines
from manyheads.tasks.graph.schema import RawGraph

SHOWN = 3  # of what is left out

ATOMS = {
    "atom": lambda atom: atom.GetSymbol(),
    "charge": lambda atom: str(atom.GetFormalCharge()),
    "hydrogens": lambda atom: str(atom.GetTotalNumHs()),
    "degree": lambda atom: str(atom.GetDegree()),
    "aromatic": lambda atom: str(int(atom.GetIsAromatic())),
    "ring": lambda atom: str(int(atom.IsInRing())),
    "hybrid": lambda atom: str(atom.GetHybridization()),
    "chirality": lambda atom: str(atom.GetChiralTag()),
}


@dataclass
class LeftOut:
    """What was not taken, and why."""

    reasons: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, what: str) -> None:
        self.reasons.setdefault(reason, []).append(what)

    def __str__(self) -> str:
        told = []
        for reason, all_of_them in self.reasons.items():
            told.append(f"  {len(all_of_them):,} left out: {reason}")
            told += [f"    {what}" for what in all_of_them[:SHOWN]]
        return "\n".join(told)


def read_table(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a .csv or .tsv with a head, by column, with the number of their line."""
    tab = "\t" if ".tsv" in path.name else ","
    rows = csv.DictReader(lines(path), delimiter=tab)
    for row in rows:
        yield rows.line_num, {name: (cell or "").strip() for name, cell in row.items() if name}


def read_molecules(
    path: Path, smiles: str, targets: Sequence[str], left_out: LeftOut
) -> list[RawGraph]:
    found = []
    for number, row in read_table(path):
        if missing := next((name for name in (smiles, *targets) if name not in row), None):
            raise ValueError(f"{path} has no column {missing!r}; its columns are {', '.join(row)}")
        cells = [row[name] for name in targets]
        try:
            found.append(replace(parse_smiles(row[smiles]), targets=cells))
        except ValueError as error:
            left_out.add("no molecule", f"line {number}: {error}")
    if not found:
        raise ValueError(f"{path} has no molecule that can be read")
    return found


def parse_smiles(text: str) -> RawGraph:
    """The atoms and bonds of a molecule; its name is what RDKit writes for it."""
    chemistry = import_rdkit()
    molecule = chemistry.MolFromSmiles(text) if text else None
    if molecule is None or not molecule.GetNumAtoms():
        raise ValueError(f"{text!r} is not a molecule in SMILES")
    atoms = [*molecule.GetAtoms()]
    columns = {name: [of(atom) for atom in atoms] for name, of in ATOMS.items()}
    edges = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), describe_bond(bond))
        for bond in molecule.GetBonds()
    ]
    return RawGraph(columns, edges, [], chemistry.MolToSmiles(molecule))


def describe_bond(bond: Any) -> str:
    return f"{bond.GetBondType()}{' conjugated' if bond.GetIsConjugated() else ''}"


def import_rdkit() -> Any:
    try:
        chemistry, logs = import_module("rdkit.Chem"), import_module("rdkit.RDLogger")
    except ImportError:
        raise ValueError(
            "molecules are read by RDKit: pip install 'manyheads[graphs]' would do"
        ) from None
    logs.DisableLog("rdApp.*")  # what it cannot read is told in our own line
    return chemistry


def read_nodes(nodes: Path, edges: Path, target: str) -> tuple[RawGraph, list[str]]:
    """One graph, and the names of its nodes."""
    rows = [row for _, row in read_table(nodes)]
    if not rows:
        raise ValueError(f"{nodes} has no nodes")
    key, *others = rows[0]
    if target not in others:
        raise ValueError(f"{nodes} has no column {target!r}; its columns are {', '.join(rows[0])}")
    number = {row[key]: i for i, row in enumerate(rows)}
    if len(number) < len(rows):
        raise ValueError(f"{nodes} names a node twice; the first column is a name for each")
    columns = {name: [row[name] for row in rows] for name in others if name != target}
    return RawGraph(columns, [*read_edges(edges, number)], [row[target] for row in rows]), [*number]


def read_edges(path: Path, number: dict[str, int]) -> Iterator[tuple[int, int, str]]:
    for at, row in read_table(path):
        one, other, *label = row.values()
        if wrong := next((name for name in (one, other) if name not in number), None):
            raise ValueError(f"{path}:{at}: there is no node {wrong!r}")
        yield number[one], number[other], label[0] if label else ""
