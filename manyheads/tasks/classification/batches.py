"""Batches of labelled texts.

B rows, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyheads.data.batches import NOTHING, Padding, PlannedBatches, Row
from manyheads.modules.transformer import Tokens
from manyheads.tasks.classification.corpus import LabelledShard
from manyheads.tasks.classification.frames import Framer


class LabelledBatch(NamedTuple):
    """Texts and their labels."""

    tokens: Tokens
    wanted: Tensor  # (B) or (B, T) classes, or NOTHING; for regression (B) numbers, or NaN


class LabelledBatches(PlannedBatches):
    """Batches of texts; a text counts as one, or by its tagged words."""

    unit = "texts"

    def __init__(self, framer: Framer, held: LabelledShard, tokens: int, seed: int = 0):
        self.framer, self.held = framer, held
        weights = np.ones_like(held.texts.lengths)
        if framer.kind == "labelling":
            tagged = np.cumsum(np.append(0, held.wanted != NOTHING))
            weights = np.diff(tagged[held.texts.ends], prepend=0)
        super().__init__(held.texts.lengths[:, None], weights, Padding(tokens), seed)

    def batch(self, rows: Sequence[Row]) -> LabelledBatch:
        """Make a batch; without rows, it is one row without a label."""
        framer, held, chosen = self.framer, self.held, [row[0] for row in rows]
        if not chosen:
            none = math.nan if framer.kind == "regression" else NOTHING
            wanted = torch.full((1, 1) if framer.kind == "labelling" else (1,), none)
            return LabelledBatch(framer.lay_out([[framer.codec.special_tokens.eos]], [1]), wanted)
        ids = [held.texts[i].astype(np.int64) for i in chosen]
        tokens = framer.lay_out(ids, held.turns[chosen].tolist())
        if framer.kind != "labelling":
            return LabelledBatch(tokens, torch.from_numpy(held.wanted[chosen]))
        ends = held.texts.ends[chosen]
        tags = [held.wanted[e - len(row) : e].tolist() for e, row in zip(ends, ids, strict=True)]
        return LabelledBatch(tokens, Tokens.padded(tags, NOTHING).ids)
