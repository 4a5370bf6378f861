"""Whether every way to run a model says the same."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.decoding.beam import beam
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.greedy import greedy
from manyheads.interop.export import export, exporters
from manyheads.interop.huggingface.own import OWN
from manyheads.interop.importing import compare_as_imported
from manyheads.interop.parity import SAME, real, worst
from manyheads.modules.transformer import Tokens
from manyheads.tasks.portable import Portable, Row, chunks, portable
from manyheads.training.causality import ROUNDING, largest_leak

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8}
LOW = 5e-2  # in 16 bits
LONGEST = 32  # tokens that are written to be compared

Rows = Sequence[Row]


@dataclass(frozen=True)
class Check:
    """One thing that must hold, and what was found."""

    name: str
    difference: float | None = None  # None where it was not looked at
    tolerance: float = 0.0
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.difference is None or self.difference <= self.tolerance

    def __str__(self) -> str:
        if self.difference is None:
            return f"  left out  {self.name}: {self.note}"
        mark = "holds" if self.holds else "FAILS"
        note = f"  ({self.note})" if self.note else ""
        return f"  {mark:8}  {self.name:32} {self.difference:.2g}{note}"


@torch.no_grad()
def verified(model: Any, texts: Sequence[str], folder: Path | None = None) -> Iterator[Check]:
    """Each of them as it is done; the model is as it was afterwards."""
    described = portable(model)
    some = chunks(described.rows(texts))
    tolerance = TOLERANCE.get(next(described.network.parameters()).dtype, LOW)

    def largest(differs: Callable[[Portable, Rows], float]) -> float:
        return worst([differs(described, rows) for rows in some])

    yield Check("batch of 1 = batch of N", largest(alone), tolerance)
    if described.design.packs:
        yield Check("packed = padded", largest(packed), tolerance)
    else:
        yield Check("packed = padded", note="only a transformer reads packed rows")
    if described.writes:
        told = "by how much of the largest score"
        yield Check("no token sees a later one", largest(ahead), ROUNDING, told)
        yield Check("cached = uncached", largest(cached), tolerance)
        yield Check("beam 1 = greedy", largest(searched), 0.0, "texts that differ")
    if folder is not None and (folder / OWN).exists():
        kept = compare_as_imported(described, folder)
        alike = f"{kept.texts - kept.different} of {kept.texts} texts read alike"
        difference = float("inf") if kept.different else kept.largest
        yield Check("as its folder had it", difference, SAME, alike)
    for name, exporter in exporters().items():
        yield exported(described, name, exporter.missing(), texts)


def scores(model: Portable, rows: Rows) -> Tensor:
    """What the network says of them in one batch."""
    found: Tensor = model.network(*model.batch(rows))
    return found


def alone(model: Portable, rows: Rows) -> float:
    """Each text by itself against all of them together."""
    together, found = scores(model, rows), 0.0
    for i, row in enumerate(rows):
        one = scores(model, [row])[0]
        both = together[i] if one.dim() == 1 else together[i, : len(one)]
        found = worst([found, float((one - both).abs().max())])
    return found


def packed(model: Portable, rows: Rows) -> float:
    """Texts end to end in one row against a row each; of a whole text, its states."""
    network = model.network
    if model.architecture == "encoder":
        network = getattr(network, "encoder", network)
    batch = model.batch(rows)
    flat, apart = network(*end_to_end(model, rows))[0], network(*batch)
    return float((flat - apart[real(batch[-1]) > 0]).abs().max())


def end_to_end(model: Portable, rows: Rows) -> tuple[Tokens, ...]:
    """All texts of a batch in one row."""
    sides, pad = [list(side) for side in zip(*rows, strict=True)], model.special_tokens.pad
    return tuple(Tokens.packed([side], sum(map(len, side)), pad).to(model.device) for side in sides)


def ahead(model: Portable, rows: Rows) -> float:
    """How far scores move with later tokens and, where rows are packed, with other documents."""
    given = [model.batch(rows)]
    if model.design.packs:
        given.append(end_to_end(model, rows))
    return max(largest_leak(model.network, partial(model.network, *one)) for one in given)


def cached(model: Portable, rows: Rows) -> float:
    """Token by token with a cache against all at once."""
    found = 0.0
    for row in rows:
        step, at_once = model.step(row), scores(model, [row])[0]
        for t, token in enumerate(row[-1]):
            said = step(torch.tensor([[token]], device=model.device))[0]
            found = worst([found, float((said - at_once[t]).abs().max())])
    return found


def searched(model: Portable, rows: Rows) -> float:
    """How many texts a beam of one writes otherwise than greedy."""
    different = 0
    for row in rows:
        begun, special = model.start(row), model.special_tokens
        bounds = Bounds(special.all_eos, longest=model.room(begun, LONGEST), never=special.never)
        start = torch.tensor([begun], device=model.device)
        one: Hypothesis = greedy(model.step(row), start, bounds)[0]
        ((other, *_),) = beam(model.step(row), start, bounds, DecodingConfig())
        different += one.ids != other.ids
    return float(different)


def exported(model: Portable, name: str, missing: str, texts: Sequence[str]) -> Check:
    """What others make of it; a model that has no counterpart there is left out."""
    title = f"exported = native, {name}"
    if missing:
        return Check(title, note=f"{missing} is not installed: pip install 'manyheads[export]'")
    sent = replace(model, network=copy.deepcopy(model.network))
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = export(sent, name, Path(folder) / "export", texts)
        except ValueError as refused:
            return Check(title, note=str(refused))
    alike = found.by or f"{found.texts - found.different} of {found.texts} texts alike"
    difference = float("inf") if found.different else found.largest
    return Check(title, difference, SAME, alike)
