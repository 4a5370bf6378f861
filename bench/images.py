"""Images on one GPU: how likely CIFAR-10 and MNIST are, who must see whom, and how fast one draws.

    python bench/images.py best --cifar FOLDER --minutes 6 --json results/images.json
    python bench/images.py memory --cifar FOLDER            local 1D, 8 to 256 tokens of memory
    python bench/images.py tiles --cifar FOLDER             local 2D against local 1D and all
    python bench/images.py kinds --cifar FOLDER             an RNN and a CNN, as many weights
    python bench/images.py mnist --mnist FOLDER --minutes 3
    python bench/images.py digits --mnist FOLDER --minutes 3   the built-in model
    python bench/images.py upscale --cifar FOLDER --minutes 4
    python bench/images.py sampling --run runs/images/best  images a second, step by step
    python bench/images.py compression --run runs/images/best --cifar FOLDER    bit for bit?
    python bench/images.py formats --cifar FOLDER           PNG, WebP, JPEG XL: needs Pillow
    python bench/images.py growth                           what a token costs, to 256 x 256 x 3
    python bench/images.py memory --cifar FOLDER --quick    toy sizes, to see that it runs

A folder holds train*.npz and test.npz, each with `images` (N, rows, columns[, 3]) of bytes and
`labels`. Models are validated on a part of the training images and measured on all test images at
the end. Rows of the same name in the results file are replaced, the others stay.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from manyheads.attention.patterns import Blocks, Causal
from manyheads.attention.places import grid
from manyheads.attention.positions import Rotary
from manyheads.data.packed import write_packed
from manyheads.decoding.config import Sampling
from manyheads.learn import Request, fit_into, prepare_run, resolve, resume_run
from manyheads.models import load
from manyheads.modules.config import TransformerConfig
from manyheads.modules.stack import Stack
from manyheads.modules.transformer import Tokens
from manyheads.tasks.image.drawing import draw_images
from manyheads.tasks.image.evaluation import evaluate_images
from manyheads.tasks.image.formats import measure_formats
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.packing import compress_images, decompress_images, number_names
from manyheads.tasks.image.recorded import ImageRecorder
from manyheads.tasks.image.sheet import enlarge, make_sheet, save_png
from manyheads.tasks.image.sources import Pictures, read_pictures
from manyheads.tasks.packing import open_packed
from manyheads.training.distributed import join_processes
from manyheads.training.files import WEIGHTS
from manyheads.training.run import Run
from manyheads.training.trainer import Callback, StepLog
from manyheads.training.weights import count_parameters

# Deep enough to look far, narrow enough to see each image many times in minutes.
BEST = [
    "network.width=384",
    "network.depth=12",
    "network.heads=6",
    "network.ffn_width=1024",
    "network.neighbours=1",
    "network.dropout=0.0",
    "data.flip=true",
    "training.tokens_per_batch=65536",
    "training.learning_rate=0.002",
    "training.ema=0.999",
    "training.steps=40000",
    "training.validate_every=4000",
    "data.held_out=0.02",
]
# One budget for all rows, and no neighbouring pixels as input: attention must find them.
COMPARED = [
    "network.width=256",
    "network.depth=8",
    "network.heads=4",
    "network.ffn_width=704",
    "network.neighbours=0",
    "network.dropout=0.0",
    "training.tokens_per_batch=65536",
    "training.learning_rate=0.002",
    "training.ema=0.99",
    "training.steps=1500",
    "training.validate_every=500",
    "training.compile=false",  # too few steps to pay for it
    "data.held_out=0.02",
]
DIGITS = [
    "network.width=256",
    "network.depth=10",
    "network.heads=4",
    "network.ffn_width=704",
    "network.neighbours=1",
    "network.dropout=0.1",
    "data.binarize=sample",
    "training.tokens_per_batch=50176",
    "training.learning_rate=0.002",
    "training.ema=0.999",
    "training.steps=40000",
    "training.validate_every=4000",
    "data.held_out=0.02",
]
# The model that comes with the package: small, and quick on a CPU.
BUILT_IN = [
    "network.width=128",
    "network.depth=6",
    "network.heads=4",
    "network.key_heads=1",  # a quarter of the cache to read: draws in half the time
    "network.ffn_width=384",
    "network.dropout=0.05",
    "training.tokens_per_batch=50176",
    "training.learning_rate=0.003",
    "training.ema=0.999",
    "training.steps=20000",
    "training.validate_every=2000",
    "data.held_out=0.02",
]
# Options of each part beside the images.
FILES: dict[str, dict[str, Any]] = {
    "mnist": {"levels": 2},
    "digits": {"levels": 2, "classes": True},
    "upscale": {"upscale": "8:32"},
}
TOY = [
    "network.width=32",
    "network.depth=2",
    "network.heads=2",
    "network.ffn_width=64",
    "training.tokens_per_batch=4096",
    "training.steps=4",
]
# As in the paper, a token is a channel of a pixel and a row of an image has 96 of them: then 64
# tokens of memory do not reach the pixel above, and 256 do. It takes three times the steps to see
# as many images.
CHANNELS = [
    "network.head=categorical",
    "training.steps=2100",
    "training.validate_every=1050",
]
LOCAL_1D = {
    f"local 1D, memory {m}": [f"network.pattern=Blocks({m}, {m})", *CHANNELS]
    for m in (8, 16, 64, 256)
}
LOCAL_2D = {
    "all that was drawn": [],
    "local 1D, 8 rows": ["network.pattern=Blocks(256, 256)"],
    "local 2D, 8 x 8 and 8 around, row by row": ["network.pattern=Blocks((8, 8), (8, 8))"],
    "local 2D, 8 x 8 and 8 around, tile by tile": [
        "network.pattern=Blocks((8, 8), (8, 8))",
        "network.tile=8",
    ],
}
PLAIN = ["training.optimizer=adamw", "training.learning_rate=0.001"]  # muon is for linear layers
KINDS = {
    "recurrent": ["network.width=512", "network.depth=3", *PLAIN],
    "convolutional": ["network.width=384", "network.depth=8", *PLAIN],
}
OF_TRANSFORMERS = ("network.heads", "network.ffn_width")


class Told(Callback):
    """Prints a line for each log and validation."""

    def say(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def on_log(self, note: StepLog) -> None:
        speed = f"{note.tokens_per_second:,.0f} values/s"
        print(f"  step {note.step} of {note.steps}  loss {note.loss:.4f}  {speed}", flush=True)

    def on_validate(self, step: int, scores: dict[str, float], samples: Any) -> None:
        print(f"  step {step}: {scores}", flush=True)


def train_run(name: str, data: Path, settings: list[str], asked: argparse.Namespace) -> Run:
    """Train a run in the folder of this name; an existing one is deleted."""
    world = join_processes(asked.device)
    settings = [*settings, *(TOY if asked.quick else []), *asked.setting, "drawn=0"]
    if asked.part == "kinds":
        settings = [one for one in settings if not one.startswith(OF_TRANSFORMERS)]
    more = FILES.get(asked.part, {})
    files = {"images": tuple(sorted(data.glob("train*.npz"))), **more}
    run = Run(asked.out / name.replace(" ", "-").replace(",", ""))
    shutil.rmtree(run.folder, ignore_errors=True)
    request = Request("image", settings, files, world.device.type, None, "small")
    recipe, corpus = resolve(request)
    deadline = math.inf
    prepare_run(recipe, run, corpus, world)
    if asked.minutes is not None:
        deadline = time.monotonic() + 60 * asked.minutes
        print(f"  {fit_into(asked.minutes, recipe, run, world)}", flush=True)
    with suppress(ModuleNotFoundError):  # a picture of the curves needs matplotlib
        resume_run(run, world, Told(), deadline=deadline)
    return run


def measure_run(
    part: str, name: str, data: Path, settings: list[str], asked: argparse.Namespace
) -> dict[str, Any]:
    print(f"== {name}", flush=True)
    began = time.perf_counter()
    run = train_run(name, data, settings, asked)
    trained = time.perf_counter() - began
    model = load(run.folder, asked.device)
    test = read_pictures([data / "test.npz"])
    report = evaluate_images(model, test)  # type: ignore[arg-type]
    steps = model.task.recipe.training.steps
    return {
        "part": part,
        "name": name,
        "parameters": count_parameters(model.network),
        "steps": steps,
        "epochs": round(steps * model.task.batches().rows / len(model.task.batches().pixels), 1),
        "minutes": round(trained / 60, 2),
        "settings": settings,
        **report["scores"],
        "by_class": report["by_class"],
    }


# ---- small images made large -----------------------------------------------------------------


@torch.no_grad()
def measure_upscaled(
    asked: argparse.Namespace, images: int = 64, samples: int = 16
) -> dict[str, float]:
    """Return PSNR in dB: of a sample, the mean of several and bicubic, each against the image; and
    of a sample made small again, against the small input.
    """
    model: ImageModel = load(asked.out / "upscale", asked.device)  # type: ignore[assignment]
    codec, task = model.task.codec, model.task
    images, samples = (4, 2) if asked.quick else (images, samples)
    test = read_pictures([asked.cifar / "test.npz"]).pixels[:images]
    large = codec.quantize(torch.from_numpy(test))
    small = codec.shrink(large)
    condition = task.condition(model.network, images, None, small)
    given = torch.zeros(images, 0, dtype=torch.long, device=model.device)
    drawn = []
    for number in range(samples):
        ids = draw_images(model.network, codec, given, condition, Sampling(), number * images)
        drawn.append(codec.decode(ids).cpu())
    save_png(enlarge(make_sheet(codec.brighten(drawn[0]).numpy())), asked.out / "upscale.png")
    wide = small.permute(0, 3, 1, 2).float()
    cubic = F.interpolate(wide, (codec.rows, codec.columns), mode="bicubic").clamp(0, 255)
    mean = torch.stack(drawn).float().mean(0)
    return {
        "sample": decibels(drawn[0], large),
        f"mean of {samples}": decibels(mean, large),
        "bicubic": decibels(cubic.permute(0, 2, 3, 1), large),
        "sample made small": decibels(codec.shrink(drawn[0]), small),
    }


def decibels(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the PSNR, as a mean over images."""
    errors = (one.float() - other.float()).square().flatten(1).mean(1).clamp(min=1e-9)
    return round(float((10 * torch.log10(255**2 / errors)).mean()), 2)


