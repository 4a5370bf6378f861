"""Scores of predictions: each is one number, the mean over targets if there are several.

T nodes, K targets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from manyheads.metrics.labels import accuracy, macro_f1, pearson, rmse, roc_auc
from manyheads.tasks.graph.schema import Array, EncodedGraph, Schema


def measure_answers(
    schema: Schema, answers: Sequence[Tensor], graphs: Sequence[EncodedGraph]
) -> dict[str, float]:
    """Score the answers, (K) or (T, classes) each, over all known targets."""
    wanted = np.concatenate([one.wanted.reshape(-1, len(schema.targets)) for one in graphs])
    if not np.isfinite(wanted).any():
        raise ValueError("no target has a value: there is nothing to measure by")
    if schema.goal == "classes":
        said = np.concatenate([one.numpy().reshape(-1, len(schema.classes)) for one in answers])
        known = np.isfinite(wanted[:, 0])
        names = np.array(schema.classes)
        right = names[wanted[known, 0].astype(int)].tolist()
        both = names[said[known].argmax(1)].tolist(), right
        return {"accuracy": accuracy(*both).value, "f1": macro_f1(*both).value}
    said = np.concatenate([one.numpy().reshape(-1, len(schema.targets)) for one in answers])
    if schema.goal == "numbers":
        mean, spread = np.array(schema.scales).T
        wanted = wanted * spread + mean
    each = [measure_target(schema, *both) for both in zip(said.T, wanted.T, strict=True)]
    told = [one for one in each if one]
    if not told:
        raise ValueError("an AUC needs examples of both kinds, and no target has both")
    return {name: float(np.mean([one[name] for one in told])) for name in told[0]}


def measure_target(schema: Schema, said: Array, wanted: Array) -> dict[str, float]:
    """Score a target; {} without values, or if it is one of several and all labels are equal."""
    known = np.isfinite(wanted)
    both = said[known].tolist(), wanted[known].tolist()
    if schema.goal == "numbers":
        return {"rmse": rmse(*both).value, "pearson": pearson(*both).value} if known.any() else {}
    if len(schema.targets) > 1 and len({*both[1]}) < 2:
        return {}
    return {"auc": roc_auc(*both).value}


def refuse_immeasurable(schema: Schema, graphs: Sequence[EncodedGraph]) -> None:
    """Raise if no answers for these validation graphs could be scored."""
    wide = len(schema.classes)
    shapes = [(one.wanted.size, wide) if wide else one.wanted.shape for one in graphs]
    try:
        measure_answers(schema, [torch.zeros(shape) for shape in shapes], graphs)
    except ValueError as error:
        raise ValueError(
            f"the validation set cannot be scored: {error}; a larger data.held_out, or another "
            "file to validate on, would do"
        ) from None
