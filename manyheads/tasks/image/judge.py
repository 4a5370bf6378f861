"""A small image classifier, to measure how similar samples are to real images.

N images, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.tasks.image.sources import Bytes
from manyheads.training.files import read_tensors, write_tensors

FILE = "judge.safetensors"
FEATURES, STEPS, BATCH, RATE = 64, 1200, 128, 2e-3
LEAST_STEPS, EPOCHS = 100, 20  # for few images, so that it does not overfit
HELD_OUT = 0.1  # share of the images, to measure its accuracy
AT_ONCE = 512


class Judge(nn.Module):
    """Convolutions, then `FEATURES` features from which a linear layer predicts the class."""

    def __init__(self, shape: Sequence[int], classes: Sequence[str]):
        super().__init__()
        rows, columns, channels = shape
        self.classes = [*classes]
        self.layers = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=2, padding=1)
            for before, after in ((channels, 32), (32, 64), (64, 64))
        )
        cells = -(-rows // 8) * -(-columns // 8)
        self.inner, self.head = nn.Linear(64 * cells, FEATURES), nn.Linear(FEATURES, len(classes))

    def features(self, images: Tensor) -> Tensor:
        """Bytes (N, rows, columns, channels) -> (N, F)"""
        x = images.permute(0, 3, 1, 2).float() / 127.5 - 1
        for layer in self.layers:
            x = F.relu(layer(x))
        return F.relu(self.inner(x.flatten(1)))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(images))
        return scores

    @torch.no_grad()
    def read(self, images: Bytes) -> tuple[Tensor, list[str]]:
        """Return the features of each image, (N, F), and its predicted class."""
        device = self.head.weight.device
        parts = [self.features(some.to(device)) for some in torch.from_numpy(images).split(AT_ONCE)]
        found = torch.cat(parts)
        return found, [self.classes[i] for i in self.head(found).argmax(1).tolist()]


def train_judge(
    images: Bytes,
    labels: Sequence[str],
    device: torch.device,
) -> tuple[Judge, float]:
    """Train a classifier on these images; return it and its accuracy on held-out ones."""
    classes = sorted({*labels})
    if len(classes) < 2:
        raise ValueError(
            "samples are judged by a classifier, which learns from images of two classes or more; "
            f"there {'is' if classes else 'are'} {len(classes)} here"
        )
    numbers = torch.tensor([classes.index(label) for label in labels])
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(images)))
    held = max(1, round(HELD_OUT * len(images)))
    learned, pixels = order[held:], torch.from_numpy(images)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        judge = Judge(images.shape[1:], classes).to(device)
        optimizer = torch.optim.Adam(judge.parameters(), RATE)
        steps = min(STEPS, LEAST_STEPS + EPOCHS * len(learned) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
        for _ in range(steps):
            some = learned[torch.randint(len(learned), (BATCH,))]
            loss = F.cross_entropy(judge(pixels[some].to(device)), numbers[some].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    _, said = judge.eval().read(images[order[:held].numpy()])
    right = [label == labels[i] for label, i in zip(said, order[:held].tolist(), strict=True)]
    return judge, float(np.mean(right))


def save_judge(judge: Judge, accuracy: float, shape: Sequence[int], folder: Path) -> None:
    note = {"classes": judge.classes, "shape": [*shape], "accuracy": accuracy}
    write_tensors(folder / FILE, judge.state_dict(), note)


def load_judge(folder: Path, device: torch.device) -> tuple[Judge, float]:
    tensors, note = read_tensors(folder / FILE)
    judge = Judge(note["shape"], note["classes"])
    judge.load_state_dict(tensors)
    return judge.to(device).eval(), note["accuracy"]


def frechet_distance(one: Tensor, other: Tensor) -> float:
    """Return the Fréchet distance of two sets of features (N, F), as normal distributions."""
    means = [cloud.double().mean(0) for cloud in (one, other)]
    spreads = [cloud.double().T.cov() for cloud in (one, other)]
    values, vectors = torch.linalg.eigh(spreads[0])
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    shared = torch.linalg.eigvalsh(root @ spreads[1] @ root).clamp(min=0).sqrt().sum()
    apart = (means[0] - means[1]).square().sum()
    return float(apart + spreads[0].trace() + spreads[1].trace() - 2 * shared)
