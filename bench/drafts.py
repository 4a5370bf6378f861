"""How much faster is the same text written with drafts (speculative decoding)?

    python bench/drafts.py --sentences test.de --json results/drafts-cpu.json    on this CPU
    python bench/drafts.py --sentences test.de --device cuda --precision bfloat16 --json ...
    python bench/drafts.py ... --summaries runs/dialogsum --dialogues test.jsonl   texts that copy
    python bench/drafts.py ... --pairs train.tsv    a base model and a small one as its drafter,
                                                    both trained here, two minutes each
    python bench/drafts.py ... --pieces 1000 --seconds 3 --chorales jsb16th_flat.npz --itself
                                                    also greedy, from their first two bars; and the
                                                    model as its own drafter: slow, never wrong
    python bench/drafts.py --sentences test.de --together --json results/drafts-together.json
                                                    several texts at once, with drafts and without
    python bench/drafts.py --quick                  toy sizes, to see that it runs

Two claims: every output is the same as without a draft, and it is written sooner. One text at a
time. Each text is written in every way before the next one, several turns, and the best turn of
each way counts; the drafter starts anew in each turn, so that it cannot repeat an earlier output.
`ratio` compares seconds, `cpu_ratio` CPU seconds: on a machine that others use too, only those can
be reproduced.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import torch

import manyheads
from manyheads.data.sources import parse_records, read_lines
from manyheads.models import load, set_precision
from manyheads.tasks.draft_file import DRAFTS
from manyheads.tasks.drafted import DraftedModel
from manyheads.tasks.music.chorales import piece_of, read_grids
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.notes import Piece
from manyheads.tasks.seq2seq.kinds import KINDS
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.writing import write_targets

BARS = 32  # steps: two bars of four beats
DRAWN = {"temperature": 1.0, "seed": 1}
GREEDY = {"temperature": 0.0}
SMALL: dict[str, Any] = {"width": 256, "depth": [6, 1], "ffn_width": 512, "heads": 4}
BASE: dict[str, Any] = {"width": 512, "depth": 6, "ffn_width": 2048, "heads": 8}
TINY: dict[str, Any] = {"width": 32, "depth": 1, "ffn_width": 64, "heads": 2}

Write = Callable[[Any, str], Any]  # input, drafter -> output to compare


def compare(
    what: str,
    model: DraftedModel,
    inputs: Sequence[Any],
    write: Write,
    drafters: Sequence[str],
    turns: int,
) -> list[dict[str, Any]]:
    """Measure a row for each drafter."""
    ways = ["", *drafters]
    wall = {way: [float("inf")] * len(inputs) for way in ways}
    busy = {way: [float("inf")] * len(inputs) for way in ways}
    alike = dict.fromkeys(ways, 0)
    others = {name: one for name, one in model.drafters.items() if name not in ways}
    kept = {name: model.drafters[name] for name in drafters if name in model.drafters}
    for turn in range(turns):
        model.drafters.clear()
        model.drafters.update({**others, **kept})
        for i, one in enumerate(inputs):
            wanted = None
            for way in ways:
                began, before = time.perf_counter(), time.process_time()
                found = write(one, way)
                busy[way][i] = min(busy[way][i], time.process_time() - before)
                wall[way][i] = min(wall[way][i], time.perf_counter() - began)
                wanted = found if way == "" else wanted
                alike[way] += turn == 0 and found == wanted
    rows = []
    for way in drafters:
        counts = model.drafters[way].pace.counts
        ordered = sorted(wall[way])
        rows.append(
            {
                "what": what,
                "draft": Path(way).name,
                "texts": len(inputs),
                "alike": alike[way],
                "tokens_per_pass": counts.tokens / max(1, counts.passes),
                "unsure": counts.unsure,
                "margin": counts.margin,
                "ratio": sum(wall[""]) / sum(wall[way]),
                "cpu_ratio": sum(busy[""]) / sum(busy[way]),
                "plain_ms": 1e3 * sum(wall[""]) / len(inputs),
                "p50_ms": 1e3 * ordered[len(ordered) // 2],
                "p90_ms": 1e3 * ordered[len(ordered) * 9 // 10],
            }
        )
        print(show(rows[-1]), flush=True)
    return rows


def show(row: dict[str, Any]) -> str:
    return (
        f"{row['what']:34}{row['draft']:10}{row['alike']:>6,} of {row['texts']:,} alike"
        f"{row['tokens_per_pass']:>7.2f} a pass{row['ratio']:>7.2f} x{row['cpu_ratio']:>7.2f} x CPU"
        f"   margin {row['margin']:.1e}"
    )


def of_text(model: Translator, how: dict[str, Any]) -> Write:
    return lambda text, draft: model.translate(text, beam=1, draft=draft, **how)


def of_music(model: Musician, seconds: float) -> Write:
    return lambda seed, draft: model.compose(seconds=seconds, seed=seed, draft=draft)[0].ids


def of_beginning(model: Musician, seconds: float) -> Write:
    return lambda piece, draft: model.compose(piece, seconds, draft=draft, **GREEDY)[0].ids


def read_beginnings(path: Path, count: int) -> list[Piece]:
    """Return pieces of two bars: the first two of every chorale, then the next ones."""
    grids = [grid for split in read_grids(path).values() for grid in split]
    cut = (grid[i : i + BARS] for i in range(0, 640, BARS) for grid in grids)
    return [*islice((piece_of(part) for part in cut if len(part) == BARS), count)]


def opened(name: str, asked: Any) -> Any:
    model = load(name, asked.device)
    set_precision(model, asked.precision)
    return model


def list_drafters(model: Any, asked: Any) -> list[str]:
    """Return the drafters that the model has; also itself, if that is asked for."""
    if asked.itself:
        model.add_drafter("itself", opened(model.name, asked))
    heads = (model.task.folder / DRAFTS).exists()
    return ["again", "lookup", *["heads"] * heads, *["itself"] * asked.itself]


def measure_text(asked: Any) -> list[dict[str, Any]]:
    model, rows = cast(Translator, opened("de-en", asked)), []
    texts = (
        [*read_lines(asked.sentences)][: asked.count] if asked.sentences else ["Ich weiß es nicht."]
    )
    names = list_drafters(model, asked)
    for name, how in (("greedy", GREEDY), ("drawn", DRAWN)):
        rows += compare(f"de-en, {name}", model, texts, of_text(model, how), names, asked.turns)
    return rows


def measure_together(asked: Any) -> list[dict[str, Any]]:
    """Decode several texts at once, with drafts and without."""
    rows: list[dict[str, Any]] = []
    texts = (
        [*read_lines(asked.sentences)][: asked.count] if asked.sentences else ["Ich weiß es nicht."]
    )
    for size, name in product((1, 2, 3, 4, 8, 64), ("lookup", "heads")):
        model = cast(Translator, opened("de-en", asked))  # draft heads leave state in a network
        ids = sorted(model.task.codecs.source.encode_all(texts), key=len)
        groups = [ids[i : i + size] for i in range(0, len(ids), size)]
        write_groups(model, groups[:1], "")  # warm up
        plain, wanted = write_groups(model, groups, "")
        with patch("manyheads.tasks.seq2seq.writing.MOST_DRAFTED", size):
            drafted, found = write_groups(model, groups, name)
        alike = sum(one == two for one, two in zip(wanted, found, strict=True))
        row = {"together": size, "draft": name, "texts": len(ids), "alike": alike}
        rows.append({**row, "plain_cpu_s": plain, "drafted_cpu_s": drafted})
        print(rows[-1], flush=True)
    return rows


def write_groups(model: Translator, groups: Sequence[Any], draft: str) -> tuple[float, list[Any]]:
    """Return the CPU seconds, and what was written."""
    drafter, special, found = model.find_drafter(draft), model.special_tokens, list[Any]()
    began = time.process_time()
    for group in groups:
        written = write_targets(model.network, group, special=special, drafter=drafter)
        found += [best.ids for best, *_ in written]
    return time.process_time() - began, found


def measure_music(asked: Any) -> list[dict[str, Any]]:
    model = cast(Musician, opened(asked.musician, asked))
    names, turns = list_drafters(model, asked), 1 if asked.pieces > 20 else asked.turns
    title, write = f"chorales, {asked.seconds:g} s", of_music(model, asked.seconds)
    rows = compare(f"{title}, drawn", model, range(asked.pieces), write, names, turns)
    if asked.chorales:
        begun = read_beginnings(asked.chorales, asked.pieces)
        write = of_beginning(model, asked.seconds)
        rows += compare(f"{title}, greedy", model, begun, write, names, turns)
    return rows


def measure_summaries(asked: Any) -> list[dict[str, Any]]:
    """Measure summaries, which copy much of their source."""
    model = cast(Translator, opened(asked.summaries, asked))
    records = parse_records(read_lines(asked.dialogues), str(asked.dialogues))
    kind = KINDS[model.task.kind].records
    texts = [text for number, one in records for text in kind.all_sources(one, str(number))]
    texts, how = texts[: asked.count], {"long": "truncate", **GREEDY}
    title = f"summaries, {Path(asked.summaries).name}"
    return compare(title, model, texts, of_text(model, how), ["again", "lookup"], asked.turns)


def measure_models(asked: Any) -> list[dict[str, Any]]:
    """Measure a base model with a small model as its drafter."""
    texts = [line.split("\t")[0] for line in read_lines(asked.pairs)][: asked.count]
    with tempfile.TemporaryDirectory() as folder:
        for name, network in (("base", BASE), ("small", SMALL)):
            manyheads.train(
                "translation",
                pairs=asked.pairs,
                out=f"{folder}/{name}",
                minutes=asked.minutes,
                device=asked.device,
                network=TINY if asked.quick else network,
                codec={"size": 300 if asked.quick else 8000},
            )
        model = cast(Translator, opened(f"{folder}/base", asked))
        small = f"{folder}/small"
        model.add_drafter(small, opened(small, asked))
        ways, names = (("greedy", GREEDY), ("drawn", DRAWN)), [small, "lookup"]
        return [
            row
            for name, how in ways
            for row in compare(
                f"base, {name}", model, texts, of_text(model, how), names, asked.turns
            )
        ]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options.add_argument("--sentences", type=Path, help="German, one a line")
    options.add_argument("--count", type=int, default=1000, help="texts")
    options.add_argument("--pieces", type=int, default=4, help="of music")
    options.add_argument("--seconds", type=float, default=15, help="of each piece")
    options.add_argument("--turns", type=int, default=3, help="of which the best counts")
    options.add_argument("--musician", default="chorales", help="a model of chorales")
    options.add_argument(
        "--chorales", type=Path, help="an .npz of chorales to go on from, greedily"
    )
    options.add_argument("--itself", action="store_true", help="each model guesses for itself, too")
    options.add_argument("--device", default="cpu")
    options.add_argument("--precision", default="float32")
    options.add_argument("--summaries", help="a model of summaries")
    options.add_argument("--dialogues", type=Path, help="what it is to summarize, JSON lines")
    options.add_argument("--pairs", type=Path, help="what a base and a small model learn from")
    options.add_argument("--minutes", type=float, default=2, help="that each of them learns")
    options.add_argument("--together", action="store_true", help="only several texts at once")
    asked = options.parse_args()
    if asked.quick:
        asked.count, asked.pieces, asked.seconds, asked.turns, asked.minutes = 2, 1, 1, 1, 0.1
    parts = [measure_together] if asked.together else [measure_text, measure_music]
    parts += [measure_summaries] * bool(asked.summaries) + [measure_models] * bool(asked.pairs)
    on = torch.cuda.get_device_name() if asked.device == "cuda" else f"{os.cpu_count()} CPU cores"
    machine = (
        f"{on}, {torch.get_num_threads()} threads, {asked.precision}, torch {torch.__version__}"
    )
    rows: list[dict[str, Any]] = []
    for part in parts:
        rows += part(asked)
        if asked.json:
            asked.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
