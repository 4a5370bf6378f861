"""How much faster is the same text written on a GPU with drafts (speculative decoding)?

    python bench/drafts_gpu.py multi30k --json results/drafts-h200.json    under 5 minutes
    python bench/drafts_gpu.py multi30k --device cpu --quick               toy sizes, to see it runs

The folder holds train and test_2016_flickr, each .de and .en, or .gz of them. A base model and
a small one are trained here, for about a minute each; then one sentence at a time is written with
drafts and without, with a recorded step both times. Also measured: whether a token read alone has
exactly the same scores as among others, how much scores differ if not (a bound for the margin must
cover that), and the time of the parts of a pass.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from drafts import DRAWN, GREEDY, TINY, compare, of_text, opened
from sacrebleu import corpus_bleu

import manyheads
from manyheads.data.sources import read_lines
from manyheads.decoding.graphed_step import KEPT, GraphedStep
from manyheads.decoding.step import CachedStep
from manyheads.modules.stack import Memory
from manyheads.modules.transformer import Tokens
from manyheads.tasks.draft_file import write_drafts
from manyheads.tasks.drafting import make_drafts
from manyheads.tasks.seq2seq import writing
from manyheads.tasks.seq2seq.model import Translator

BASE: dict[str, Any] = {"width": 512, "depth": 6, "ffn_width": 2048, "heads": 8}
SMALL: dict[str, Any] = {"width": 256, "depth": [2, 1], "ffn_width": 1024, "heads": 4}
WARM = 40  # sentences of all lengths to warm up: steps are recorded
TIMES = 50


def unpack(folder: Path, out: Path) -> None:
    for part in ("train", "test_2016_flickr"):
        for side in ("de", "en"):
            packed, plain = folder / f"{part}.{side}.gz", folder / f"{part}.{side}"
            data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
            (out / plain.name).write_bytes(data)


def learn(asked: Any, data: Path, name: str, network: dict[str, Any], minutes: float) -> str:
    out = str(data / name)
    manyheads.train(
        "translation",
        source=data / "train.de",
        target=data / "train.en",
        out=out,
        minutes=minutes,
        device=asked.device,
        network=TINY if asked.quick else network,
        codec={"size": 300 if asked.quick else 8000},
    )
    return out


def learn_heads(asked: Any, base: str, minutes: float) -> None:
    model = cast(Translator, manyheads.load(base, asked.device))
    texts = read_lines(Path(base).parent / "train.de")
    sources = [model.task.codecs.source.encode(text) for text in texts]
    write_drafts(Path(base), make_drafts(model, sources, minutes, lambda said: None))


def encode(model: Translator, text: str) -> Memory:
    reads, _ = model.special_tokens
    ids = [*reads.encoder_bos, *model.task.codecs.source.encode(text), reads.eos]
    return writing.read_source(model.network, Tokens.padded([ids], reads.pad).to(model.device))


@torch.no_grad()
def measure_moves(model: Translator, texts: list[str]) -> dict[str, float]:
    """Return how much the margin between the two best tokens changes, at most, if eight tokens are
    read at once instead of one by one.
    """
    moved = {"recorded": 0.0, "eager": 0.0}
    for text in texts:
        memory, (_, writes) = encode(model, text), model.special_tokens
        ids = [*writes.bos, *model.write_best(model.task.codecs.source.encode(text))]
        tokens = torch.tensor([ids], device=model.device)
        for name in moved:
            found = []
            for width in (1, 8):
                decoder, longest = model.network.decoder, len(ids) + 1
                step: Any = GraphedStep(decoder, memory, longest, 1)
                step = step if name == "recorded" else CachedStep(decoder, memory)
                parts = [step.read(part).float() for part in tokens.split(width, 1)]
                found.append(torch.cat(parts, 1)[0].log_softmax(-1))
            best = found[0].topk(2).indices
            first, second = (x.gather(1, best).diff(dim=1) for x in found)
            moved[name] = max(moved[name], float((first - second).abs().max()))
    return moved


def time_of(run: Callable[[], Any], device: str) -> float:
    """Return the microseconds of a run."""
    for repeat in (3, TIMES):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(repeat):
            run()
        if device == "cuda":
            torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - began) / TIMES


@torch.no_grad()
def measure_parts(base: Translator, small: Translator, text: str, device: str) -> dict[str, float]:
    """Time the parts of decoding: to encode a source, one decoder pass, five guesses."""
    found = {}
    for name, model in (("base", base), ("small", small)):
        memory = encode(model, text)
        step = GraphedStep(cast(Any, model.network.decoder), memory, 60, 1)
        step.guess([*model.special_tokens[1].bos], 1)
        graphed = step.graphed
        assert graphed is not None
        found[f"{name}: read a source"] = time_of(partial(encode, model, text), device)
        found[f"{name}: a pass"] = time_of(graphed.play, device)

        def guess(step: GraphedStep = step) -> None:
            step.crop(1)
            step.guess([5], 5)

        found[f"{name}: five guesses"] = time_of(guess, device)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("folder", type=Path, help="the files of Multi30k")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options.add_argument("--count", type=int, default=1000, help="sentences")
    options.add_argument("--turns", type=int, default=1, help="of which the best counts")
    options.add_argument("--device", default="cuda")
    options.add_argument("--precision", default="bfloat16")
    options.add_argument(
        "--minutes",
        type=float,
        nargs=3,
        default=(1.0, 0.6, 0.25),
        help="that the base model, the small one and heads learn",
    )
    asked = options.parse_args()
    if asked.quick:
        asked.count, asked.minutes = min(asked.count, 3), (0.1, 0.1, 0.05)
        cast(Any, writing).RECORDED_ON = ("cuda", "cpu")  # the same code; a CPU records nothing
    on = torch.cuda.get_device_name() if asked.device == "cuda" else "CPU"
    told: dict[str, Any] = {
        "machine": f"{on}, {asked.precision}, torch {torch.__version__}",
        "base": BASE,
        "small": SMALL,
        "minutes": asked.minutes,
    }
    with tempfile.TemporaryDirectory() as folder:
        measure(asked, Path(folder), told)


def measure(asked: Any, data: Path, told: dict[str, Any]) -> None:
    def keep(**new: Any) -> None:
        told.update(new)
        if asked.json:
            asked.json.write_text(json.dumps(told, indent=1) + "\n")

    began = time.perf_counter()
    unpack(asked.folder, data)
    small = learn(asked, data, "small", SMALL, asked.minutes[1])
    base = learn(asked, data, "base", BASE, asked.minutes[0])
    learn_heads(asked, base, asked.minutes[2])
    model, other = (cast(Translator, opened(name, asked)) for name in (base, small))
    model.add_drafter(small, other)
    texts = [*read_lines(data / "test_2016_flickr.de")][: asked.count]
    wanted = [*read_lines(data / "test_2016_flickr.en")][: asked.count]
    scores = [corpus_bleu(one.translate(texts, beam=1), [wanted]).score for one in (model, other)]
    keep(bleu=dict(zip(("base", "small"), scores, strict=True)))
    ordered = sorted(texts, key=len)
    for how in (GREEDY, DRAWN):
        for text in ordered[:: max(1, len(ordered) // WARM)] + ordered[-1:]:
            for way in ("", small, "lookup", "heads", "again"):
                of_text(model, how)(text, way)
    keep(parts=measure_parts(model, other, ordered[len(ordered) // 2], asked.device))
    keep(moves=measure_moves(model, texts[:40]))
    keep(lanes_alike=[one.alike for one in KEPT[model.network.decoder].held if one.alone])
    print(
        json.dumps(
            {name: told[name] for name in ("bleu", "parts", "moves", "lanes_alike")}, indent=1
        )
    )
    rows: list[dict[str, Any]] = []
    for names in ([small], ["lookup", "heads", "again"]):
        for title, how in (("greedy", GREEDY), ("drawn", DRAWN)):
            what = f"base, Multi30k, {title}"
            rows += compare(what, model, texts, of_text(model, how), names, asked.turns)
            keep(rows=rows, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main()