# ---- drawing ---------------------------------------------------------------------------------


@torch.no_grad()
def draw_rows(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure images per second: with a cache and a recorded step, and without a cache."""
    model: ImageModel = load(asked.run, asked.device)  # type: ignore[assignment]
    codec, network, device = model.task.codec, model.network, model.device
    batch = 4 if asked.quick else 64
    given = torch.zeros(batch, 0, dtype=torch.long, device=device)
    condition = model.task.condition(network, batch, None, None)
    row = {"part": "sampling", "batch": batch}
    anew = batch / read_anew(model, batch)
    yield {**row, "name": "all read anew", "images_per_second": anew}
    for name, fused in (("with a cache", False), ("with a cache, fused", True)):
        network.writer.stack.fused = fused
        recorder = ImageRecorder(network, codec, condition, Sampling(), batch)
        times = []
        for first in range(0, 2 * batch if asked.quick else 4 * batch, batch):
            settle(device)
            began = time.perf_counter()
            drawn = recorder.draw(given, condition, range(first, first + batch))
            settle(device)
            times.append(time.perf_counter() - began)
        speed = batch / min(times)  # the first one records the step
        yield {**row, "name": name, "images_per_second": speed, "first_seconds": times[0]}
        print(f"{name}: {speed / anew:.0f} times as many images a second as all read anew")
    images = codec.brighten(codec.decode(drawn)).cpu().numpy()
    save_png(enlarge(make_sheet(images)), asked.run / "sheet.png")


@torch.no_grad()
def read_anew(model: ImageModel, batch: int) -> float:
    """Estimate the seconds of a batch without a cache: a pass for each quarter of the tokens."""
    codec, device = model.task.codec, model.device
    at, _ = codec.on(device)
    classes = torch.zeros(batch, 1, dtype=torch.long, device=device) if codec.classes else None
    total = 0.0
    for eighth in (1, 3, 5, 7):
        length = max(1, codec.tokens * eighth // 8)
        ids = torch.full((batch, length), codec.start, device=device)
        tokens = Tokens(ids, at[:length], types=classes)
        model.network(tokens)
        settle(device)
        began = time.perf_counter()
        for _ in range(3):
            model.network(tokens)
        settle(device)
        total += (time.perf_counter() - began) / 3 * codec.tokens / 4
    return total


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


# ---- compression -----------------------------------------------------------------------------


def pack_rows(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compress and decompress all test images; compare the size with their likelihood."""
    model: ImageModel = load(asked.run, asked.device)  # type: ignore[assignment]
    codec, pictures = model.task.codec, read_tests(asked)
    levels = codec.quantize(torch.from_numpy(pictures.pixels))
    pictures.pixels = codec.brighten(levels).numpy()  # only black and white for two levels
    nats = float(model.score(pictures.pixels, pictures.labels).sum())
    began = time.perf_counter()
    head, parts = compress_images(model, pictures, number_names(len(pictures)))
    size, packed = write_packed(asked.run / "test.mh", head, parts), time.perf_counter()
    again = decompress_images(model, *open_packed(model, asked.run / "test.mh"))
    ended, values = time.perf_counter(), pictures.pixels.size
    coded = 8 * sum(len(part.data) for part in parts)
    yield {
        "part": "compression",
        "name": asked.run.name,
        "images": len(pictures),
        "bit_equal": int((again == pictures.pixels).all((1, 2, 3)).sum()),
        "bytes": size,
        "bits_per_dim": 8 * size / values,
        "likely_bits_per_dim": nats / math.log(2) / values,
        "more_than_likely": coded * math.log(2) / nats - 1,
        "compress_seconds": round(packed - began, 1),
        "decompress_seconds": round(ended - packed, 1),
        "weights_bytes": (asked.run / WEIGHTS).stat().st_size,
    }


def format_rows(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    pictures = read_tests(asked)
    for name, size in measure_formats(pictures.pixels).items():
        bits = 8 * size / pictures.pixels.size
        counts = {"images": len(pictures), "bytes": size, "bits_per_dim": bits}
        yield {"part": "formats", "name": name, **counts}


def read_tests(asked: argparse.Namespace) -> Pictures:
    pictures = read_pictures([(asked.cifar or asked.mnist) / "test.npz"])
    return pictures[np.arange(len(pictures))[: 70 if asked.quick else asked.images]]


# ---- larger images ---------------------------------------------------------------------------

SEEN = {
    "all that was drawn": Causal(),
    "local 1D, 256 and 256": Causal() & Blocks(256, 256),
    "local 2D, 8 x 8 and 8 around": Causal() & Blocks((8, 8), (8, 8)),
}


def grow_rows(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure the cost per token: a step of two layers, forward and backward, over images of
    growing size, channel by channel.
    """
    config = TransformerConfig(width=256, depth=2, heads=4, dropout=0.0, position=None)
    for name, pattern in SEEN.items():
        for size in (16, 32) if asked.quick else (32, 64, 128, 256):
            at = grid(size, size, 3, blocks=(8, 8) if "2D" in name else None, device=asked.device)
            stack = Stack.of(config, pattern, relative=Rotary(100)).to(asked.device)
            x = torch.randn(max(1, (64 // size) ** 2), len(at), 256, device=asked.device)
            seconds = [time_step(stack, x, at) for _ in range(4)]
            yield {
                "part": "growth",
                "name": f"{name}, {size} x {size} x 3",
                "tokens": len(at),
                "images": len(x),
                "first_seconds": seconds[0],
                "nanoseconds_per_token": 1e9 * min(seconds[1:]) / len(x) / len(at),
            }


def time_step(stack: Stack, x: torch.Tensor, at: Any) -> float:
    settle(x.device)
    began = time.perf_counter()
    with torch.autocast(x.device.type, torch.bfloat16):
        loss = stack(x, at).float().square().mean()
    loss.backward()
    settle(x.device)
    return time.perf_counter() - began


# ---- what is asked for -----------------------------------------------------------------------


PARTS = ["best", "memory", "tiles", "mnist", "digits", "upscale", "sampling"]
PARTS += ["compression", "formats", "growth", "kinds"]


def make_rows(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if asked.part == "best":
        yield measure_run("best", "best", asked.cifar, BEST, asked)
    if asked.part == "upscale":
        row = measure_run("upscale", "upscale", asked.cifar, BEST, asked)
        yield {**row, "psnr": measure_upscaled(asked)}
    if asked.part == "mnist":
        yield measure_run("mnist", "mnist", asked.mnist, DIGITS, asked)
    if asked.part == "digits":
        yield measure_run("digits", "digits", asked.mnist, BUILT_IN, asked)
    for name, more in {"memory": LOCAL_1D, "tiles": LOCAL_2D}.get(asked.part, {}).items():
        if asked.only in name:
            yield measure_run(asked.part, name, asked.cifar, [*COMPARED, *more], asked)
    for kind, more in KINDS.items() if asked.part == "kinds" else ():
        settings = [*COMPARED, f"network.kind={kind}", *more]
        yield measure_run("kinds", kind, asked.cifar, settings, asked)
    if asked.part == "sampling":
        yield from draw_rows(asked)
    if asked.part == "compression":
        yield from pack_rows(asked)
    if asked.part == "formats":
        yield from format_rows(asked)
    if asked.part == "growth":
        yield from grow_rows(asked)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("part", choices=PARTS)
    options.add_argument("setting", nargs="*", help="settings of a recipe, over those here")
    options.add_argument("--cifar", type=Path, help="a folder with train*.npz and test.npz")
    options.add_argument("--mnist", type=Path, help="the same, of MNIST")
    options.add_argument("--run", type=Path, help="a run to draw or compress with")
    options.add_argument("--only", default="", help="rows of memory or tiles whose name has this")
    options.add_argument("--images", type=int, help="compress so many; default: all")
    options.add_argument("--minutes", type=float, help="train for so long, instead of by steps")
    options.add_argument("--out", type=Path, default=Path("runs/images"), help="where runs lie")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    asked = options.parse_intermixed_args()
    torch.set_float32_matmul_precision("high")
    name = torch.cuda.get_device_name() if asked.device.startswith("cuda") else "CPU"
    kept: dict[str, Any] = {"machine": f"{name}, torch {torch.__version__}", "rows": []}
    if asked.json and asked.json.exists():
        held = json.loads(asked.json.read_text())
        kept = held if asked.part == "formats" else {**kept, "rows": held["rows"]}
    for row in make_rows(asked):
        print({key: value for key, value in row.items() if key not in ("settings", "by_class")})
        key = row["part"], row["name"]
        kept["rows"] = [one for one in kept["rows"] if (one["part"], one["name"]) != key] + [row]
        if asked.json:  # after each: an interrupted run keeps its results
            asked.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
