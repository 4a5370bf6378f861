"""Train several kinds of decoders for translation on one corpus; compare quality and speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, quantiles
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch

from manyheads.config import load as load_settings
from manyheads.data.sources import Example
from manyheads.decoding.config import BEAM, DecodingConfig
from manyheads.lab.figures import COLOURS, MARKERS, add_legend_below, label_axes, make_figure
from manyheads.learn import Request, fit_into, prepare_run, resolve, resume_run
from manyheads.metrics.report import format_table
from manyheads.models import load
from manyheads.tasks.seq2seq.evaluation import evaluate_texts
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.parallel.config import PARALLEL
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork
from manyheads.tasks.seq2seq.writing import write_targets
from manyheads.training.distributed import World
from manyheads.training.pace import FITTED
from manyheads.training.run import METRICS, RECIPE, Run
from manyheads.training.trainer import Callback
from manyheads.training.weights import count_parameters

RAW, DISTILLED = "raw", "distilled"
TARGETS = (RAW, DISTILLED)
BATCH = 64
TIMED = 50  # sentences that are timed one by one, and a tenth as many batches of 64
ALL = 1 << 24  # tokens: so many that no batch is cut
NONE: Mapping[str, Any] = MappingProxyType({})


class Rival(NamedTuple):
    """A network, and the ways in which it can decode."""

    name: str
    kind: str
    settings: tuple[str, ...]
    ways: Mapping[str, Mapping[str, Any]]  # by name, as settings of a DecodingConfig

    def folder(self, targets: str) -> str:
        """ "CTC + glancing", "raw" -> "ctc-glancing-raw" """
        return "-".join([*self.name.lower().replace("+", "").split(), targets])


def make_rivals(depth: int) -> list[Rival]:
    """Return the networks to compare; the first is the teacher. All have `depth` encoder and
    decoder layers, but one: it has twice as many encoder layers and a single decoder layer.
    """
    searches = {"greedy": {"beam": 1}, f"beam {BEAM}": {"beam": BEAM}}
    alike, once = f"network.depth=[{depth}, {depth}]", {"": NONE}
    passes = {f"T = {n}": {"passes": n, "lengths": 5} for n in (1, 4, 10)}
    return [
        Rival(f"AR {depth}-{depth}", "transformer", (alike,), searches),
        Rival(f"AR {2 * depth}-1", "transformer", (f"network.depth=[{2 * depth}, 1]",), searches),
        Rival("CTC", "ctc", (alike,), once),
        Rival("CTC + glancing", "ctc", (alike, "network.glancing=0.5"), once),
        Rival("mask-predict", "mask-predict", (alike,), passes),
        Rival("latent", "latent", (alike,), searches),
    ]


# ---- training ----------------------------------------------------------------------------------


def ask_for(
    rival: Rival, targets: str, asked: Request, out: Path, rivals: Sequence[Rival]
) -> Request:
    """Return the request for a rival: its network, and the teacher if targets are distilled.
    Parallel decoders learn slowly from nothing: they start from the weights of the first rival.
    """
    own = [one for one in asked.settings if not one.startswith("network.depth")]
    first = out / rivals[0].folder(RAW)
    return replace(
        asked,
        settings=[*own, *rival.settings],
        files={**asked.files, **({"teacher": first} if targets == DISTILLED else {})},
        network=rival.kind,
        start_from=first if rival.kind in PARALLEL else None,
    )


def train_until(
    request: Request,
    run: Run,
    corpus: Any = None,
    callback: Callback = Callback(),
    asked_to_stop: Callable[[], bool] = lambda: False,
    *,
    deadline: float = math.inf,
    minutes: float | None = None,
) -> bool:
    """Start a run, or resume it, until it ends or until `deadline` (time.monotonic()); with
    `minutes`, in as many steps as fit. Return whether it ended.
    """
    device = torch.device(request.device)
    world = World(device=device, limited=device.type == "cuda")
    recipe, corpus = resolve(request, corpus)
    if not (run / RECIPE).exists():
        prepare_run(recipe, run, corpus)
        if minutes is not None:
            callback.say(fit_into(minutes, recipe, run, world))
    else:
        refuse_other_run(recipe, run, FITTED if minutes is not None else ())
    return resume_run(run, world, callback, asked_to_stop, deadline)


def refuse_other_run(recipe: Any, run: Run, fitted: Sequence[str]) -> None:
    """Refuse to go on with a run of another recipe; some settings of training may differ."""
    held = load_settings(type(recipe), run / RECIPE)
    chosen = {name: getattr(held.training, name) for name in fitted}
    if held != replace(recipe, training=replace(recipe.training, **chosen)):
        raise ValueError(
            f"{run.folder} holds a run with other settings; those would go on with it, "
            "another --out begins anew"
        )


# ---- measuring ---------------------------------------------------------------------------------


def measure_ways(
    rival: Rival, targets: str, run: Run, examples: Sequence[Example], device: str | None
) -> Iterator[dict[str, Any]]:
    """Yield a row for each way in which a trained rival decodes."""
    model = cast(Translator, load(run.folder, device))
    for way, settings in rival.ways.items():
        how, names = DecodingConfig(**settings), (rival.name, targets, way)
        yield {
            **dict(zip(("model", "targets", "way"), names, strict=True)),
            **measure_quality(model, examples, how),
            **measure_speed(model, examples, how),
        }


def measure_quality(
    model: Translator, examples: Sequence[Example], how: DecodingConfig
) -> dict[str, Any]:
    found = evaluate_texts(model, examples, how, model.task.tokenize)
    steps = [line["step"] for line in Run(model.task.held_in()).lines(METRICS)]
    return {
        "parameters": count_parameters(model.network),
        "steps": max(steps, default=0),
        **{name: round(one.value, 2) for name, one in found.measured.items()},
        "repeated_words": round(100 * count_repeats(found.outputs), 2),
    }


def measure_speed(
    model: Translator, examples: Sequence[Example], how: DecodingConfig
) -> dict[str, Any]:
    one, several = (time_batches(model, examples, how, size) for size in (1, BATCH))
    passes = {"passes": round(mean(one.passes), 1)}
    return {**passes, **one.describe("ms_batch_1"), **several.describe(f"ms_batch_{BATCH}")}


class BatchTimes(NamedTuple):
    """The times of batches, and their decoder passes."""

    milliseconds: list[float]  # per sentence, one for each batch
    passes: list[int]

    def describe(self, name: str) -> dict[str, float]:
        cuts = quantiles(self.milliseconds, n=10, method="inclusive")
        return {f"{name}_p50": round(cuts[4], 3), f"{name}_p90": round(cuts[8], 3)}


@torch.no_grad()
def time_batches(
    model: Translator, examples: Sequence[Example], how: DecodingConfig, size: int
) -> BatchTimes:
    """Time batches of `size` sentences in the order of the corpus. All run once before, so that
    whatever a first call records or compiles is ready.
    """
    some = list(examples[: TIMED if size == 1 else max(1, TIMED // 10) * size])
    rows = model.task.codecs.source.encode_all([one.source for one in some])
    batches = [rows[i : i + size] for i in range(0, len(rows), size)]
    batches = [batch for batch in batches if len(batch) == size] or batches
    found = BatchTimes([], [])
    for again in (False, True):
        for batch in batches if len(batches) > 1 else batches * 2:
            began = time.perf_counter()
            made = write_targets(
                model.network, batch, how, special=model.special_tokens, tokens=ALL
            )
            took = 1000 * (time.perf_counter() - began) / len(batch)
            if again:
                found.milliseconds.append(took)
                found.passes.append(
                    max(count_passes(model, how, len(one.logs)) for one, *_ in made)
                )
    return found


def count_passes(model: Translator, how: DecodingConfig, tokens: int) -> int:
    """Return the sequential decoder passes for a text of `tokens` tokens, its end included."""
    if isinstance(model.network, ParallelNetwork):
        return model.network.count_passes(how, tokens)
    return tokens


def count_repeats(texts: Sequence[str]) -> float:
    """Return the share of words that are equal to the one before: a third in "a a b"."""
    words = [text.split() for text in texts]
    same = sum(sum(map(str.__eq__, row[1:], row)) for row in words)
    return same / max(1, sum(map(len, words)))


def format_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format the rows as Markdown, for a terminal and a file."""
    return format_table(
        [
            {
                "model": row["model"],
                "targets": row["targets"],
                "written": row["way"],
                "BLEU": f"{row['bleu']:.2f}",
                "chrF": f"{row['chrf']:.2f}",
                "words repeated": f"{row['repeated_words']:.2f} %",
                "passes": f"{row['passes']:g}",
                **{
                    f"ms, {size} at once, {part}": f"{row[f'ms_batch_{size}_{part}']:.3g}"
                    for size in (1, BATCH)
                    for part in ("p50", "p90")
                },
            }
            for row in rows
        ]
    )


