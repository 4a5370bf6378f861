"""Make the built-in model of chorales from a run: weights in 16 bits, recipe, codec and card.

python results/builtin_chorales.py RUN --music jsb16th_flat.npz

The chorales of the splits valid and test are scored, and some are sampled, on this machine; the
card holds the results.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from builtin import packed

from manyheads.catalog import BUILT_IN
from manyheads.models import load
from manyheads.tasks.music.chorales import piece_of, read_grids
from manyheads.tasks.music.commands import evaluate_music
from manyheads.training.files import write_text

NAME, SECONDS = "chorales", 60.0
ABOUT = """\
# chorales

Four voices in the manner of Bach's chorales: {test:.3f} nats a note on {tests} held-out chorales.

| | |
|---|---|
| network | Transformer, {depth} layers, width {width}, {parameters:,} parameters |
| attention | relative: distances of up to {reach} tokens are told apart |
| numbers | a sixteenth is four: soprano, alto, tenor, bass; a pitch or a rest each |
| size | {megabytes:.1f} MB, weights in 16 bits |
| trained on | {pieces} chorales, up to {semitones} semitones higher or lower |
| steps | {steps:,} of {tokens:,} tokens |
| nats a note | {test:.4f} on test; {valid:.4f} on valid, by which the weights were chosen |
| speed | {speed:.1f} times as fast as it sounds, {seconds:.0f} s of music, {threads} CPU threads |

Each of the four voices keeps to its own and chords follow one another as in the chorales; there are
no words, no fermatas, and a repeated note is one long one, for that is all that the grid says.

## What it was trained on

The chorales of J. S. Bach on a grid of sixteenths, in the splits of Boulanger-Lewandowski as
published by czhuang/JSB-Chorales-dataset. The music is in the public domain.

## What it writes, beside what it learned from

{statistics}
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("run", type=Path)
    options.add_argument("--music", type=Path, required=True)
    asked = options.parse_args()
    folder = BUILT_IN / NAME
    recipe = packed(asked.run, folder)
    model = load(folder, "cpu")
    held = read_grids(asked.music)
    told = {
        split: evaluate_music(
            model, [(f"{split} {i}", piece_of(one)) for i, one in enumerate(held[split])]
        )
        for split in ("valid", "test")
    }
    began = time.perf_counter()
    (piece,) = model.compose(seconds=SECONDS, seed=1)
    speed = piece.seconds / (time.perf_counter() - began)
    metrics = [json.loads(line) for line in (asked.run / "metrics.jsonl").open()]
    notes = {split: one["scores"]["notes"]["value"] for split, one in told.items()}
    card = ABOUT.format(
        **notes,
        tests=told["test"]["examples"],
        pieces=len(held["train"]),
        semitones=recipe.data.semitones,
        depth=recipe.network.depth,
        width=recipe.network.width,
        reach=recipe.network.relative_value.reach,
        parameters=sum(p.numel() for p in model.network.parameters()),
        megabytes=sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        steps=max(line["step"] for line in metrics if "valid" in line),
        tokens=recipe.training.tokens_per_batch,
        speed=speed,
        seconds=piece.seconds,
        threads=torch.get_num_threads(),
        statistics=compared(told["test"]["statistics"]),
    )
    write_text(folder / "README.md", card)
    print(card)


def compared(statistics: dict[str, Any]) -> str:
    """Format the statistics that are single numbers, of chorales and samples, as a table."""
    rows = ["| | chorales | drawn |", "|---|---|---|"]
    for name, value in statistics["data"].items():
        if isinstance(value, int | float):
            cells = shown(value), shown(statistics["drawn"][name])
            rows.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(rows)


def shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


if __name__ == "__main__":
    main()
