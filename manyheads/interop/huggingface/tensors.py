"""The names of tensors here and in Hugging Face: one table for import and export.

V vocabulary, D model width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from manyheads.training.files import refuse_what_is_no_number

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class TensorNames:
    """A tensor here and its name there; or the names of several whose rows are one tensor here."""

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...] = ()  # rows of each, if they are several
    turned: bool = False  # stored transposed, as in GPT-2
    ahead: int = 0  # unused rows at the beginning, as in BART's positions
    lifted: bool = False  # (1, V) there, (V,) here

    def join_parts(self, parts: Sequence[Tensor]) -> Tensor:
        whole = torch.cat([part.t() if self.turned else part for part in parts])
        return (whole[0] if self.lifted else whole[self.ahead :]).contiguous()

    def split_whole(self, whole: Tensor) -> list[Tensor]:
        if self.lifted:
            whole = whole[None]
        if self.ahead:
            whole = torch.cat([whole.new_zeros(self.ahead, whole.shape[1]), whole])
        parts = whole.split(self.rows) if self.rows else [whole]
        return [(part.t() if self.turned else part).contiguous() for part in parts]


def take_tensors(
    held: Tensors, pairs: Iterable[TensorNames], wanted: Tensors, folder: Path
) -> Tensors:
    """Rename tensors of a folder to ours; `wanted` are the tensors that our network needs."""
    weights: Tensors = {}
    used: set[str] = set()
    for pair in pairs:
        for name, like in zip(pair.theirs, pair.split_whole(wanted[pair.ours]), strict=True):
            if name not in held:
                raise ValueError(f"{folder} holds no tensor {name}, which its config.json asks for")
            if not held[name].is_floating_point():
                raise ValueError(f"{folder}: {name} is of {held[name].dtype}, no weights")
            if held[name].shape != like.shape:
                raise ValueError(
                    f"{folder}: {name} is {tuple(held[name].shape)}, "
                    f"its config.json asks for {tuple(like.shape)}"
                )
        weights[pair.ours] = pair.join_parts([held[name].float() for name in pair.theirs])
        used.update(pair.theirs)
    if more := sorted(set(held) - used):
        raise ValueError(f"{folder} holds {more[0]}, which has no place in its network here")
    refuse_what_is_no_number(weights, folder)
    return {name: weights[name] for name in wanted}


def give_tensors(weights: Tensors, pairs: Iterable[TensorNames]) -> Tensors:
    """Rename our tensors to theirs."""
    return {
        name: part
        for pair in pairs
        for name, part in zip(pair.theirs, pair.split_whole(weights[pair.ours]), strict=True)
    }


def require_head(held: Tensors, name: str) -> None:
    """Refuse a folder without a head that is not tied to the embedding."""
    if name not in held:
        raise ValueError(f"there is no tensor {name}, and tie_word_embeddings says it is its own")


def drop_computed(held: Tensors, names: str, holds: Callable[[Tensor], bool]) -> Tensors:
    """Drop tensors that the family computes anyway; refuse them if they hold something else."""
    for name in held:
        if re.search(names, name) and not holds(held[name].float()):
            raise ValueError(f"{name} does not hold what its family computes there")
    return {name: tensor for name, tensor in held.items() if not re.search(names, name)}


# ---- tied tables -----------------------------------------------------------------------------


def merge_tables(held: Tensors, names: Sequence[str]) -> Tensors:
    """Keep one copy of tied tensors, under the first name; refuse them if they differ."""
    found = [name for name in names if name in held]
    for name in found[1:]:
        if not torch.equal(held[name], held[found[0]]):
            raise ValueError(f"{found[0]} and {name} are said to be one and differ")
    kept = {name: tensor for name, tensor in held.items() if name not in names}
    return kept | ({names[0]: held[found[0]]} if found else {})


def scale_table(table: Tensor) -> Tensor:
    """Multiply a table by sqrt(width), for a family that does not scale embeddings itself."""
    return table * table.shape[1] ** 0.5


def find_scaled(held: Tensors, table: str, head: str) -> tuple[Tensors, bool, bool]:
    """Return the tensors, whether table and head are tied, and whether the table is scaled.

    A tied and scaled table is exported as two: the input table is sqrt(width) times the output
    table. Two such tables are imported as one.
    """
    if head not in held or table not in held:
        return held, head not in held, False
    if held[head].shape != held[table].shape or held[head].dim() != 2:
        return held, False, False
    for scaled in (False, True):
        score = held[head].float()
        if torch.equal(held[table].float(), scale_table(score) if scaled else score):
            kept = {name: tensor for name, tensor in held.items() if name != head}
            return kept | {table: held[head]}, True, scaled
    return held, False, False
