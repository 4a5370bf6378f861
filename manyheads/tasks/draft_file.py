"""The draft file of a model, beside its weights: what speculative decoding guesses with.

B batch, T tokens, S source tokens, D model width.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from manyheads.decoding.draft_heads import DraftHead
from manyheads.decoding.draft_table import NO_TABLE, DraftTable, Ids
from manyheads.training.files import WEIGHTS, read_tensors, write_tensors

DRAFTS = "drafts.safetensors"
Pairs = list[tuple[Ids, list[int]]]  # a source, and what the model wrote for it


class WrittenStates(NamedTuple):
    """The states of a model over text that it wrote itself."""

    ids: Tensor  # (B, T): start tokens and text, then spare tokens
    lengths: Tensor  # (B,): without the spare tokens
    states: Tensor  # (B, T, D): from which the next token is predicted
    memory: Tensor | None = None  # (B, S, D): the encoded source
    hidden: Tensor | None = None  # (B, 1, S): True where the source is padding


class DraftFile(NamedTuple):
    """The content of a draft file: a table and a head."""

    table: DraftTable = NO_TABLE
    head: DraftHead | None = None


def hash_weights(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def write_drafts(folder: Path, made: DraftFile) -> None:
    """Write drafts beside the weights that they were made for."""
    assert made.head is not None
    tensors = {f"table.{name}": one for name, one in made.table.tensors().items()}
    for name, one in made.head.state_dict().items():
        tensors[f"head.{name}"] = one.half() if one.is_floating_point() else one.int()
    reads, beat = made.table.reads, made.head.beat
    note = {"weights": hash_weights(folder), "reads": reads, "beat": beat}
    write_tensors(folder / DRAFTS, tensors, note)


def read_drafts(folder: Path) -> DraftFile:
    """Read the drafts of a model: empty without a file; raise if they are for other weights."""
    if not (folder / DRAFTS).exists():
        return DraftFile()
    tensors, note = read_tensors(folder / DRAFTS)
    if note.get("weights") != hash_weights(folder):
        raise ValueError(
            f"{folder / DRAFTS} guesses for other weights than those beside it; "
            f"`manyheads train drafts --model {folder} --out {folder}` makes it anew"
        )
    parts: dict[str, dict[str, Tensor]] = {"table": {}, "head": {}}
    for name, one in tensors.items():
        kind, _, rest = name.partition(".")
        parts[kind][rest] = one
    own = {name: x.float() if x.is_floating_point() else x for name, x in parts["head"].items()}
    (hidden, _), width = own["think.weight"].shape, len(own["norm.weight"])
    reads, beat = "look.weight" in own, int(note.get("beat", 1))
    head = DraftHead(width, own["words"].long(), hidden, reads=reads, beat=beat)
    head.load_state_dict(own)
    return DraftFile(DraftTable.of(parts["table"], bool(note["reads"])), head)
