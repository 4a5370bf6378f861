"""Whether every way to run a model says the same."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.decoding.beam import Beam, beam
from manyheads.decoding.bounds import Bounds, Hypothesis
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep
from manyheads.interop.exchange import (
    SAME,
    WAYS,
    Model,
    as_imported,
    batches,
    design_of,
    export,
    refuse_music,
    signs_of,
)
from manyheads.interop.exports import worst
from manyheads.interop.own import OWN
from manyheads.interop.parity import real, row
from manyheads.modules.transformer import EncoderDecoder, Tokens
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.seq2seq.model import Translator
from manyheads.training.causality import ROUNDING, largest_leak

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8}
LOW = 5e-2  # in 16 bits
LONGEST = 32  # tokens that are written to be compared

Batch = tuple[Tokens, ...]


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
def verified(model: Model, texts: Sequence[str], folder: Path | None = None) -> Iterator[Check]:
    """Each of them as it is done; the model is as it was afterwards."""
    refuse_music(model)
    some = batches(model, texts)
    device = next(model.network.parameters()).device
    some = [tuple(tokens.to(device) for tokens in batch) for batch in some]
    tolerance = TOLERANCE.get(next(model.network.parameters()).dtype, LOW)
    yield Check("batch of 1 = batch of N", largest(alone, model, some), tolerance)
    if design_of(model).packs:
        yield Check("packed = padded", largest(packed, model, some), tolerance)
    else:
        yield Check("packed = padded", note="only a transformer reads packed rows")
    if isinstance(model, Translator | LanguageModel):
        told = "by how much of the largest score"
        yield Check("no token sees a later one", largest(ahead, model, some), ROUNDING, told)
        yield Check("cached = uncached", largest(cached, model, some), tolerance)
        yield Check("beam 1 = greedy", largest(searched, model, some), 0.0, "texts that differ")
    if folder is not None and (folder / OWN).exists():
        kept = as_imported(model, folder)
        alike = f"{kept.texts - kept.different} of {kept.texts} texts read alike"
        difference = float("inf") if kept.different else kept.largest
        yield Check("as its folder had it", difference, SAME, alike)
    for name, way in WAYS.items():
        yield exported(model, name, way.missing(), texts)


def largest(differs: Callable[[Model, Batch], float], model: Model, some: Sequence[Batch]) -> float:
    return worst([differs(model, batch) for batch in some])


def whole(model: Model, batch: Batch) -> Tensor:
    """What the network says of a batch as it stands."""
    network: Any = model.network
    found: Tensor = network(*batch)
    return found


def sequences(batch: Batch, i: int) -> Batch:
    """One text of a batch."""
    device = batch[0].ids.device
    return tuple(Tokens.padded([row(tokens, i)]).to(device) for tokens in batch)


def alone(model: Model, batch: Batch) -> float:
    """Each text by itself against all of them together."""
    together, found = whole(model, batch), 0.0
    for i in range(len(batch[0].ids)):
        one = whole(model, sequences(batch, i))[0]
        both = together[i] if one.dim() == 1 else together[i, : len(one)]
        found = worst([found, float((one - both).abs().max())])
    return found


def packed(model: Model, batch: Batch) -> float:
    """Texts end to end in one row against a row each; of a whole text, its states."""
    network: Any = getattr(model.network, "encoder", model.network)
    if isinstance(model.network, EncoderDecoder):
        network = model.network
    flat = network(*end_to_end(model, batch))[0]
    apart = network(*batch)
    mask = real(batch[-1]).to(batch[0].ids.device) > 0
    return float((flat - apart[mask]).abs().max())


def end_to_end(model: Model, batch: Batch) -> Batch:
    """All texts of a batch in one row."""
    device, pad = batch[0].ids.device, signs_of(model).pad
    rows = [[row(tokens, i) for i in range(len(tokens.ids))] for tokens in batch]
    return tuple(Tokens.packed([each], sum(map(len, each)), pad).to(device) for each in rows)


def ahead(model: Model, batch: Batch) -> float:
    """How far scores move with later tokens and, where rows are packed, with other documents."""
    given = [batch]
    if design_of(model).packs:
        given.append(end_to_end(model, batch))
    return max(largest_leak(model.network, partial(whole, model, one)) for one in given)


def cached(model: Model, batch: Batch) -> float:
    """Token by token with a cache against all at once."""
    found = 0.0
    network: Any = model.network
    for i in range(len(batch[0].ids)):
        *source, target = sequences(batch, i)
        step = step_of(network, source)
        at_once = network(*source, target)[0]
        for t in range(target.ids.shape[1]):
            scores = step(target.ids[:, t : t + 1])[0]
            found = worst([found, float((scores - at_once[t]).abs().max())])
    return found


def step_of(network: Any, source: Sequence[Tokens]) -> CachedStep:
    if source:
        return CachedStep(network.decoder, network.encode(source[0]))
    return CachedStep(network)


def searched(model: Model, batch: Batch) -> float:
    """How many texts a beam of one writes otherwise than greedy."""
    network: Any = model.network
    signs = signs_of(model)
    bounds = Bounds(signs.stops, longest=LONGEST, never=signs.never)
    different = 0
    for i in range(len(batch[0].ids)):
        *source, target = sequences(batch, i)
        start = target.ids[:, : max(1, len(signs.starts))] if source else target.ids
        one: Hypothesis = greedy(step_of(network, source), start, bounds)[0]
        ((other, *_),) = beam(step_of(network, source), start, bounds, Beam(width=1))
        different += one.ids != other.ids
    return float(different)


def exported(model: Model, name: str, missing: str, texts: Sequence[str]) -> Check:
    """What others make of it; a model that has no counterpart there is left out."""
    title = f"exported = native, {name}"
    if missing:
        return Check(title, note=f"{missing} is not installed: pip install 'manyheads[export]'")
    sent = copy.copy(model)
    sent.network = copy.deepcopy(model.network)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = export(sent, name, Path(folder) / "export", texts)
        except ValueError as refused:
            return Check(title, note=str(refused))
    alike = found.by or f"{found.texts - found.different} of {found.texts} texts alike"
    difference = float("inf") if found.different else found.largest
    return Check(title, difference, 1e-3, alike)
