"""Distillation: train on what a teacher model writes for the sources."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from manyheads.catalog import BUILT_IN, find_model
from manyheads.config import load, peek_field
from manyheads.data.batches import NOTHING
from manyheads.data.filters import some_left
from manyheads.data.sources import Example
from manyheads.decoding.config import BEAM, DecodingConfig
from manyheads.devices import choose_device
from manyheads.modules.losses import sum_losses
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.corpus import PairCorpus, leave_out
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork
from manyheads.tasks.seq2seq.settings import Seq2SeqRecipe
from manyheads.training.files import RECIPE, WEIGHTS, read_tensors, write_text
from manyheads.training.weights import load_weights

if TYPE_CHECKING:
    from manyheads.tasks.seq2seq.task import Seq2Seq

TRIED = 64  # pairs to find out in which direction a teacher translates
AT_ONCE = 2048  # texts between two lines of progress
KEPT = "distilled"  # the folder, in that of the teacher


# ---- the teacher -----------------------------------------------------------------------------


def find_teacher(name: Path, kind: str) -> Path:
    """Return the folder of the teacher; refuse a wrong one before a long corpus is read."""
    folder = find_model(name)
    taught = peek_field(folder / RECIPE, "task")
    if taught != kind:
        raise ValueError(f"a teacher of {kind} is a model for it, {name} is one for {taught}")
    if not (folder / WEIGHTS).exists():
        raise ValueError(f"{name} is no teacher yet: it has no {WEIGHTS}")
    return folder


def load_teacher(task: type[Seq2Seq], folder: Path) -> tuple[Seq2Seq, Any]:
    """Return the task and the network of a model, on the GPU where there is one."""
    opened = task.open(load(Seq2SeqRecipe, folder / RECIPE), folder)
    network = opened.network()
    load_weights(network, read_tensors(folder / WEIGHTS)[0])
    return opened, network.to(choose_device(None)).eval()


def refuse_teacher(task: Seq2Seq, network: Any, examples: Sequence[Example], name: str) -> None:
    """Refuse a teacher without beam search, and one for which sources are likelier after their
    targets than targets after their sources: it translates the other way.
    """
    if isinstance(network, ParallelNetwork):
        raise ValueError(
            f"a teacher writes with a beam, and {name} is a {task.recipe.network.kind} network, "
            "which writes in parallel; a transformer would do"
        )
    some = examples[:: max(1, len(examples) // TRIED)][:TRIED]
    sources, targets = [one.source for one in some], [one.target for one in some]
    ahead, back = (
        lose_on_texts(task, network, *sides) for sides in ((sources, targets), (targets, sources))
    )
    if 2 * back < ahead:  # a teacher that has learned little shows no such difference
        raise ValueError(
            f"{name} translates the other way: a token of a source costs it {back:.1f} nats after "
            f"its target, one of a target {ahead:.1f} after its source; another teacher would do, "
            "or source and target the other way round"
        )


@torch.no_grad()
def lose_on_texts(
    task: Seq2Seq, network: Any, sources: Sequence[str], targets: Sequence[str]
) -> float:
    """Return the mean loss per target token, in nats."""
    (reads, writes), device = task.codecs.special_tokens, next(network.parameters()).device
    read = task.codecs.source.encode_all(list(sources))
    written = task.codecs.target.encode_all(list(targets))
    wanted = Tokens.padded([[*ids, writes.eos] for ids in written], NOTHING).ids
    rows = [[*reads.encoder_bos, *ids, reads.eos] for ids in read]
    starts = [[*writes.bos[-1:], *ids] for ids in written]
    scores = network(
        Tokens.padded(rows, reads.pad).to(device), Tokens.padded(starts, writes.pad).to(device)
    )
    return float(sum_losses(scores, wanted.to(device))) / int((wanted != NOTHING).sum())


# ---- its outputs -----------------------------------------------------------------------------


def write_as_teacher(
    task: Seq2Seq, network: Any, examples: Sequence[Example], name: str, beam: int = BEAM
) -> tuple[list[str], dict[str, float]]:
    """Return what the teacher of this name writes for each source, and its scores."""
    refuse_teacher(task, network, examples, name)
    sources, outputs = [one.source for one in examples], list[str]()
    how, longest = DecodingConfig(beam=beam), max(map(len, sources))  # characters: tokens are fewer
    for start in range(0, len(sources), AT_ONCE):
        some = sources[start : start + AT_ONCE]
        outputs += task.halve_until_it_fits(partial(task.decode, network, some, how), longest)
        print(f"the teacher has written {len(outputs):,} of {len(sources):,}", file=sys.stderr)
    measured = task.measure(outputs, [one.references for one in examples])
    return outputs, {measure: round(one.value, 2) for measure, one in measured.items()}


def teach(
    gathered: PairCorpus, recipe: Seq2SeqRecipe, task: type[Seq2Seq], run: Path
) -> PairCorpus:
    """Return the corpus with the targets that the teacher writes, and a remark on their quality.

    They are written only once: a file in the teacher's folder keeps them, named by a hash of what
    they depend on.
    """
    name = recipe.data.teacher
    folder = find_teacher(Path(str(name)), recipe.task)
    path = find_kept(folder, gathered.train, run)
    if not path.exists():
        write_kept(path, task, folder, gathered.train)
    kept = json.loads(path.read_text(encoding="utf-8"))
    scores = ", ".join(f"{measure} {value:.2f}" for measure, value in kept["scores"].items())
    remark = f"targets are what {name} writes with a beam of {BEAM}: {scores} against those there"
    report = copy.deepcopy(gathered.report)
    report.remarks.append(remark)
    pairs = [*zip(gathered.train, kept["targets"], strict=True)]
    unsaid = [example for example, output in pairs if not output]
    leave_out(report, unsaid, "the teacher writes nothing for them", True)
    some_left(report)
    taught = [example._replace(target=output, others=()) for example, output in pairs if output]
    return replace(gathered, train=taught, report=report)


def write_kept(path: Path, task: type[Seq2Seq], folder: Path, examples: Sequence[Example]) -> None:
    """Write the outputs of the teacher and their scores to a file."""
    outputs, scores = write_as_teacher(*load_teacher(task, folder), examples, str(folder))
    path.parent.mkdir(exist_ok=True)
    write_text(path, json.dumps({"scores": scores, "targets": outputs}, ensure_ascii=False))


def find_kept(folder: Path, examples: Sequence[Example], run: Path) -> Path:
    """Return the file for the teacher's outputs, named by weights, pairs and beam; it is in the run
    where the teacher's folder cannot be written to.
    """
    known = hashlib.sha256((folder / WEIGHTS).read_bytes())
    known.update(json.dumps([BEAM, *([one.source, one.target] for one in examples)]).encode())
    own = folder.parent == BUILT_IN or not os.access(folder, os.W_OK)
    return (run / "data" if own else folder / KEPT) / f"{known.hexdigest()[:16]}.json"