def draw_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw speed against quality: a point for each way to decode, hollow for raw targets; a line
    joins the points of one model.
    """
    figure, axes = make_figure("ab", (11, 4.6))
    names = list(dict.fromkeys(row["model"] for row in rows))
    for axis, size in ((axes["a"], 1), (axes["b"], BATCH)):
        for number, name in enumerate(names):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            for targets, filled in ((RAW, "white"), (DISTILLED, colour)):
                some = [row for row in rows if (row["model"], row["targets"]) == (name, targets)]
                across = [row[f"ms_batch_{size}_p50"] for row in some]
                up, label = [row["bleu"] for row in some], name if targets == DISTILLED else None
                axis.plot(across, up, marker, ls="-", c=colour, mfc=filled, lw=0.8, label=label)
                for x, row in zip(across, some, strict=True):
                    if len(some) > 1 and targets == DISTILLED:
                        axis.annotate(
                            row["way"],
                            (x, row["bleu"]),
                            (4, 4),
                            textcoords="offset points",
                            fontsize=7,
                        )
        title = "one sentence at a time" if size == 1 else f"{size} sentences at once"
        title += "; hollow: raw targets, filled: distilled"
        label_axes(axis, title, "milliseconds a sentence, p50", "BLEU")
        axis.set_xscale("log")
    add_legend_below(figure, axes["a"], len(names))
    figure.savefig(path, dpi=150)
