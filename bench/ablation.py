"""What is each part of the preset `modern` worth? Train it without each part in turn.

    python bench/ablation.py book.txt --steps 1000 --device cuda --compile   as the preset is
    python bench/ablation.py book.txt --only "qk norm" --only muon           some rows
    python bench/ablation.py book.txt --json results/x.json                  results to a file
    python bench/ablation.py book.txt --quick                                toy sizes

All rows read the same batches and start from the same initial weights, as far as they have the same
parts; the last row is the preset `base`.

B batch, T tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.attention.patterns import Everything
from manyheads.attention.places import line
from manyheads.codecs.text import Text
from manyheads.modules.build import build_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.modules.transformer import Tokens
from manyheads.tasks.language.settings import PRESETS, LanguageRecipe
from manyheads.training.compiling import compile_network
from manyheads.training.config import Training
from manyheads.training.distributed import World
from manyheads.training.learner import Learner

MODERN, BASE = PRESETS["modern"], PRESETS["base"]
Settings = dict[str, Any]
# How to remove a part: settings of the network, settings of training.
WITHOUT: dict[str, tuple[Settings, Settings]] = {
    "nothing": ({}, {}),
    "qk norm": ({"qk_norm": False}, {}),
    "relu squared": ({"feed_forward": "gelu"}, {}),
    "outputs at zero": ({"init": "gpt2"}, {}),
    "untied head": ({"tied": True}, {}),
    "logit cap": ({"logit_cap": 0.0}, {}),
    "residual scalars": ({"residual_scalars": False}, {}),
    "value embeddings": ({"value_embeddings": 0}, {}),
    "windows": ({"pattern": "Everything()"}, {}),
    "embedding norm": ({"embedding_norm": False}, {}),
    "muon": ({}, {"optimizer": "adamw"}),
    "all of them": ({}, {}),
}


def settings_of(name: str, asked: argparse.Namespace) -> tuple[TransformerConfig, Training]:
    """Return the network and the training settings of a row, with the sizes that were asked for."""
    preset = BASE if name == "all of them" else MODERN
    network, training = WITHOUT[name]
    ffn = asked.width * preset.network.ffn_width // preset.network.width
    design = replace(
        preset.network, width=asked.width, depth=asked.depth, heads=asked.heads, ffn_width=ffn
    )
    plan = LanguageRecipe.plan.training(preset, 0, cuda=asked.device != "cpu")
    # No average of the weights: we compare how fast they learn.
    own = {"steps": asked.steps, "warmup_steps": asked.steps // 20, "seed": asked.seed, "ema": 0.0}
    planned = replace(plan, **own, **training)
    if planned.optimizer == "adamw":
        planned = replace(planned, learning_rate=asked.adamw_rate)
    return replace(design, **network), planned


def batches(ids: Tensor, count: int, asked: argparse.Namespace, seed: int) -> Iterator[Tensor]:
    """Yield batches of shape (B, T + 1), from random places in the text."""
    chosen = torch.Generator().manual_seed(seed)
    for _ in range(count):
        begins = torch.randint(len(ids) - asked.context, (asked.batch, 1), generator=chosen)
        yield ids[begins + torch.arange(asked.context + 1)].to(asked.device)


def loss_of(network: nn.Module, batch: Tensor) -> dict[str, Tensor]:
    # The pattern is given: torch.compile cannot handle its default value.
    at = line(batch.shape[1] - 1, device=batch.device)
    scores = network(Tokens(batch[:, :-1], at, Everything())).flatten(0, 1)
    return {"loss": F.cross_entropy(scores.float(), batch[:, 1:].flatten())}


def learn(name: str, codec: Text, ids: Tensor, asked: argparse.Namespace) -> dict[str, Any]:
    """Train one row; return the loss on the last tenth of the text, and the speed."""
    design, training = settings_of(name, asked)
    torch.manual_seed(asked.seed)
    network = build_decoder(design, codec.size)
    learner = Learner(network, loss_of, training, World(device=torch.device(asked.device)))
    if asked.compile:
        compile_network(network)
    read, held_out = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
    times = []
    for batch in batches(read, asked.steps, asked, asked.seed):
        begin = time.perf_counter()
        learner.step([batch], count=1)
        if asked.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    network.eval()
    with torch.no_grad(), learner.autocast():
        some = [loss_of(network, each)["loss"].item() for each in batches(held_out, 20, asked, 0)]
    seconds = sorted(times)[len(times) // 2]
    return {
        "without": name,
        "loss": sum(some) / len(some),
        "parameters": sum(p.numel() for p in network.parameters()),
        "milliseconds": 1000 * seconds,
        "tokens_per_second": asked.batch * asked.context / seconds,
    }


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("text", type=Path)
    parser.add_argument("--only", action="append", choices=[*WITHOUT])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    size = {"width": 768, "depth": 12, "heads": 6, "context": 1024, "batch": 128}
    for name, value in {**size, "vocabulary": 32_000, "steps": 1000, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--adamw-rate", type=float, default=BASE.learning_rate, help="without muon")
    asked = parser.parse_args()
    if asked.quick:
        toy = {"width": 32, "depth": 4, "heads": 2, "context": 32, "batch": 4}
        vars(asked).update(toy, vocabulary=300, steps=min(asked.steps, 20))
    return asked


def main() -> None:
    asked = options()
    text = asked.text.read_text(encoding="utf-8")
    codec = Text.train(text.splitlines(keepends=True), "bpe", asked.vocabulary)
    ids = torch.tensor([i for row in codec.encode_all(text.splitlines(keepends=True)) for i in row])
    columns = ["without", "loss", "difference", "parameters", "ms a step", "tokens/s"]
    print(f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", sep="\n")
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(["nothing", *(asked.only or WITHOUT)]):
        rows.append(row := learn(name, codec, ids, asked))
        print(
            f"| {name} | {row['loss']:.3f} | {row['loss'] - rows[0]['loss']:+.3f} "
            f"| {row['parameters'] / 1e6:.1f} M | {row['milliseconds']:.1f} "
            f"| {row['tokens_per_second']:,.0f} |",
            flush=True,
        )
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
