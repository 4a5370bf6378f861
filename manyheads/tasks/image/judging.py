"""Compare samples with real images, by a classifier that was trained on real images.

The distance is the Fréchet distance of the features of our own classifier: it cannot be compared
with numbers from another classifier, such as FID.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from manyheads.tasks.image.judge import (
    FILE,
    Judge,
    frechet_distance,
    load_judge,
    save_judge,
    train_judge,
)
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.sources import Bytes, Pictures
from manyheads.tasks.image.task import ImageTask, prepare_pixels
from manyheads.tasks.packing import Told


def judge_samples(
    model: ImageModel, pictures: Pictures, count: int, told: Told = lambda more: None
) -> dict[str, Any]:
    """Draw `count` samples, classes in turn; return their distance from these images and how often
    they are classified as asked, and for comparison the distance of the training images.
    """
    task, codec, scores = model.task, model.task.codec, {}
    if codec.small:
        raise ValueError(
            f"{model.name} makes large images of small ones; samples are judged of a model that "
            "draws from nothing"
        )
    if len(pictures) < 2:
        raise ValueError(
            "samples are compared with how images differ from each other, and one image came; "
            "two or more would do"
        )
    judge, right = find_judge(model)
    drawn = model.generate(count, told=told)
    real, _ = judge.read(round_as_drawn(task, pictures.pixels))
    features, said = judge.read(drawn)
    signature = f"judge:{right:.4f}|samples:{count}|images:{len(pictures)}"
    scores["judge_distance"] = {
        "value": round(frechet_distance(features, real), 4),
        "signature": signature,
    }
    if learned := read_labelled(task):
        some = learned[np.random.default_rng(0).permutation(len(learned))[:count]]
        own, _ = judge.read(round_as_drawn(task, some.pixels))
        scores["judge_distance"]["of_images_learned_from"] = round(frechet_distance(own, real), 4)
    if codec.classes:
        asked = [codec.classes[i % len(codec.classes)] for i in range(count)]
        share = float(np.mean([a == b for a, b in zip(asked, said, strict=True)]))
        error = math.sqrt(share * (1 - share) / count)
        scores["judge_accuracy"] = {
            "value": round(share, 4),
            "error": round(error, 4),
            "signature": signature,
        }
    return scores


def find_judge(model: ImageModel) -> tuple[Judge, float]:
    """Load the classifier of the run; if there is none, train and save one."""
    folder = model.task.held_in()
    if (folder / FILE).exists():
        return load_judge(folder, model.device)
    learned = read_labelled(model.task)
    if not learned:
        raise ValueError(
            f"samples of {model.name} are judged by a classifier, and there are no images with "
            "classes left to train it on; a run that was trained with --classes keeps them"
        )
    pixels = round_as_drawn(model.task, learned.pixels)
    judge, right = train_judge(pixels, learned.labels, model.device)
    save_judge(judge, right, pixels.shape[1:], folder)
    return judge, right


def read_labelled(task: ImageTask) -> Pictures | None:
    """Return the training images of the run with classes; None if they are gone."""
    images, codec = task.recipe.data.images, task.codec
    if codec.classes and (task.held_in() / "data" / "train.pixels.npy").exists():
        pixels, numbers = task.read_split("train")
        assert numbers is not None
        return Pictures(pixels, [codec.classes[i] for i in numbers.tolist()])
    if not all(path.exists() for path in images):
        return None
    found = task.read_like(images)
    return found if found.labels else None


def round_as_drawn(task: ImageTask, pixels: Bytes) -> Bytes:
    """Round images to the levels that the model draws, so that both can be compared."""
    return task.codec.round_bytes(prepare_pixels(pixels, task.recipe))
