"""Make the built-in model of digits from a run: weights in 16 bits, recipe, codec and card.

python bench/images.py digits --mnist FOLDER --minutes 3 --out runs/images
python results/builtin_digits.py runs/images/digits --mnist FOLDER

The test images are scored, and some are sampled, on this machine; the card holds the results.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import torch
from builtin import packed

from manyheads.catalog import BUILT_IN
from manyheads.models import load
from manyheads.tasks.image.evaluation import evaluate_images
from manyheads.tasks.image.judge import FILE as JUDGE
from manyheads.tasks.image.judging import find_judge, judge_samples
from manyheads.tasks.image.sources import read_pictures
from manyheads.training.files import write_text

NAME, COUNT, TESTED, JUDGED = "digits", 64, 1000, 100
ABOUT = """\
# digits

Handwritten digits of the class asked for: {nats:.1f} ± {error:.1f} nats on {tests:,} held-out ones.

| | |
|---|---|
| network | Transformer, {depth} layers, width {width}, {parameters:,} parameters |
| images | 28 x 28 pixels, row by row; white from the middle of all levels up |
| size | {megabytes:.1f} MB, weights in 16 bits |
| trained on | {images} |
| steps | {steps:,} of {tokens:,} tokens |
| nats an image | {nats:.2f} on {tests:,} of the test images |
| taken for their class | {accuracy:.0%} of {judged} samples; of real digits {right:.1%} |
| speed | {count} images in {seconds:.1f} s of one CPU core |

## What it was trained on

MNIST (LeCun, Cortes and Burges), licensed under Creative Commons Attribution-Share Alike 3.0.
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("run", type=Path)
    options.add_argument("--mnist", type=Path, required=True)
    asked = options.parse_args()
    folder = BUILT_IN / NAME
    recipe = packed(asked.run, folder)
    _, right = find_judge(load(asked.run, "cpu"))  # type: ignore[arg-type]
    shutil.copy(asked.run / JUDGE, folder / JUDGE)
    model = load(folder, "cpu")
    pictures = read_pictures([asked.mnist / "test.npz"])
    some = pictures[torch.arange(TESTED).numpy()]
    score = evaluate_images(model, some)["scores"]["nats_per_image"]  # type: ignore[arg-type]
    began = time.process_time()  # others may use the machine too
    model.generate(COUNT, of_class="3", seed=1)  # type: ignore[attr-defined]
    seconds = time.process_time() - began
    judged = judge_samples(model, some, JUDGED)["judge_accuracy"]["value"]  # type: ignore[arg-type]
    metrics = [json.loads(line) for line in (asked.run / "metrics.jsonl").open()]
    card = ABOUT.format(
        nats=score["value"],
        error=score["error"],
        tests=TESTED,
        depth=recipe.network.depth,
        width=recipe.network.width,
        parameters=sum(p.numel() for p in model.network.parameters()),
        megabytes=sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        images=(asked.run / "corpus.txt").read_text(encoding="utf-8").split(" of ")[0],
        steps=max(line["step"] for line in metrics if "valid" in line),
        tokens=recipe.training.tokens_per_batch,
        accuracy=judged,
        judged=JUDGED,
        right=right,
        count=COUNT,
        seconds=seconds,
    )
    write_text(folder / "README.md", card)
    print(card)


if __name__ == "__main__":
    main()
