"""Check that every way to run a model gives the same output."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from manyheads.decoding.beam import beam
from manyheads.decoding.config import DRAFTERS, DecodingConfig, Sampling
from manyheads.decoding.drafters import make_drafter
from manyheads.decoding.drafts import DraftCounts, write_drafted
from manyheads.decoding.strategies import decode
from manyheads.interop.export import TEXTS, export, find_exporters
from manyheads.interop.format import EXTRA
from manyheads.interop.huggingface.kept import KEPT, compare_as_kept
from manyheads.interop.parity import SAME, Parity, find_worst, token_mask
from manyheads.modules.transformer import Tokens
from manyheads.tasks.portable import Portable, Row, chunks, require_portable
from manyheads.training.causality import ROUNDING, largest_leak

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8}
LOW = 5e-2  # the tolerance in 16 bits
DRAWN = 4  # texts that are sampled for each input, to be compared
LONGEST = 32  # tokens that are written to be compared

Rows = Sequence[Row]


@dataclass(frozen=True)
class Check:
    """One property that must hold, and what was measured."""

    name: str
    difference: float | None = None  # None where the check is left out
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
def run_checks(
    model: Any, texts: Sequence[str] = (), folder: Path | None = None
) -> Iterator[Check]:
    """Run each check on these texts, or on a few of our own; the model is not changed."""
    tolerance = TOLERANCE.get(next(model.network.parameters()).dtype, LOW)
    if hasattr(model, "task"):
        ways = model.task.compare_ways(model.network, texts)
        own = [Check(name, difference, tolerance) for name, difference in ways]
        yield from own
        if own:
            return
    described = require_portable(model)
    some = chunks(described.rows(texts or TEXTS))

    def largest(differs: Callable[[Portable, Rows], float]) -> float:
        return find_worst([differs(described, rows) for rows in some])

    yield Check("batch of 1 = batch of N", largest(compare_alone), tolerance)
    if described.design.packs:
        yield Check("packed = padded", largest(compare_packed), tolerance)
    else:
        yield Check("packed = padded", note="only a transformer reads packed rows")
    if described.writes:
        told = "by how much of the largest score"
        yield Check("no token sees a later one", largest(find_leak), ROUNDING, told)
        yield Check("cached = uncached", largest(compare_cached), tolerance)
        yield Check("beam 1 = greedy", largest(compare_beam), 0.0, "texts that differ")
        yield from check_drafts(model, described, [row for rows in some for row in rows])
    if folder is not None and (folder / KEPT).exists():
        yield judge("as its folder had it", compare_as_kept(described, folder), "read alike")
    for name, exporter in find_exporters().items():
        yield check_export(described, name, exporter.find_missing(), texts or TEXTS)


def compare_alone(model: Portable, rows: Rows) -> float:
    """Return how far each text alone differs from all texts in one batch."""
    together, found = model.network(*model.batch(rows)), [0.0]
    for i, row in enumerate(rows):
        one = model.network(*model.batch([row]))[0]
        both = together[i] if one.dim() == 1 else together[i, : len(one)]
        found.append(float((one - both).abs().max()))
    return find_worst(found)


def compare_packed(model: Portable, rows: Rows) -> float:
    """Return how far texts packed into one row differ from a row each; of encoders, the states."""
    network, batch = model.network, model.batch(rows)
    if model.architecture == "encoder":
        network = getattr(network, "encoder", network)
    flat = network(*pack_rows(model, rows))[0]
    return float((flat - network(*batch)[token_mask(batch[-1]) > 0]).abs().max())


def pack_rows(model: Portable, rows: Rows) -> tuple[Tokens, ...]:
    """Pack all texts of a batch into one row."""
    sides, pad = [list(side) for side in zip(*rows, strict=True)], model.special_tokens.pad
    return tuple(Tokens.packed([side], sum(map(len, side)), pad).to(model.device) for side in sides)


def find_leak(model: Portable, rows: Rows) -> float:
    """Return how far scores move with later tokens and, in packed rows, with other documents."""
    given = [model.batch(rows)]
    if model.design.packs:
        given.append(pack_rows(model, rows))
    return max(largest_leak(model.network, partial(model.network, *one)) for one in given)


def compare_cached(model: Portable, rows: Rows) -> float:
    """Return how far decoding token by token with a cache differs from one forward pass."""
    found = [0.0]
    for row in rows:
        step, at_once = model.step(row), model.network(*model.batch([row]))[0]
        for t, token in enumerate(row[-1]):
            said = step(torch.tensor([[token]], device=model.device))[0]
            found.append(float((said - at_once[t]).abs().max()))
    return find_worst(found)


def compare_beam(model: Portable, rows: Rows) -> float:
    """Count the texts that a beam of one writes differently from greedy decoding."""
    different = 0
    for row, ids in zip(rows, model.write(rows, LONGEST), strict=True):
        ((best, *_),) = beam(model.step(row), *model.begin(row, LONGEST), DecodingConfig())
        different += best.ids != ids
    return float(different)


def check_drafts(model: Any, described: Portable, rows: Rows) -> Iterator[Check]:
    """Count, for each drafter, greedy and sampled, the texts that differ from plain decoding."""
    for name in DRAFTERS:
        try:
            find = getattr(model, "find_drafter", make_drafter)
            drafter, counts, alike = find(name), DraftCounts(), 0
        except ValueError:  # no heads were trained for it
            continue
        for number, row in enumerate(rows):
            for how in (DecodingConfig(), *(Sampling(seed=seed) for seed in range(DRAWN))):
                start, bounds = described.begin(row, LONGEST)
                ((plain, *_),) = decode(described.step(row), start, bounds, how, [number])
                step = described.step(row)
                found = write_drafted(
                    step, start, bounds, how, drafter, row[0], number, counts=counts
                )
                alike += found.ids == plain.ids
        total, margin = len(rows) * (1 + DRAWN), f"smallest margin {counts.margin:.1g}"
        note = f"{alike:,} of {total:,} alike; {margin}; {counts.tokens / counts.passes:.2f} a pass"
        yield Check(f"drafted by {name} = plain", float(total - alike), 0.0, note)


def check_export(model: Portable, name: str, missing: str, texts: Sequence[str]) -> Check:
    """Export a model and compare its output; leave out a model that the format cannot hold."""
    title = f"exported = native, {name}"
    if missing:
        return Check(title, note=f"{missing} is not installed: {EXTRA}")
    sent = replace(model, network=copy.deepcopy(model.network))
    with tempfile.TemporaryDirectory() as folder:
        try:
            return judge(title, export(sent, name, Path(folder) / "export", texts), "alike")
        except ValueError as refused:
            return Check(title, note=str(refused))


def judge(title: str, found: Parity, how: str) -> Check:
    """Make a check of a comparison: it fails by its numbers, or by one text that differs."""
    note = found.by or f"{found.texts - found.different} of {found.texts} texts {how}"
    return Check(title, float("inf") if found.different else found.largest, SAME, note)
