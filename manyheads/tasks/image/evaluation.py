"""Evaluate an image model on images."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.metrics.report import make_report
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.sources import Pictures
from manyheads.tasks.image.task import prepare_pixels, sort_key


def evaluate_images(model: ImageModel, pictures: Pictures) -> dict[str, Any]:
    """Return a report: the mean score of all images and of each class, with standard errors."""
    began, recipe, codec = time.perf_counter(), model.task.recipe, model.task.codec
    nats = model.score(prepare_pixels(pictures.pixels, recipe), pictures.labels)
    binary = codec.levels == 2
    values = nats if binary else nats / codec.values / math.log(2)
    signature = f"size:{codec.rows}x{codec.columns}x{codec.channels}|levels:{codec.levels}"
    labels = np.array(pictures.labels)
    score = {
        **describe_mean(values),
        "signature": signature + f"|binarize:{recipe.data.binarize}" * binary,
    }
    by_class = {
        name: {**describe_mean(values[labels == name]), "examples": int((labels == name).sum())}
        for name in sorted({*pictures.labels}, key=sort_key)
    }
    scores = {"nats_per_image" if binary else "bits_per_dim": score}
    return make_report(model.name, len(pictures), began, scores, by_class=by_class)


def describe_mean(values: NDArray[np.float64]) -> dict[str, float]:
    """Return the mean with its standard error, which a single value does not have."""
    mean = {"value": round(float(values.mean()), 4)}
    if len(values) == 1:
        return mean
    return mean | {"error": round(float(values.std(ddof=1) / math.sqrt(len(values))), 4)}


def image_table(told: Mapping[str, Any]) -> str:
    lines = [f"{told['model']}: {told['examples']:,} images in {told['seconds']:.1f} s"]
    for name, score in told["scores"].items():
        lines.append(f"  {name:<14} {show_mean(score):<18}   {score['signature']}")
        if "of_images_learned_from" in score:
            lines.append(f"  {'':14} {score['of_images_learned_from']:8.4f} of images learned from")
    if told["by_class"]:
        lines.append(f"\n  {'class':<14} {'':18} images")
    for name, score in told["by_class"].items():
        lines.append(f"  {name:<14} {show_mean(score):<17}  {score['examples']:6,}")
    return "\n".join(lines)


def show_mean(score: Mapping[str, float]) -> str:
    error = f" ± {score['error']:.4f}" if "error" in score else ""
    return f"{score['value']:8.4f}{error}"
